"""Where arrays become tensors: skorch and torch never see labels, data frames or float64 by accident."""

from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Integral

import numpy as np
import scipy.sparse
import torch

from fedrela_sk._labels import check_names, check_target, positions_in, sorted_names
from fedrela_sk._sklearn import _check_sample_weight, validate_data
from fedrela_sk.exceptions import FedReLaError, LabelError, NetError, NotFiniteError
from fedrela_sk.federation.setup._casting import check_exact, whole_numbers
from fedrela_sk.relabel.formulas._repetition import ADVICE, LARGEST_SUM
from fedrela_sk.training._net import floating_dtype
from fedrela_sk.training._sparse import SparseRows


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


def declared_classes(estimator):
    """The classes that `FederatedClassifier(classes=)` or else its net's own `classes` name, None if neither does."""
    declared = estimator.classes
    if declared is None:
        declared = getattr(estimator.estimator, "classes", None)
    return declared


def encode_labels(y, declared=None):
    """`EncodedLabels` of a target of any kind that scikit-learn knows as classes.

    Parameters
    ----------
    y : array-like of shape (n_rows,)
    declared : array-like of shape (n_classes,) or None
        All classes, in any order; None: those in `y`.

    Raises
    ------
    LabelError
        If there is only one class, or if `y` has a label that was not declared.
    """
    y = check_names(y)
    if declared is not None:
        classes = _check_declared(declared)
        return EncodedLabels(classes, codes_of(y, classes, "y"))
    y = check_target(y)
    classes, codes = sorted_names(y)
    if len(classes) < 2:
        raise LabelError(
            f"y has one class only, {classes.tolist()[0]!r}: there is nothing to classify. "
            "Pass rows of at least two classes (single clients may have one)."
        )
    return EncodedLabels(classes, codes)


def _check_declared(declared):
    """Declared classes, sorted."""
    declared = check_names(declared)
    classes, codes = sorted_names(declared)
    if len(classes) < len(declared):
        twice = classes.tolist()[int(np.bincount(codes).argmax())]
        raise LabelError(f"classes names {twice!r} more than once. Name every class once.")
    if len(classes) < 2:
        raise LabelError(f"classes must name at least two classes, got {declared.tolist()}.")
    return classes


def codes_of(labels, classes, what):
    """Positions of `labels` in the sorted `classes`.

    Raises
    ------
    LabelError
        If a label is not among them; `what` says whose labels they are.
    """
    labels = check_names(labels, what)
    codes = positions_in(classes, labels)
    unknown = np.flatnonzero(codes < 0)
    if len(unknown):
        row = int(unknown[0])
        raise LabelError(
            f"{what} has the label {labels.tolist()[row]!r} in row {row}, which is not among the classes "
            f"{classes.tolist()} of y."
        )
    return codes


def check_rows(estimator, X, y):
    """(X, y) as arrays of numbers and labels; the estimator learns number, names and shape of the features."""
    _refuse_containers(X, "X")
    y = None if y is None else check_names(y)
    with _naming_columns(X, "X"):
        given, (X, y) = X, validate_data(estimator, X, y, **_NUMBERS)
        X = _as_numbers(X)
        _check_columns(given, X, "X")
    estimator._row_shape = X.shape[1:]
    return X, y


def check_new_rows(estimator, X, what="X"):
    """Rows shaped as those that a federation was fitted on, finite numbers, as an ndarray or a sparse matrix."""
    _refuse_containers(X, what)
    with _naming_columns(X, what):
        _refuse_other_shapes(X, estimator._row_shape, what)
        given, X = X, _as_numbers(validate_data(estimator, X, reset=False, **_NUMBERS))
        _check_columns(given, X, what)
    return check_finite(X, what=what)


_NUMBERS = {
    "accept_sparse": ["csr", "csc"],
    "allow_nd": True,
    "dtype": "numeric",
    "ensure_all_finite": False,
}


