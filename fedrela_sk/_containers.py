"""Any container of names as NumPy's own array, and which entries are missing; nothing is turned into floats."""

from collections.abc import Mapping

import numpy as np


def plain(values):
    """Names out of any container.

    Parameters
    ----------
    values : array-like of shape (n_rows,) or (n_rows, 1)
        Of NumPy, pandas, polars or pyarrow, or a list.

    Returns
    -------
    names : ndarray
        What NumPy has no exact dtype for is an array of Python objects.
    missing : ndarray of shape (n_rows,), bool, or None
        Entries that the container itself marks as missing.
    """
    return _plain(_one_column(values))


def _one_column(values):
    """The column of a table that has one; anything else as it is."""
    shape = getattr(values, "shape", None)
    if not isinstance(shape, tuple) or len(shape) != 2 or shape[1] != 1:
        return values
    if hasattr(values, "iloc"):
        return np.asarray(_plain_of(values.iloc[:, 0])).reshape(-1, 1)
    if hasattr(values, "get_column"):
        return values.get_columns()[0]
    return values.column(0) if hasattr(values, "to_pylist") else values


def _plain_of(values):
    names, missing = _plain(values)
    if missing is None or not missing.any():
        return names
    names = names.astype(object)
    names[missing] = None
    return names


def _plain(values):
    """(array, mask of missing entries or None) of any container; no entry is turned into another kind."""
    if isinstance(values, np.ma.MaskedArray):
        return np.asarray(values.data), np.ma.getmaskarray(values)
    if isinstance(values, np.ndarray):
        return values.astype(object) if values.dtype.kind == "T" else np.asarray(values), None
    for known, convert in _CONTAINERS:
        if known(values):
            return convert(values)
    if hasattr(values, "__array__") or not hasattr(values, "__len__") or isinstance(values, _NO_LISTS):
        return np.asarray(values), None
    return _of_list(list(values)), None


# they have a length and no rows
_NO_LISTS = (str, bytes, set, frozenset, Mapping)


def _of_pandas(values):
    missing = np.asarray(values.isna())
    dtype = values.dtype
    if isinstance(dtype, np.dtype):
        return np.asarray(values), missing
    own = getattr(dtype, "numpy_dtype", None)
    if own is not None and own.kind in "biu" and not missing.any():
        return np.asarray(values.to_numpy(dtype=own)), missing
    return np.asarray(values.astype(object), dtype=object), missing


def _of_polars(values):
    return _of_nullable(values, values.null_count(), values.to_list, values.dtype)


def _of_arrow(values):
    return _of_nullable(values, values.null_count, values.to_pylist, values.type)


def _of_nullable(values, n_missing, to_list, dtype):
    """Numbers, booleans and times without missing entries as NumPy has them, anything else as objects."""
    try:
        plain = np.asarray(values)
    except Exception:  # a dtype that NumPy lacks
        plain = np.empty(0, dtype=object)
    kinds = "biumMf" if "float" in str(dtype).lower() or str(dtype) in ("double", "halffloat") else "biumM"
    if not n_missing and plain.dtype.kind in kinds:
        return plain, None
    return objects_of(to_list()), None


_CONTAINERS = [
    (lambda values: hasattr(values, "isna") and hasattr(values, "dtype"), _of_pandas),
    (lambda values: hasattr(values, "is_null") and hasattr(values, "to_list"), _of_polars),
    (lambda values: hasattr(values, "null_count") and hasattr(values, "to_pylist"), _of_arrow),
]


def objects_of(values):
    """A list as an array of the very same objects."""
    objects = np.empty(len(values), dtype=object)
    objects[:] = values
    return objects


def _of_list(values):
    """A list: strings and nested lists as NumPy takes them, anything else as objects first."""
    if not values or all(isinstance(value, str) for value in values):
        return np.array(values)
    if any(isinstance(value, list | tuple | np.ndarray) and np.ndim(value) for value in values):
        return np.asarray(values)
    return objects_of(values)
