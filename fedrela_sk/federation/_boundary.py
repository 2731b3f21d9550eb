"""Where arrays become tensors: skorch and torch never see labels, data frames or float64 by accident."""

from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from fedrela_sk._sklearn import _check_sample_weight, validate_data
from fedrela_sk.exceptions import LabelError, NotFiniteError
from fedrela_sk.training._net import floating_dtype


@dataclass(frozen=True)
class EncodedLabels:
    """Labels as positions in the sorted classes.

    Attributes
    ----------
    classes : ndarray of shape (n_classes,)
    codes : ndarray of shape (n_rows,), int64
    """

    classes: np.ndarray
    codes: np.ndarray


def encode_labels(y):
    """`EncodedLabels` of a target of any kind that scikit-learn knows as classes.

    Raises
    ------
    LabelError
        If there is only one class.
    """
    y = column_or_1d(y, warn=True)
    try:
        classes, codes = np.unique(y, return_inverse=True)
    except TypeError as error:
        kinds = sorted({type(label).__name__ for label in y.tolist()})
        raise LabelError(f"Labels of different kinds cannot be sorted, got {kinds}. Use one kind.") from error
    # scikit-learn knows no type for objects: what they hold is what counts
    check_classification_targets(np.array(y.tolist()) if y.dtype == object else y)
    if len(classes) < 2:
        raise LabelError(
            f"y has one class only, {classes.tolist()[0]!r}: there is nothing to classify. "
            "Pass rows of at least two classes (single clients may have one)."
        )
    return EncodedLabels(classes, codes.astype(np.int64))


def codes_of(labels, classes, what):
    """Positions of `labels` in the sorted `classes`.

    Raises
    ------
    LabelError
        If a label is not among them; `what` says whose labels they are.
    """
    labels = column_or_1d(labels).tolist()
    codes = positions_in(classes.tolist(), labels)
    unknown = np.flatnonzero(codes < 0)
    if len(unknown):
        row = int(unknown[0])
        raise LabelError(
            f"{what} has the label {labels[row]!r} in row {row}, which is not among the classes "
            f"{classes.tolist()} of y."
        )
    return codes


def positions_in(known, values):
    """Position of each of `values` among the `known` ones, -1 where it is not there, ndarray of int64."""
    position = {value: i for i, value in enumerate(known)}
    return np.array([position.get(value, -1) for value in values], dtype=np.int64)


def check_rows(estimator, X, y):
    """(X, y) as arrays of numbers and labels; the estimator learns number and names of the features."""
    with _naming_columns(X, "X"):
        X, y = validate_data(estimator, X, y, **_NUMBERS)
        return _as_numbers(X), y


def check_new_rows(estimator, X, what="X"):
    """Rows shaped as those that a federation was fitted on, finite numbers, as an ndarray."""
    with _naming_columns(X, what):
        X = _as_numbers(validate_data(estimator, X, reset=False, **_NUMBERS))
    return check_finite(X, what=what)


_NUMBERS = {"allow_nd": True, "dtype": "numeric", "ensure_all_finite": False}


def _as_numbers(X):
    """`X` itself, or its objects as float64."""
    return X.astype(np.float64) if X.dtype.kind == "O" else X


@contextmanager
def _naming_columns(X, what):
    """Let errors about a data frame's values name the first column that holds no numbers."""
    try:
        yield
    except (TypeError, ValueError) as error:
        found = _first_word(X) if hasattr(X, "columns") else None
        if found is None:
            raise
        column, value = found
        raise ValueError(
            f"Column {column!r} of {what} holds {value!r}, which is no number. Encode it before the federation, for "
            "example with sklearn.preprocessing.OneHotEncoder in a ColumnTransformer, or drop it."
        ) from error


def _first_word(frame):
    """(column, value) of the first value of a data frame that is no number, None if all are."""
    for column in frame.columns:
        for value in np.asarray(frame[column], dtype=object).ravel().tolist():
            try:
                float(value)
            except (TypeError, ValueError):
                return column, value
    return None


def check_finite(X, specs=(), what="X"):
    """`X` itself, if no entry is NaN or infinite; the error names the row and, given `specs`, its client."""
    if X.dtype.kind != "f":
        return X
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(X.sum(dtype=np.float64)):  # one pass without a temporary the size of the data
            return X
    bad = np.flatnonzero(~np.isfinite(X.reshape(len(X), -1)).all(axis=1))
    if not len(bad):  # the sum itself overflowed
        return X
    row = int(bad[0])
    value = "NaN" if np.isnan(X[row]).any() else "infinity"
    raise NotFiniteError(
        f"Input {what} contains {value} in row {row}{_owner(row, specs)}; {len(bad)} rows are affected. Impute "
        "or drop missing values first, for example with sklearn.impute.SimpleImputer in a pipeline."
    )


def _owner(row, specs):
    return next((f" (client {spec.key!r})" for spec in specs if row in spec.rows), "")


def check_row_weights(sample_weight, X):
    """Row weights as float64, None where all are one.

    Raises
    ------
    ValueError
        If a weight is negative or not finite, or if all are zero.
    """
    if sample_weight is None:
        return None
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    if (weights == 1).all():
        return None
    # torch takes no array that cannot be written
    return weights if weights.flags.writeable else weights.copy()


def to_tensor(X, net, specs=(), what="X"):
    """`X` as one tensor in the dtype of the net's module, on its device.

    Parameters
    ----------
    X : ndarray of shape (n_rows, ...)
        Finite numbers.
    net : initialised skorch net
    specs : list of ClientSpec
        For the error: who holds a row.
    what : str
        For the error: what `X` is called.

    Raises
    ------
    NotFiniteError
        If a number is too large for the dtype of the module.
    """
    dtype = floating_dtype(net.module_)
    # torch reads native byte order, warns about arrays that it may not write to, and knows no longdouble
    kind = np.float64 if X.dtype.kind == "f" and X.dtype.itemsize > 8 else X.dtype.newbyteorder("=")
    tensor = torch.from_numpy(np.require(X, kind, ["C", "W"])).to(device=net.device, dtype=dtype)
    if torch.isfinite(tensor.sum()):
        return tensor
    bad = (~torch.isfinite(tensor.flatten(1)).all(1)).nonzero()
    if not len(bad):  # the sum itself overflowed
        return tensor
    row = int(bad[0])
    raise NotFiniteError(
        f"Input {what} has a number in row {row}{_owner(row, specs)} that is too large for the module's dtype "
        f"{dtype}, got {np.abs(X[row].astype(np.float64)).max():.6g}. Scale the features first, for example with "
        "sklearn.preprocessing.StandardScaler in a pipeline."
    )
