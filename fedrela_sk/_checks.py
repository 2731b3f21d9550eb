"""Checks at the public door: rows of posteriors or scores, labels against classes.

Each `check_` function returns the cleaned value or raises an error that names what was got, where, and what
to do. Nothing is repaired: no clipping, no renormalising, no filled gaps.
"""

import numpy as np
from sklearn.utils import check_array, column_or_1d

from fedrela_sk.exceptions import LabelError, PosteriorError

# how far a row of posteriors may be from summing to one, by bytes of the floating type it came in
SUM_TOLERANCE = {2: 1e-2, 4: 1e-4}
SUM_TOLERANCE_FLOAT64 = 1e-6
# squares of larger scores would leave float64
LARGEST_SCORE = 1e150

_FEATURES_HINT = (
    "Pass the output of `predict_proba` (apply softmax to logits first, or set input='score'). "
    "If these are features: FedReLaSampler and RelabelingClassifier take features and make the posteriors themselves."
)


def _two_dimensional(values):
    """`values` as a 2-d floating array in its own precision; integers and objects become float64."""
    values = check_array(values, dtype="numeric", ensure_all_finite=False)
    return values if values.dtype.kind == "f" else values.astype(np.float64)


def _check_finite(values, what):
    # one pass without a temporary the size of the data: a sum is finite unless an entry is not, or it overflows
    if np.isfinite(np.sum(values, dtype=np.float64)):
        return
    bad = np.argwhere(~np.isfinite(values))
    if len(bad):
        row, column = (int(k) for k in bad[0])
        raise PosteriorError(
            f"Row {row} of {what} holds {_spell(values[row, column])} in column {column}; every entry must be "
            f"finite (no NaN, no inf). Find out why the model gave it, or leave the row out."
        )


def _spell(value):
    return "NaN" if np.isnan(value) else f"{float(value):.6g}"


