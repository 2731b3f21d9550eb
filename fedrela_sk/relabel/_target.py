"""Labels in whatever container they come, and the same container with some labels replaced."""

import sys

import numpy as np

from fedrela_sk._labels import check_names, check_target, python_values, sorted_names
from fedrela_sk.exceptions import LabelError


def check_labels(y):
    """Labels as a plain one-dimensional array, with their classes.

    Parameters
    ----------
    y : array-like of shape (n_samples,) or (n_samples, 1)
        Strings, booleans or integers (gaps and negative numbers are fine): array, list, Series or one-column
        frame of pandas or polars, array of pyarrow, of any dtype.

    Returns
    -------
    labels : ndarray of shape (n_samples,)
        What the inner classifier is trained on, as `fedrela_sk._labels.check_names` makes it: nullable integers
        and booleans and objects that hold only Python ones become NumPy's, which every classifier takes and gives
        back as they are.
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
    labels = check_names(y)
    if not len(labels):
        raise LabelError("y holds 0 labels: there are no rows to fit. Check how the rows were selected.")
    return check_target(labels), sorted_names(labels)[0]


def with_labels(y, changed, new):
    """A copy of `y`, in its own container and dtype, in which the rows of `changed` hold new labels.

    Parameters
    ----------
    y : array-like of shape (n_samples,) or (n_samples, 1)
        As accepted by `check_labels`; it is left as it is.
    changed : ndarray of shape (n_samples,), bool
    new : ndarray of shape (n_samples,)
        New labels, read only at the rows of `changed`; each must occur in `y`.
    """
    rows = np.flatnonzero(changed)
    if hasattr(y, "iloc"):
        copy = y.copy()
        copy.iloc[rows if y.ndim == 1 else (rows, 0)] = new[rows]
        return copy
    if hasattr(y, "to_pylist") or hasattr(y, "get_columns") or hasattr(y, "null_count"):
        return _of_arrow_or_polars(y, rows, new)
    if hasattr(y, "to_series"):  # an index of pandas
        return type(y)(with_labels(y.to_series(), changed, new), name=y.name)
    copy = y.copy() if hasattr(y, "copy") and hasattr(y, "dtype") else np.array(y)
    if isinstance(y, list | tuple):
        copy = check_names(y)
    copy = copy if copy.ndim == 1 else copy.reshape(-1)
    copy[rows] = new[rows]
    copy = copy if not hasattr(y, "shape") else copy.reshape(y.shape)
    return copy.tolist() if isinstance(y, list) else copy


def _of_arrow_or_polars(y, rows, new):
    """The same of what polars or pyarrow hold, whose entries cannot be written: another one of the same type."""
    if hasattr(y, "get_columns"):
        return type(y)([_of_arrow_or_polars(y.get_columns()[0], rows, new)])
    if hasattr(y, "column_names"):
        return type(y).from_arrays([_of_arrow_or_polars(y.column(0), rows, new)], names=y.column_names)
    entries = y.to_list() if hasattr(y, "to_list") and hasattr(y, "name") else y.to_pylist()
    entry = dict(zip(python_values(check_names(y)), entries, strict=True))
    for row, label in zip(rows.tolist(), python_values(new[rows]), strict=True):
        entries[row] = entry[label]
    if not hasattr(y, "to_pylist"):
        return type(y)(y.name, entries, dtype=y.dtype)
    pyarrow = sys.modules["pyarrow"]  # whoever holds such labels has loaded it

    make = pyarrow.chunked_array if hasattr(y, "chunks") else pyarrow.array
    return make([entries] if hasattr(y, "chunks") else entries, type=y.type)
