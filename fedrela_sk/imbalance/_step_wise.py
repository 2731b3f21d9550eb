"""Two sizes of classes: the majority as it is, the minority divided by one ratio."""

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import indexable

from fedrela_sk._checks import as_float
from fedrela_sk._labels import check_names, positions_in, python_values
from fedrela_sk._sklearn import Interval, _num_samples, validate_params
from fedrela_sk._typing import Array, RandomState
from fedrela_sk.exceptions import LabelError
from fedrela_sk.imbalance._cut import check_classes, check_none_vanishes, cut_arrays, rows_to_keep


@validate_params(
    {
        "counts": ["array-like"],
        "imbalance_ratio": [Interval(Real, 1, None, closed="left")],
        "is_minority": ["array-like"],
    },
    prefer_skip_nested_validation=True,
)
def step_wise_counts(counts: ArrayLike, *, imbalance_ratio: float, is_minority: ArrayLike) -> Array:
    """Rows per class after a step: floor(n_c / imbalance_ratio) for the minority, n_c for the majority.

    Parameters
    ----------
    counts : array-like of shape (n_classes,), int
        Rows per class before.
    imbalance_ratio : float
        At least 1.
    is_minority : array-like of shape (n_classes,), bool

    Returns
    -------
    counts : ndarray of shape (n_classes,), int

    Examples
    --------
    >>> from fedrela_sk.imbalance import step_wise_counts
    >>> step_wise_counts([100, 99, 40], imbalance_ratio=10, is_minority=[False, True, True]).tolist()
    [100, 9, 4]
    """
    counts = np.asarray(counts)
    return np.where(is_minority, np.floor(counts / as_float(imbalance_ratio)), counts).astype(np.int64)


@validate_params(
    {
        "imbalance_ratio": [Interval(Real, 1, None, closed="left")],
        "minority": [Interval(Real, 0, 1, closed="neither"), "array-like"],
        "shuffle": ["boolean"],
        "random_state": ["random_state"],
        "return_indices": ["boolean"],
    },
    prefer_skip_nested_validation=True,
)
def make_step_wise(
    X: Any,
    y: ArrayLike,
    *arrays: ArrayLike,
    imbalance_ratio: float = 10,
    minority: Any = 0.3,
    shuffle: bool = True,
    random_state: RandomState = None,
    return_indices: bool = False,
) -> tuple[Any, Any, Any, Array]:
    """Cut data to a step: each minority class keeps floor(n_c / imbalance_ratio) of its n_c rows.

    Parameters
    ----------
    X : array-like, sparse matrix or data frame of shape (n_samples, ...)
        Anything scikit-learn can index by rows; its values are not looked at.
    y : array-like of shape (n_samples,)
        Class labels, at least two classes.
    *arrays : array-likes of length n_samples
        Cut along: groups, weights.
    imbalance_ratio : float, default=10
        At least 1.
    minority : float in (0, 1) or array-like of classes, default=0.3
        Which classes are cut. A share means the last classes in sorted order, share * n_classes of them,
        halves rounded up, but at least one and not all. A list names them.
    shuffle : bool, default=True
        Which rows stay is drawn at random; False keeps the first of each class.
    random_state : int, RandomState instance or None, default=None
        With an integer a larger `imbalance_ratio` keeps a subset of the rows.
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
        A minority class would vanish.
    LabelError
        Fewer than two classes, or `minority` names an unknown class, one twice, none or all.

    Notes
    -----
    Published step-wise data differ: released code of FedReLa makes the last half of the classes the minority,
    that of CLIMB classes 0, 2, 4, ... and cuts them from one pool, so that their sizes are equal only
    roughly. Here every class is cut by itself.

    Examples
    --------
    >>> import numpy as np
    >>> from fedrela_sk.imbalance import make_step_wise
    >>> y = np.repeat([0, 1, 2, 3], 50)
    >>> X, y = make_step_wise(np.arange(200), y, imbalance_ratio=10, minority=0.5, random_state=0)
    >>> np.bincount(y).tolist()
    [50, 50, 5, 5]
    """
    X, y, *arrays = indexable(X, y, *arrays)
    classes, codes, counts = check_classes(y, _num_samples(X))
    targets = step_wise_counts(
        counts, imbalance_ratio=imbalance_ratio, is_minority=_is_minority(minority, classes)
    )
    check_none_vanishes(targets, counts, classes)
    rows = rows_to_keep(codes, targets, shuffle, random_state)
    return cut_arrays((X, y, *arrays), rows, return_indices)


def _is_minority(minority, classes):
    """A boolean for each sorted class."""
    if isinstance(minority, Real):
        return np.arange(len(classes)) >= len(classes) - _n_minority(as_float(minority), len(classes))
    named = check_names(minority, "minority")
    places, chosen = positions_in(classes, named), python_values(named)
    unknown = [label for label, place in zip(chosen, places, strict=True) if place < 0]
    if unknown:
        raise LabelError(
            f"minority must name classes of y, which are {classes.tolist()}: got the unknown {unknown}."
        )
    if not 0 < len(chosen) < len(classes) or len(set(chosen)) < len(chosen):
        raise LabelError(
            f"minority must name at least one class, not all {len(classes)}, and none twice: got {chosen}."
        )
    return np.isin(np.arange(len(classes)), places)


def _n_minority(share, n_classes):
    """Share times classes, halves up; the tiny term undoes products such as 0.145 * 100 = 14.499..."""
    return min(max(1, int(share * n_classes + 0.5 + 1e-9)), n_classes - 1)
