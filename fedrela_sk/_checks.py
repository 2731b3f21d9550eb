"""Checks at the public door: rows of posteriors or scores, labels against classes.

Each `check_` function returns the cleaned value, or raises an error that names what was got, where, and what to
do. Nothing is repaired: no clipping, no renormalizing, no filled gaps.
"""

from numbers import Integral

import numpy as np
from sklearn.utils import check_array

from fedrela_sk._labels import check_names, positions_in, python_values, same_names, sorted_names
from fedrela_sk._typing import Array
from fedrela_sk.exceptions import LabelError, NotFiniteError, PosteriorError

# how far a row of posteriors may be from summing to one, by bytes of the floating type it came in
SUM_TOLERANCE = {2: 1e-2, 4: 1e-4}
SUM_TOLERANCE_FLOAT64 = 1e-6
# squares of larger scores would leave float64
LARGEST_SCORE = 1e150

_POSTERIORS_HINT = (
    "Pass probabilities, such as `predict_proba` returns: apply softmax to logits first, or set input='score'. "
    "If these are features: FedReLaSampler and RelabelingClassifier take features and make the posteriors."
)


def as_float(number):
    """A real parameter as Python's float, so that arithmetic with it is float64 whatever kind of number it is.

    A narrower float stands for the shortest decimal that it prints as: ``np.float32(0.29)`` means 0.29, of which 100
    rows are 29, not 0.28999999165534973.

    Parameters
    ----------
    number : real number
        Of Python or NumPy.

    Returns
    -------
    number : float
    """
    if isinstance(number, np.floating) and number.dtype.itemsize < 8:
        return float(str(number))
    return float(number)


def check_posteriors(posteriors) -> Array:
    """Rows of class probabilities, one column per class.

    Parameters
    ----------
    posteriors : array-like of shape (n_rows, n_classes) or (n_rows, 1)
        One column p stands for (1 - p, p).

    Returns
    -------
    posteriors : ndarray of shape (n_rows, n_classes), float64
        The entries as they came, never renormalized; no copy where they were float64.

    Raises
    ------
    PosteriorError
        A row holds NaN or infinity, an entry lies outside [-tol, 1 + tol], or a row misses the sum 1 by more
        than tol: 1e-6 for float64 (and integers), 1e-4 for float32, 1e-2 for 16-bit floats.
    """
    given = _two_dimensional(posteriors)
    tolerance = SUM_TOLERANCE.get(given.dtype.itemsize, SUM_TOLERANCE_FLOAT64)
    posteriors = given.astype(np.float64, copy=False)
    _check_range(
        posteriors, -tolerance, 1.0 + tolerance, "posteriors", "a probability in [0, 1]", _POSTERIORS_HINT
    )
    if posteriors.shape[1] == 1:
        return np.hstack([1.0 - posteriors, posteriors])
    sums = posteriors.sum(axis=1)
    wrong = np.abs(sums - 1.0) > tolerance
    if wrong.any():
        row = int(np.argmax(wrong))
        raise PosteriorError(
            f"Row {row} of posteriors sums to {sums[row]:.9g}, expected 1. "
            f"(The tolerance is {tolerance:g} for {given.dtype}.) {_POSTERIORS_HINT}"
        )
    return posteriors


def check_scores(scores):
    """Rows of finite scores, one column per class.

    Parameters
    ----------
    scores : array-like of shape (n_rows, n_classes) or (n_rows, 1)
        One column s stands for (-s, s).

    Returns
    -------
    scores : ndarray of shape (n_rows, n_classes), float64

    Raises
    ------
    PosteriorError
        An entry is not finite, or larger than 1e150 in size.
    """
    scores = _two_dimensional(scores).astype(np.float64, copy=False)
    expected = f"at most {LARGEST_SCORE:g} in size"
    _check_range(
        scores, -LARGEST_SCORE, LARGEST_SCORE, "scores", expected, "Divide the scores by a constant."
    )
    return np.hstack([-scores, scores]) if scores.shape[1] == 1 else scores


def _two_dimensional(values):
    """`values` as a 2-d array of numbers; floats keep their precision."""
    if type(values) is np.ndarray and values.ndim == 2 and values.size > 0 and values.dtype.kind == "f":
        return values
    return check_array(values, dtype="numeric", ensure_all_finite=False)


def _check_range(values, low, high, what, expected, hint):
    if values.min() >= low and values.max() <= high:  # False for NaN
        return
    inside = np.isfinite(values)
    if inside.all():
        inside = (values >= low) & (values <= high)
    else:
        expected = "a finite number"
        hint = "Look for what made the model or its features NaN or infinite; nothing is filled in here."
    row, column = np.argwhere(~inside)[0].tolist()
    raise PosteriorError(
        f"Row {row} of {what} holds {_spell(values[row, column])} in column {column}, expected {expected}. {hint}"
    )


def _spell(value):
    return "NaN" if np.isnan(value) else f"{value:.9g}"


