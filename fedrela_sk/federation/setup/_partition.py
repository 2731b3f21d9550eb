"""Who holds what: clients from a splitter, a number, or groups."""

import copy
import warnings
from numbers import Integral

import numpy as np

from fedrela_sk._labels import check_groups, python_values, sorted_names
from fedrela_sk._random import Purpose, client_stream_id, integer_seed, numpy_stream
from fedrela_sk._update import ClientSpec
from fedrela_sk.exceptions import GroupsError, PartitionError

# What splitters say about rare classes; a client may lack a class here.
_HARMLESS_WARNINGS = ("The least populated class in y has only", "The least populated classes in y have only")
_HOW_GROUPS_GET_LOST = (
    "Pass fit(X, y, groups=...); to a Pipeline, and to a search over one, fit(X, y, <step>__groups=...). Elsewhere "
    "in a search or cross-validation groups arrive with metadata routing: call "
    "sklearn.set_config(enable_metadata_routing=True) first and pass groups to the outermost call, "
    "search.fit(X, y, groups=groups) or cross_validate(..., params={'groups': groups})."
)


def make_clients(clients, X, y, groups, seed):
    """The clients of a fit, empty ones included, ordered by key.

    Parameters
    ----------
    clients : int, splitter or None
        Number of even IID clients; a splitter whose test sets are the clients; None for one per group.
    X : ndarray of shape (n_rows, ...)
    y : ndarray of shape (n_rows,)
        Original labels.
    groups : array-like of shape (n_rows,) or None
    seed : int

    Returns
    -------
    specs : list of ClientSpec
    notes : tuple of str
        What a reader of the history should know.

    Raises
    ------
    GroupsError
        If groups are missing, or given where nothing uses them.
    PartitionError
        If test sets overlap, leave rows out or point beyond the data.
    """
    notes = ()
    if clients is None:
        keys, parts = _by_group(groups, len(y))
    elif isinstance(clients, Integral):
        keys, parts = _even(clients, groups, len(y), seed)
    else:
        keys, parts, notes = _by_splitter(clients, X, y, groups, seed)
    specs = [
        ClientSpec(key, client_stream_id(key), position, rows, rows)
        for position, (key, rows) in enumerate(zip(keys, parts, strict=True))
    ]
    return specs, notes


def _by_group(groups, n_rows):
    if groups is None:
        raise GroupsError(
            f"clients=None makes one client per group, but fit got no groups. {_HOW_GROUPS_GET_LOST} "
            "Without groups, set clients to a number or a splitter."
        )
    groups = check_groups(groups, n_rows)
    keys, code = sorted_names(groups, "groups", error=GroupsError)
    order = np.argsort(code, kind="stable")  # rows of a client stay in ascending order
    cuts = np.cumsum(np.bincount(code, minlength=len(keys)))[:-1]
    return python_values(keys), np.split(order, cuts)


def _even(n_clients, groups, n_rows, seed):
    if groups is not None:
        raise GroupsError(
            f"groups were given, but clients={n_clients} cuts the rows evenly and would ignore them. "
            "Set clients=None for one client per group, or call set_fit_request(groups=False) if the groups "
            "are meant for something else (with metadata routing, a splitter such as GroupKFold shares them)."
        )
    order = numpy_stream(seed, Purpose.SPLIT).permutation(n_rows)
    return range(n_clients), [np.sort(part) for part in np.array_split(order, n_clients)]


def _by_splitter(splitter, X, y, groups, seed):
    splitter = copy.deepcopy(splitter)  # the caller's object is not ours to seed
    if getattr(splitter, "random_state", "absent") is None:
        splitter.random_state = integer_seed(seed, Purpose.SPLIT) % 2**31
    with warnings.catch_warnings():
        for message in _HARMLESS_WARNINGS:
            warnings.filterwarnings("ignore", message=message)
        try:
            parts = [np.asarray(test) for _, test in splitter.split(X, y, groups)]
        except PartitionError:
            raise
        except ValueError as error:
            if groups is None and "groups" in str(error):
                raise GroupsError(
                    f"clients={splitter!r} needs groups, but fit got none. {_HOW_GROUPS_GET_LOST}"
                ) from error
            raise PartitionError(f"clients={splitter!r} could not cut the {len(y)} rows: {error}") from error
    n_empty = getattr(splitter, "n_empty_", 0)
    notes = (f"The splitter left out {n_empty} clients without rows.",) if n_empty else ()
    return range(len(parts)), _check_test_sets(parts, len(y)), notes


def _check_test_sets(parts, n_rows):
    """The test sets in ascending order, if each row of the data lies in exactly one."""
    for position, rows in enumerate(parts):
        if len(rows) and (rows.max() >= n_rows or rows.min() < 0):
            raise PartitionError(
                f"Client {position} holds row {rows.max()}, but the data have {n_rows} rows. A splitter made for "
                "other data (PredefinedSplit holds the folds of one table) cannot be used where the rows change, "
                "as inside a search or cross-validation: use clients=None and pass groups."
            )
    taken = np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)
    holders = np.bincount(taken.astype(np.int64), minlength=n_rows)
    for count, problem in ((holders > 1, "more than one client"), (holders == 0, "no client")):
        rows = np.flatnonzero(count)
        if len(rows):
            raise PartitionError(
                f"Row {rows[0]} belongs to {problem} ({len(rows)} such rows of {n_rows}). "
                "The test sets of `clients` must be disjoint and cover all rows."
            )
    return [np.sort(rows).astype(np.int64) for rows in parts]
