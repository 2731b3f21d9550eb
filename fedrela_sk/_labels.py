"""The one door for what names something: labels, groups, clients, out of any container, never through a float.

scikit-learn's own conversion makes floats of pandas' `Int64` and `boolean`, and NumPy makes floats of integers that
have gaps or both signs; two large identifiers may then be one. Here a name comes out as it went in, and a missing
one (None, NaN, NA, NaT, null) is an error that says where.
"""

from datetime import date, datetime, time
from numbers import Integral, Number

import numpy as np
from sklearn.exceptions import DataConversionWarning
from sklearn.utils import check_consistent_length
from sklearn.utils.multiclass import check_classification_targets

from fedrela_sk._containers import objects_of, plain
from fedrela_sk._warnings import pointing_at_the_user, warn_user
from fedrela_sk.exceptions import GroupsError, LabelError

# integers up to here are floats exactly
LARGEST_EXACT = 2**53


def check_names(values, what="y", *, error=LabelError):
    """Names as a plain one-dimensional array.

    Parameters
    ----------
    values : array-like of shape (n_rows,) or (n_rows, 1)
        Of any container and dtype: NumPy (masked arrays too), pandas (nullable, categorical and pyarrow-backed
        too), polars, pyarrow, lists.
    what : str
        What they are called, for the message.
    error : type
        `LabelError`, or `GroupsError` for the clients of rows.

    Returns
    -------
    names : ndarray of shape (n_rows,)
        Of NumPy's own dtype: booleans, integers, floats and strings stay what they are, datetimes too; what has no
        such dtype is an array of Python objects.

    Raises
    ------
    LabelError or GroupsError
        A name is missing; names of several kinds; objects that cannot be compared.
    ValueError
        More than one column.
    """
    names, missing = plain(values)
    if names.ndim != 1 and names.shape[1:] != (1,):
        raise error(f"{what} should be a 1d array, got an array of shape {names.shape} instead.")
    if names.dtype.kind in "cV":
        complaint = "Complex data not supported: " if names.dtype.kind == "c" else ""
        raise error(
            f"{complaint}{what} of dtype {names.dtype} cannot be put in order. Pass strings or integers."
        )
    if names.ndim == 2:
        names = _flat(names, what, error)
    missing = np.zeros(len(names), dtype=bool) if missing is None else np.ravel(missing)
    missing = missing | missing_in(names)
    if missing.any():
        _refuse_missing(names, missing, what, error)
    names = _as_numbers(names, what, error) if names.dtype == object else names
    return names


def check_groups(groups, n_rows, what="groups"):
    """The client of every row, see `check_names`.

    Raises
    ------
    GroupsError
        A missing entry, or not one entry per row.
    """
    groups = check_names(groups, what, error=GroupsError)
    if len(groups) != n_rows:
        raise GroupsError(f"{what} must have one entry per row: got shape {groups.shape} for {n_rows} rows.")
    return groups


def sorted_names(names, what="y", *, error=LabelError):
    """Distinct names in order, and the position of every row's name among them.

    Parameters
    ----------
    names : ndarray of shape (n_rows,)
        As `check_names` returns them.
    what, error
        As in `check_names`.

    Returns
    -------
    distinct : ndarray of shape (n_names,)
    codes : ndarray of shape (n_rows,), int64
    """
    try:
        distinct, codes = np.unique(names, return_inverse=True)
    except TypeError as problem:
        raise error(
            f"{what} mixes {_noun(error)} that cannot be sorted: make them one type, got {_kinds(names)}. Convert "
            "them first, for instance by `y.astype(str)`."
        ) from problem
    return distinct, codes.astype(np.int64)


def positions_in(known, names):
    """Position of each of `names` among the `known` ones, -1 where it is not there.

    Parameters
    ----------
    known : sequence of hashable values or ndarray
        Without duplicates.
    names : ndarray of shape (n_rows,)

    Returns
    -------
    positions : ndarray of shape (n_rows,), int64
    """
    position = {value: place for place, value in enumerate(python_values(known))}
    try:
        distinct, inverse = np.unique(names, return_inverse=True)
    except TypeError:  # names without an order can be looked up all the same
        distinct, inverse = names, np.arange(len(names))
    places = np.array([position.get(value, -1) for value in python_values(distinct)], dtype=np.int64)
    return places[inverse]


def same_names(one, other):
    """Whether two arrays hold the same names in the same order; integers are compared as integers."""
    return python_values(one) == python_values(other)


def python_values(names):
    """Names as Python values that can be compared and hashed, a list; dates and times are those of `datetime`."""
    if not isinstance(names, np.ndarray) or names.dtype == object:
        return [_plain_time(name) for name in names]
    if names.dtype.kind not in "mM":
        return names.tolist()
    unit = f"{names.dtype.kind}8[us]"
    coarse = names.astype(unit)
    exact = coarse.astype(names.dtype) == names
    values = [
        value if fits else str(own) for value, fits, own in zip(coarse.tolist(), exact, names, strict=True)
    ]
    return [str(own) if isinstance(value, int) else value for value, own in zip(values, names, strict=True)]


