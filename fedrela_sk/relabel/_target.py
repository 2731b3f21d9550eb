"""Labels in whatever container they come, and the same container with some labels replaced."""

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from fedrela_sk.exceptions import LabelError


def check_labels(y):
    """Labels as a plain one-dimensional array, with their classes.

    Parameters
    ----------
    y : array-like of shape (n_samples,) or (n_samples, 1)
        Strings, booleans or integers (gaps and negative numbers are fine): array, list, pandas Series or
        one-column DataFrame of any dtype, nullable and categorical ones included.

    Returns
    -------
    labels : ndarray of shape (n_samples,)
        What the inner classifier is trained on; pandas' nullable integers and booleans and objects that
        hold only Python ones become NumPy's, which every classifier takes and gives back as they are.
    classes : ndarray of shape (n_classes,)
        The sorted distinct labels, of the dtype of `labels`.

    Raises
    ------
    LabelError
        There are no labels, one is missing, or labels cannot be sorted because their types differ.
    ValueError
        `y` is None, continuous, or has several columns (scikit-learn's own messages).
    """
    if y is None:
        raise ValueError("This estimator requires y to be passed, but the target y is None.")
    values = _missing_refused(y)
    labels = _numbers_as_numbers(column_or_1d(values, warn=True))
    if not len(labels):
        raise LabelError("y holds 0 labels: there are no rows to fit. Check how the rows were selected.")
    _same_type(labels)
    check_classification_targets(labels)
    return labels, np.unique(labels)


def with_labels(y, changed, new):
    """A copy of `y`, in its own container and dtype, in which the rows of `changed` hold new labels.

    Parameters
    ----------
    y : array-like of shape (n_samples,) or (n_samples, 1)
        As accepted by `check_labels`; it is left as it is.
    changed : ndarray of shape (n_samples,), bool
    new : ndarray of shape (n_samples,)
        New labels, read at the rows of `changed` alone; each must occur in `y`.
    """
    if hasattr(y, "iloc"):
        copy, rows = y.copy(), np.flatnonzero(changed)
        copy.iloc[rows if y.ndim == 1 else (rows, 0)] = new[rows]
        return copy
    copy = np.array(y)
    copy.reshape(-1)[changed] = new[changed]
    return copy.tolist() if isinstance(y, list) else copy


def _missing_refused(y):
    """`y` as an array; pandas' own marks for a missing label cannot even be compared, so look first."""
    missing = np.asarray(y.isna()).ravel() if hasattr(y, "isna") else np.zeros(0, bool)
    if missing.any():
        raise LabelError(
            f"Input y contains NaN: the label of row {int(missing.argmax())} is missing, and so are "
            f"{int(missing.sum())} in all. Drop rows without a label before fitting."
        )
    return np.asarray(y)


def _numbers_as_numbers(labels):
    """Objects that are all integers, or all booleans, as an array of that dtype."""
    if labels.dtype != object or not len(labels) or isinstance(labels[0], str):
        return labels
    kinds = {type(label) for label in labels}
    numbers = np.array(labels.tolist()) if len(kinds) == 1 else labels
    return numbers if numbers.dtype.kind in "biu" else labels


def _same_type(labels):
    """Refuse objects that cannot be sorted."""
    if labels.dtype != object:
        return
    kinds = {type(label).__name__ for label in labels}
    if len(kinds) > 1:
        raise LabelError(
            f"Labels must be of one type, got {', '.join(sorted(kinds))}. "
            "Convert them first, for instance by `y.astype(str)`, and drop rows without a label."
        )
