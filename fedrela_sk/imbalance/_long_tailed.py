"""Class sizes that fall exponentially from the head to the tail."""

from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import indexable

from fedrela_sk._checks import as_float
from fedrela_sk._labels import check_names, positions_in
from fedrela_sk._sklearn import Interval, _num_samples, validate_params
from fedrela_sk._typing import Array, RandomState
from fedrela_sk.exceptions import LabelError, PartitionError
from fedrela_sk.imbalance._cut import check_classes, check_none_vanishes, cut_arrays, rows_to_keep


@validate_params(
    {
        "n_classes": [Interval(Integral, 2, None, closed="left")],
        "imbalance_factor": [Interval(Real, 1, None, closed="left")],
        "n_max": [Interval(Real, 0, None, closed="neither")],
    },
    prefer_skip_nested_validation=True,
)
def long_tailed_counts(n_classes: int, *, imbalance_factor: float, n_max: float) -> Array:
    """Rows per class of a long tail: floor(n_max f^(c / (C - 1))) with f = 1 / imbalance_factor.

    Parameters
    ----------
    n_classes : int
        C, at least 2.
    imbalance_factor : float
        Size of the first class over size of the last, at least 1.
    n_max : float
        Rows of the first class, above 0.

    Returns
    -------
    counts : ndarray of shape (n_classes,), int
        From head to tail; the product is taken in float64 and truncated, as in the code of LDAM-DRW and all
        that follow it.

    References
    ----------
    Cao, Wei, Gaidon, Arechiga, Ma, "Learning imbalanced datasets with label-distribution-aware margin loss",
    NeurIPS 2019.

    Examples
    --------
    >>> from fedrela_sk.imbalance import long_tailed_counts
    >>> long_tailed_counts(10, imbalance_factor=100, n_max=5000).tolist()
    [5000, 2997, 1796, 1077, 645, 387, 232, 139, 83, 50]
    """
    return np.array([int(as_float(n_max) * share) for share in _shares(n_classes, imbalance_factor)])


def _shares(n_classes, imbalance_factor):
    # Python's own power, not NumPy's: they may differ in the last bit, and the counts are truncated
    return [(1 / as_float(imbalance_factor)) ** (position / (n_classes - 1)) for position in range(n_classes)]


@validate_params(
    {
        "imbalance_factor": [Interval(Real, 1, None, closed="left")],
        "n_max": [Interval(Real, 0, None, closed="neither"), None],
        "class_order": ["array-like", None],
        "shuffle": ["boolean"],
        "random_state": ["random_state"],
        "return_indices": ["boolean"],
    },
    prefer_skip_nested_validation=True,
)
def make_long_tailed(
    X: Any,
    y: ArrayLike,
    *arrays: ArrayLike,
    imbalance_factor: float = 100,
    n_max: float | None = None,
    class_order: ArrayLike | None = None,
    shuffle: bool = True,
    random_state: RandomState = None,
    return_indices: bool = False,
) -> tuple[Any, Any, Any, Array]:
    """Cut data to a long tail: class c of C keeps floor(n_max f^(c / (C - 1))) rows, f = 1 / imbalance_factor.

    Parameters
    ----------
    X : array-like, sparse matrix or data frame of shape (n_samples, ...)
        Anything scikit-learn can index by rows; its values are not looked at.
    y : array-like of shape (n_samples,)
        Class labels, at least two classes.
    *arrays : array-likes of length n_samples
        Cut along: groups, weights.
    imbalance_factor : float, default=100
        Size of the largest class over size of the smallest, at least 1.
    n_max : float or None, default=None
        Rows of the first class; None means n_samples / n_classes, the class size of balanced data.
    class_order : array-like of shape (n_classes,) or None, default=None
        The classes from head to tail; None means sorted.
    shuffle : bool, default=True
        Which rows stay is drawn at random; False keeps the first of each class.
    random_state : int, RandomState instance or None, default=None
        With an integer a larger `imbalance_factor` (same `n_max`) keeps a subset of the rows.
    return_indices : bool, default=False
        Also return which rows were kept.

    Returns
    -------
    X, y, *arrays : like the input
        The rows that stay, in their old order.
    indices : ndarray of int
        Only with `return_indices=True`: ascending positions of these rows.

    Raises
    ------
    PartitionError
        A class has fewer rows than it shall keep (the largest possible `n_max` is named), or would vanish.
    LabelError
        Fewer than two classes, or `class_order` does not list each class once.

    Examples
    --------
    >>> import numpy as np
    >>> from fedrela_sk.imbalance import make_long_tailed
    >>> y = np.repeat([0, 1, 2], 100)
    >>> X, y = make_long_tailed(np.arange(300), y, imbalance_factor=25, random_state=0)
    >>> np.bincount(y).tolist()
    [100, 20, 4]
    """
    X, y, *arrays = indexable(X, y, *arrays)
    classes, codes, counts = check_classes(y, _num_samples(X))
    positions = _positions(class_order, classes)
    shares = _shares(len(classes), imbalance_factor)
    n_max = len(codes) / len(classes) if n_max is None else as_float(n_max)
    targets = np.array([int(n_max * share) for share in shares])[positions]
    check_none_vanishes(targets, counts, classes)
    _check_enough(targets, counts, classes, np.array(shares)[positions])
    rows = rows_to_keep(codes, targets, shuffle, random_state)
    return cut_arrays((X, y, *arrays), rows, return_indices)


def _positions(class_order, classes):
    """The place of each sorted class in the order from head to tail."""
    if class_order is None:
        return np.arange(len(classes))
    order = check_names(class_order, "class_order")
    places = positions_in(classes, order)
    if not np.array_equal(np.sort(places), np.arange(len(classes))):
        raise LabelError(
            f"class_order must list each class of y once, from head to tail: the classes are "
            f"{classes.tolist()}, got {order.tolist()}."
        )
    return np.argsort(places)


def _check_enough(targets, counts, classes, shares):
    short = np.flatnonzero(targets > counts)
    if len(short):
        label, target, count = classes.tolist()[short[0]], targets[short[0]], counts[short[0]]
        raise PartitionError(
            f"Class {label!r} shall keep {target} rows: set n_max to at most {_largest_n_max(shares, counts)} or "
            f"list the classes by size in class_order; got a class of {count} rows."
        )


def _largest_n_max(shares, counts):
    """The largest whole n_max for which every class has rows enough."""
    n_max = int(np.min((counts + 1) / shares))
    while any(int(n_max * share) > count for share, count in zip(shares, counts, strict=True)):
        n_max -= 1
    return n_max