def check_labels(y, n_rows) -> Array:
    """Labels as a one-dimensional array, one per row.

    Parameters
    ----------
    y : array-like of shape (n_rows,)
    n_rows : int
        Rows that the labels belong to.

    Returns
    -------
    y : ndarray of shape (n_rows,)
        See `fedrela_sk._labels.check_names`.

    Raises
    ------
    LabelError
        No labels, another number of labels than rows, or missing values among them.
    """
    if y is None:
        raise LabelError(
            "This method requires y to be passed, but the target y is None. Pass one label per row."
        )
    y = check_names(y)
    if len(y) != n_rows:
        raise LabelError(
            f"Got {len(y)} labels for {n_rows} rows (inconsistent lengths). Pass one label per row, in their order."
        )
    return y


def finite_posteriors(Q, source):
    """`Q` itself, if every entry is finite.

    Parameters
    ----------
    Q : ndarray of shape (n_rows, n_classes)
        Posteriors on their way to the caller.
    source : str
        What made them, for the error.

    Raises
    ------
    NotFiniteError
        With the first row that has a NaN or an infinity: the first class would be the most probable one.
    """
    finite = np.isfinite(Q).all(axis=1)
    if not finite.all():
        row = int(np.argmin(finite))
        raise NotFiniteError(
            f"The posterior of row {row} is not finite, {source} gave {np.asarray(Q)[row]} "
            f"({int((~finite).sum())} such rows). Scale the features as at fit, and "
            "look for values far from those that were trained on."
        )
    return Q


def check_classes(classes, n_columns):
    """The class list that names the columns, in the caller's order.

    Parameters
    ----------
    classes : array-like of shape (n_columns,)
    n_columns : int
        Columns of posteriors, one column having become two.

    Returns
    -------
    classes : ndarray of shape (n_columns,)

    Raises
    ------
    LabelError
        Duplicates, or another number of classes than columns.
    """
    classes = check_names(classes, "classes")
    labels = python_values(classes)
    if len(set(labels)) < len(labels):
        twice = next(label for label in labels if labels.count(label) > 1)
        raise LabelError(
            f"`classes` holds {twice!r} more than once: {labels}. List each class once, in the order of the columns."
        )
    if len(labels) != n_columns:
        raise LabelError(
            f"`classes` names {len(labels)} classes, {labels}, for {n_columns} columns. Pass one column per class, "
            "in the order of `classes`."
        )
    return classes


def classes_from_labels(y, n_columns):
    """The class list when none was given.

    As many distinct labels as columns: the sorted labels. Otherwise the labels must be integers in
    0..n_columns-1 with 0 among them, and these numbers are the classes.

    Parameters
    ----------
    y : ndarray of shape (n_rows,)
    n_columns : int

    Returns
    -------
    classes : ndarray of shape (n_columns,)

    Raises
    ------
    LabelError
        The labels do not say which column is whose.
    """
    labels = sorted_names(y)[0]
    if len(labels) == n_columns:
        return labels
    if _are_integers(labels) and labels[0] == 0 and labels[-1] < n_columns:
        dtype = np.promote_types(labels.dtype, np.min_scalar_type(n_columns - 1))
        return np.arange(n_columns).astype(dtype)
    raise LabelError(
        f"Got {len(labels)} class{'es' if len(labels) > 1 else ''} in y, {labels[:10].tolist()}, for {n_columns} "
        f"columns, and they are not integers in 0..{n_columns - 1} with 0 among them, so nothing says which column "
        "is whose. Pass `classes`: the labels of all columns, in their order."
    )


def _are_integers(labels):
    if labels.dtype.kind == "O":
        return all(isinstance(label, Integral) and not isinstance(label, bool) for label in labels)
    return labels.dtype.kind in "iu" or (labels.dtype.kind == "f" and np.all(labels == np.floor(labels)))


def encode_labels(y, classes):
    """Positions of the labels in the class list.

    Parameters
    ----------
    y : ndarray of shape (n_rows,)
    classes : ndarray of shape (n_classes,)

    Returns
    -------
    codes : ndarray of shape (n_rows,), intp

    Raises
    ------
    LabelError
        A label is not among the classes.
    """
    codes = positions_in(classes, y)
    if codes.min() < 0:
        row = int(np.argmin(codes))
        raise LabelError(
            f"Label {y[[row]].tolist()[0]!r} of row {row} is not among the {len(classes)} classes "
            f"{classes[:10].tolist()}. Pass `classes` with every label that occurs, one per column."
        )
    return codes


def label_dtype(y, classes):
    """A dtype that holds every class: that of `y` itself where it can.

    Parameters
    ----------
    y, classes : ndarray

    Returns
    -------
    dtype : numpy.dtype
    """
    if y.dtype.kind in "US" and classes.dtype.kind == y.dtype.kind:
        return np.promote_types(y.dtype, classes.dtype)
    if y.dtype.kind == "O" or y.dtype == classes.dtype:
        return y.dtype
    with np.errstate(invalid="ignore", over="ignore"):
        holds_all = y.dtype.kind not in "USmM" and same_names(classes.astype(y.dtype), classes)
    return y.dtype if holds_all else classes.dtype  # which holds the labels of y: they are among them