def check_posteriors(posteriors):
    """Rows of class probabilities, one column per class.

    Parameters
    ----------
    posteriors : array-like of shape (n_rows, n_classes) or (n_rows, 1)
        One column p stands for (1 - p, p).

    Returns
    -------
    posteriors : ndarray of shape (n_rows, n_classes), float64
        The entries as they came, never renormalised.

    Raises
    ------
    PosteriorError
        A row holds NaN or infinity, an entry lies outside [-tol, 1 + tol], or a row misses the sum 1 by more than
        tol: 1e-6 for float64 (and integers), 1e-4 for float32, 1e-2 for 16-bit floats.
    """
    given = _two_dimensional(posteriors)
    tolerance = SUM_TOLERANCE.get(given.dtype.itemsize, SUM_TOLERANCE_FLOAT64)
    posteriors = given.astype(np.float64, copy=False)
    _check_finite(posteriors, "posteriors")
    if posteriors.min() < -tolerance or posteriors.max() > 1 + tolerance:
        outside = (posteriors < -tolerance) | (posteriors > 1 + tolerance)
        row, column = (int(k) for k in np.argwhere(outside)[0])
        raise PosteriorError(
            f"Row {row} of posteriors holds {posteriors[row, column]:.6g} in column {column}, "
            f"expected a probability in [0, 1]. {_FEATURES_HINT}"
        )
    if posteriors.shape[1] == 1:
        return np.hstack([1.0 - posteriors, posteriors])
    sums = posteriors.sum(axis=1)
    row = int(np.argmax(np.abs(sums - 1.0)))
    if abs(sums[row] - 1.0) > tolerance:
        raise PosteriorError(
            f"Row {row} of posteriors sums to {sums[row]:.6g}, expected 1 (up to {tolerance:g} for {given.dtype}). "
            f"{_FEATURES_HINT}"
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
    _check_finite(scores, "scores")
    if max(scores.max(), -scores.min()) > LARGEST_SCORE:
        row, column = (int(k) for k in np.argwhere(np.abs(scores) > LARGEST_SCORE)[0])
        raise PosteriorError(
            f"Row {row} of scores holds {scores[row, column]:.6g} in column {column}, expected at most "
            f"{LARGEST_SCORE:g} in size. Divide the scores by a constant."
        )
    return np.hstack([-scores, scores]) if scores.shape[1] == 1 else scores


def check_labels(y, n_rows):
    """Labels as a one-dimensional array, one per row.

    Parameters
    ----------
    y : array-like of shape (n_rows,)
    n_rows : int
        Rows that the labels belong to.

    Returns
    -------
    y : ndarray of shape (n_rows,)
        Of the dtype it came in.

    Raises
    ------
    LabelError
        No labels, another number of labels than rows, or missing values among them.
    """
    if y is None:
        raise LabelError(
            "The labels are missing: this method requires y to be passed, but the target y is None."
        )
    y = column_or_1d(y, warn=True)
    if len(y) != n_rows:
        raise LabelError(
            f"Got {len(y)} labels for {n_rows} rows: inconsistent lengths. Pass exactly one label per row, "
            "in the order of the rows."
        )
    missing = y != y if y.dtype.kind in "fcO" else np.zeros(1, dtype=bool)
    if np.any(missing):
        raise LabelError(
            f"Label {int(np.argmax(missing))} is {y[np.argmax(missing)]} (NaN); leave rows without a label out."
        )
    return y


def check_classes(classes, n_columns):
    """The class list that names the columns, in the caller's order.

    Parameters
    ----------
    classes : array-like of shape (n_columns,)
    n_columns : int
        Columns of posteriors, after one column was expanded to two.

    Returns
    -------
    classes : ndarray of shape (n_columns,)

    Raises
    ------
    LabelError
        Duplicates, or another number of classes than columns.
    """
    classes = column_or_1d(np.asarray(classes))
    seen = set()
    doubled = [label for label in classes.tolist() if label in seen or seen.add(label)]
    if doubled:
        raise LabelError(
            f"`classes` holds {doubled[0]!r} more than once: {classes.tolist()}. List each class once, "
            "in the order of the columns."
        )
    if len(classes) != n_columns:
        raise LabelError(
            f"`classes` names {len(classes)} classes {classes.tolist()} but there are {n_columns} columns. "
            "Pass one column per class, in the order of `classes`."
        )
    return classes


def classes_from_labels(y, n_columns):
    """The class list when none was given.

    As many distinct labels as columns: the sorted labels. Otherwise the labels must be integers in
    0..n_columns-1 with 0 among them, and the classes are 0..n_columns-1.

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
    labels = _distinct(y)
    if len(labels) == n_columns:
        return labels
    whole = labels.dtype.kind in "iu" or (labels.dtype.kind == "f" and np.all(labels == np.floor(labels)))
    if whole and labels[0] == 0 and labels[-1] < n_columns:
        dtype = np.promote_types(labels.dtype, np.min_scalar_type(n_columns - 1))
        return np.arange(n_columns).astype(dtype)
    raise LabelError(
        f"Got {len(labels)} distinct labels {labels[:10].tolist()} for {n_columns} columns, and they are not integers "
        f"in 0..{n_columns - 1} with 0 among them, so it is unknown which column belongs to which class. "
        "Pass `classes`, the labels of all columns in their order."
    )


def _distinct(y):
    try:
        return np.unique(y)
    except TypeError as error:
        kinds = sorted({type(label).__name__ for label in y.tolist()})
        raise LabelError(
            f"Labels of different kinds cannot be sorted, got {kinds}. Use labels of one kind, or pass `classes`."
        ) from error


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
    position = {label: code for code, label in enumerate(classes.tolist())}
    try:
        labels, inverse = np.unique(y, return_inverse=True)
        found = [position.get(label, -1) for label in labels.tolist()]
        codes = np.array(found, dtype=np.intp)[inverse]
    except TypeError:  # labels that cannot be sorted can still be looked up
        codes = np.array([position.get(label, -1) for label in y.tolist()], dtype=np.intp)
    if np.any(codes < 0):
        row = int(np.argmax(codes < 0))
        raise LabelError(
            f"Label {y[row]!r} in row {row} is not among the {len(classes)} classes {classes[:10].tolist()}. "
            "Pass `classes` with every label that occurs, one per column."
        )
    return codes