def _refuse_containers(X, what):
    """Refuse what skorch takes beside arrays: a federation cuts rows."""
    if isinstance(X, dict | torch.utils.data.Dataset) or hasattr(X, "__next__"):
        raise ValueError(
            f"{what} must be an array, a data frame or a sparse matrix, whose rows can be cut into clients; got "
            f"{type(X).__name__}. Put several inputs side by side as columns and take them apart in the module; read "
            "a Dataset into arrays first."
        )


def _refuse_other_shapes(X, shape, what):
    """Refuse rows of another shape than at fit; what has no shape, or rows of another width, scikit-learn names."""
    own = np.shape(X) if isinstance(X, list | tuple) else getattr(X, "shape", ())
    if len(own) > 1 and tuple(own[1:]) != tuple(shape) and (len(own) > 2 or len(shape) > 1):
        raise ValueError(
            f"{what} has rows of shape {tuple(own[1:])}, but the federation was fitted on rows of shape "
            f"{tuple(shape)}."
        )


def _as_numbers(X):
    """`X` itself, or its objects as float64; a sparse matrix by rows, each column once in a row."""
    if scipy.sparse.issparse(X):
        X = scipy.sparse.csr_array(X)
        return X if X.has_canonical_format else _canonical(X)
    if X.dtype.kind in "mM":
        raise ValueError(f"dtype {X.dtype} holds no numbers")
    return _objects_as_numbers(X) if X.dtype.kind == "O" else X


def _canonical(X):
    X = X.copy()
    X.sum_duplicates()
    return X


def _objects_as_numbers(X):
    """Objects as float64, which holds whole numbers up to 2**53."""
    numbers = X.astype(np.float64)
    large = np.flatnonzero(np.abs(numbers.ravel()) > 2**53)
    for place in large.tolist():
        value = X.ravel()[place]
        if isinstance(value, Integral) and int(value) != int(numbers.ravel()[place]):
            raise NetError(_rounded(place % numbers[0].size, value))
    return numbers


def _check_columns(frame, X, what):
    """Refuse integers of a data frame that its other columns, of floats, make float64 and round."""
    if not hasattr(frame, "columns") or X.dtype.kind != "f":
        return
    for column in frame.columns:
        values = np.asarray(frame[column])
        if values.ndim == 1 and values.dtype.kind in "iu":
            check_exact(values[:, None], torch.float64, what, [column])


def _rounded(column, value):
    return (
        f"Column {column} holds {value}, which float64 rounds: different values become equal. Subtract an offset, or "
        "encode identifiers (sklearn.preprocessing.OrdinalEncoder)."
    )


@contextmanager
def _naming_columns(X, what):
    """Let errors about a data frame's values name the first column that holds no numbers."""
    try:
        yield
    except FedReLaError:
        raise
    except (TypeError, ValueError) as error:
        found = _first_word(X)
        if found is None:
            raise
        column, value = found
        kind = TypeError if isinstance(error, TypeError) and not hasattr(X, "columns") else ValueError
        raise kind(
            f"Column {column!r} of {what} holds {value!r}, which is no number ({error}). Encode it before the "
            "federation, for example with sklearn.preprocessing.OneHotEncoder in a ColumnTransformer, or drop it."
        ) from error


def _first_word(X):
    """(column, value) of the first value of a table that is no number, None if all are."""
    for column, values in _columns(X):
        for value in values:
            try:
                float(value)
            except (TypeError, ValueError):
                return column, value
    return None


def _columns(X):
    """(name or number, values as objects) of the columns of a data frame or a table of words or dates."""
    if hasattr(X, "columns"):
        for column in X.columns:
            yield column, _objects(X[column])
    elif isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "OUSmM":
        for column in range(X.shape[1]):
            yield column, _objects(X[:, column])


def _objects(values):
    array = np.asarray(values)
    return (array.astype(str) if array.dtype.kind in "mM" else array.astype(object)).ravel().tolist()