def _plain_time(name):
    """Dates, and pandas' timestamps and durations, as `datetime` has them; anything else itself."""
    if isinstance(name, np.generic):
        return python_values(np.array([name]))[0]
    if type(name) is date:
        return datetime.combine(name, time())
    if hasattr(name, "to_pydatetime") and not name.nanosecond:
        return name.to_pydatetime()
    if hasattr(name, "to_pytimedelta") and not name.nanoseconds:
        return name.to_pytimedelta()
    return name


def check_target(labels):
    """Labels as they are, if they name classes: whole numbers, strings, booleans, and any objects that can be sorted.

    Raises
    ------
    ValueError, TypeError
        In scikit-learn's words: numbers that are not whole, bytes.
    """
    # scikit-learn knows no other objects than strings
    if labels.dtype != object or all(isinstance(label, str) for label in labels):
        with pointing_at_the_user():
            check_classification_targets(labels)
    return labels


def accuracy(y, predicted, sample_weight=None):
    """Share of the rows whose predicted label is the true one; labels may be of any kind, as at `fit`.

    Parameters
    ----------
    y : array-like of shape (n_rows,)
    predicted : ndarray of shape (n_rows,)
    sample_weight : array-like of shape (n_rows,) or None

    Returns
    -------
    score : float
    """
    y = check_names(y)
    check_consistent_length(y, predicted, sample_weight)
    known = sorted_names(predicted, "the predictions")[0]
    right = positions_in(known, y) == positions_in(known, predicted)
    return float(np.average(right, weights=sample_weight))


def array_of(values):
    """A list of names as an array: no float for integers, no string for numbers.

    Parameters
    ----------
    values : list
        Names of one kind.

    Returns
    -------
    names : ndarray of shape (n_names,)
    """
    objects = objects_of(values)
    if len(objects) and all(isinstance(value, str) for value in objects):
        return np.array(objects.tolist())
    return _as_numbers(objects, "names", LabelError)


def missing_in(names):
    """Which entries of an array are None, NaN, NA or NaT, ndarray of bool."""
    if names.dtype.kind in "fc":
        return np.isnan(names)
    if names.dtype.kind in "mM":
        return np.isnat(names)
    if names.dtype != object:
        return np.zeros(len(names), dtype=bool)
    return np.array([_is_missing(name) for name in names.tolist()], dtype=bool)


def _is_missing(name):
    """pandas' NA compares to neither True nor False, and pandas need not be installed."""
    if name is None or type(name).__name__ in ("NAType", "NaTType"):
        return True
    try:
        return bool(name != name)
    except Exception:  # signaling NaN; arrays in arrays
        return isinstance(name, Number)


def _refuse_missing(names, missing, what, error):
    row, number = int(np.argmax(missing)), int(missing.sum())
    value = names[[row]].tolist()[0]
    if error is GroupsError:
        raise error(
            f"{what} has a missing value in row {row} ({number} in all): got {value}. Give every row a client, or "
            "drop these rows."
        )
    raise error(
        f"Input {what} contains NaN: the label of row {row} is missing, got {value} (None, NaN, NA and NaT mean that "
        f"there is none; {number} in all). Drop rows without a label before."
    )


def _flat(names, what, error):
    """A column as one dimension; scikit-learn warns about labels of that shape, and so do we."""
    if error is LabelError:
        warn_user(
            f"A column-vector {what} was passed when a 1d array was expected. Please change the shape of {what} to "
            "(n_samples, ), for example using ravel().",
            DataConversionWarning,
        )
    return names.ravel()


def _as_numbers(objects, what, error):
    """Objects that are all booleans, all integers or all numbers as an array of such; others as they are."""
    values = [value.item() if isinstance(value, np.generic) else value for value in objects.tolist()]
    kinds = {_kind(value) for value in values}
    try:
        set(values)
    except TypeError as problem:
        raise error(f"{what} holds {_kinds(objects)}, which cannot name anything. Pass strings.") from problem
    if kinds == {bool}:
        return np.array(values, dtype=bool)
    if kinds == {int}:
        return _integers(values, objects)
    if kinds == {float}:
        return np.array(values, dtype=np.float64)
    if bool in kinds and len(kinds) > 1:
        raise error(
            f"{what} mixes {_noun(error)} of which True and 1 would be the same: make them one type, got "
            f"{_kinds(objects)}. Convert them first, for instance by `y.astype(str)`."
        )
    if kinds == {int, float} and all(abs(value) <= LARGEST_EXACT for value in values if _kind(value) is int):
        return np.array(values, dtype=np.float64)
    return objects


def _kind(value):
    if isinstance(value, bool):
        return bool
    if isinstance(value, Integral):
        return int
    return float if isinstance(value, float) else str if isinstance(value, str) else type(value)


def _integers(values, objects):
    """int64, uint64 where that is too small, Python integers where that is, too."""
    low, high = min(values), max(values)
    for dtype in (np.int64, np.uint64):
        if np.iinfo(dtype).min <= low and high <= np.iinfo(dtype).max:
            return np.array(values, dtype=dtype)
    return objects


def _noun(error):
    return "clients" if error is GroupsError else "labels"


def _kinds(names):
    return sorted({type(name).__name__ for name in names.tolist()})
