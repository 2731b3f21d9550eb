"""Numbers into the dtype of a module: what it cannot hold is an error, never a rounded value."""

import numpy as np
import scipy.sparse
import torch

from fedrela_sk.exceptions import NetError

# Bits that a dtype has for the digits of a number.
_DIGITS = {torch.float64: 53, torch.float32: 24, torch.float16: 11, torch.bfloat16: 8}
# Share of a column's standard deviation that rounding may move its values by.
_LOST = 0.01


def check_exact(X, dtype, what="X", names=None):
    """Refuse whole numbers that a dtype rounds, and large numbers that it makes equal.

    Parameters
    ----------
    X : ndarray of shape (n_rows, ...) or sparse matrix
        Finite numbers.
    dtype : torch.dtype
    what : str
        What `X` is called, for the error.
    names : sequence of str or None
        Names of the columns.

    Raises
    ------
    NetError
        With the first such column, a value, and the way out.
    """
    limit = 2 ** _DIGITS.get(dtype, 24)
    for column, values in _large_columns(X, limit):
        row = _first_rounded(values, dtype, limit)
        if row is None:
            continue
        value = values[row]
        rounded = torch.tensor(float(value)).to(torch.float64).to(dtype).item()
        name = repr(names[column]) if names is not None else column
        raise NetError(
            f"Column {name} of {what} holds {value}, which the module's dtype {dtype} rounds to {rounded:.17g}: "
            "different values become equal. Subtract an offset (the first time stamp), scale in float64 "
            "(sklearn.preprocessing.StandardScaler in a pipeline), encode identifiers "
            "(sklearn.preprocessing.OrdinalEncoder), or make the module float64 (module.double())."
        )


def _large_columns(X, limit):
    """(column, its values) where some absolute value is above `limit`."""
    if scipy.sparse.issparse(X):
        columns = X.indices
        large = np.unique(columns[_above(X.data, limit)])
        for column in large.tolist():
            yield column, X.data[columns == column]
        return
    if not len(X) or X.dtype.kind not in "iuf":
        return
    flat = X.reshape(len(X), -1)
    for column in np.flatnonzero(_above(flat.max(0), limit) | _above(flat.min(0), limit)).tolist():
        yield column, flat[:, column]


def _above(values, limit):
    values = values.astype(np.float64) if values.dtype.kind == "f" else values
    return (values > limit) | (values < -limit if values.dtype.kind != "u" else False)


def _first_rounded(values, dtype, limit):
    """Position of the first value that loses digits which matter; None if there is none."""
    if values.dtype.kind in "iu":
        bad = ~_holds(values, limit)
    else:
        values = values.astype(np.float64)
        cast = torch.from_numpy(values.copy()).to(dtype).to(torch.float64).numpy()
        if not np.isfinite(cast).all():  # too large altogether, which has an error of its own
            return None
        moved = np.abs(cast - values)
        with np.errstate(over="ignore"):
            spread = values.std()
        whole = (values == np.rint(values)).all() and np.abs(
            values
        ).max() <= 2**53  # above, all floats are whole
        bad = moved > 0 if whole else (moved > _LOST * spread) & (spread > 0)
    return int(bad.argmax()) if bad.any() else None


def _holds(values, limit):
    """Whether whole numbers have at most as many digits between their first and last binary 1 as fit."""
    size = values.astype(np.uint64)
    if values.dtype.kind == "i":
        size = np.where(
            values < 0, ~size + np.uint64(1), size
        )  # two's complement, right for the smallest one too
    lowest = size & (~size + np.uint64(1))
    return (size == 0) | (size // np.maximum(lowest, np.uint64(1)) < limit)


def whole_numbers(X, what="X"):
    """`X` as int64, for modules that want integers.

    Raises
    ------
    NetError
        If a number is not whole, or too large for int64.
    """
    if scipy.sparse.issparse(X):
        X = X.toarray()
    flat = X.reshape(len(X), -1)
    fits = flat == np.rint(flat) if X.dtype.kind == "f" else np.ones(flat.shape, dtype=bool)
    bad = np.flatnonzero((~fits | (flat >= 2.0**63) | (flat < -(2.0**63))).any(1))
    if len(bad):
        raise NetError(
            f"The module was trained on integers, but {what} holds a number in row {bad[0]} that is no int64, got "
            f"{X[bad[0]].ravel()[:5].tolist()}."
        )
    return X.astype(np.int64)