def check_finite(X, specs=(), what="X"):
    """`X` itself, if no entry is NaN or infinite; the error names the row and, given `specs`, its client."""
    if scipy.sparse.issparse(X):
        return _finite_sparse(X, specs, what)
    if X.dtype.kind != "f":
        return X
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(X.sum(dtype=np.float64)):  # one pass without a temporary the size of the data
            return X
    bad = np.flatnonzero(~np.isfinite(X.reshape(len(X), -1)).all(axis=1))
    if not len(bad):  # the sum itself overflowed
        return X
    row = int(bad[0])
    raise _not_finite(row, len(bad), np.isnan(X[row]).any(), specs, what)


def _finite_sparse(X, specs, what):
    rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    bad = np.unique(rows[~np.isfinite(X.data)])
    if not len(bad):
        return X
    row = int(bad[0])
    raise _not_finite(row, len(bad), np.isnan(X.data[rows == row]).any(), specs, what)


def _not_finite(row, n_rows, is_nan, specs, what):
    value = "NaN" if is_nan else "infinity"
    return NotFiniteError(
        f"Input {what} contains {value} in row {row}{_owner(row, specs)}; {n_rows} rows are affected. Impute "
        "or drop missing values first, for example with sklearn.impute.SimpleImputer in a pipeline."
    )


def _owner(row, specs):
    return next((f" (client {spec.key!r})" for spec in specs if row in spec.rows), "")


def check_row_weights(sample_weight, X):
    """Row weights as float64, None where all are one.

    Raises
    ------
    ValueError
        If a weight is negative or not finite, if all are zero, or if they sum to more than 2^53.
    """
    if sample_weight is None:
        return None
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    if (weights == 1).all():
        return None
    with np.errstate(over="ignore"):
        total = weights.sum()
    if total > LARGEST_SUM:
        raise ValueError(
            f"sample_weight sums to {total:g}, more than 2^53 = {LARGEST_SUM:g}: sums of weights are not "
            f"exact beyond. {ADVICE}"
        )
    # torch takes no array that cannot be written
    return weights if weights.flags.writeable else weights.copy()


def to_tensor(X, net, specs=(), what="X", whole=False, names=None):
    """`X` as one tensor in the dtype of the net's module, on its device; a sparse matrix as `SparseRows`.

    Parameters
    ----------
    X : ndarray of shape (n_rows, ...) or csr matrix
        Finite numbers.
    net : initialized skorch net
    specs : list of ClientSpec
        For the error: who holds a row.
    what : str
        For the error: what `X` is called.
    whole : bool
        Whether the module takes integers: the tensor is int64 then.
    names : sequence of str or None
        For the error: names of the columns.

    Raises
    ------
    NotFiniteError
        If a number is too large for the dtype of the module.
    NetError
        If the dtype of the module rounds whole numbers, so that different ones would become equal.
    """
    if whole:
        return torch.from_numpy(whole_numbers(X, what)).to(net.device)
    dtype = floating_dtype(net.module_)
    check_exact(X, dtype, what, names)
    if scipy.sparse.issparse(X):
        return _sparse_rows(X, dtype, net.device, what)
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


def _sparse_rows(X, dtype, device, what):
    """`SparseRows` of a matrix in a floating dtype that NumPy has."""
    if dtype not in (torch.float32, torch.float64):
        raise NetError(
            f"{what} is sparse and needs a net in float32 or float64, got {dtype}. Use X.toarray()."
        )
    with np.errstate(over="ignore"):
        cast = X.astype(np.float32 if dtype == torch.float32 else np.float64)
    if not np.isfinite(cast.data).all():
        raise NotFiniteError(
            f"Input {what} has a number that is too large for the module's dtype {dtype}. Scale the features first, "
            "for example with sklearn.preprocessing.MaxAbsScaler in a pipeline."
        )
    return SparseRows(cast, device)
