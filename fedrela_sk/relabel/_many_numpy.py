"""The steps of a pass over many clients that touch every row and class, in NumPy: one column at a time."""

import numpy as np

from fedrela_sk.relabel._groups import Groups
from fedrela_sk.relabel._many_clients import ManyClients
from fedrela_sk.relabel._rho import candidates_of_groups

__all__ = ["candidates_of_groups", "check_rows", "dtype_of", "parts_of", "rows_of"]


def check_rows(relabeler, Q):
    """The values that are compared, as the relabeler checks and makes them; it learns its columns."""
    return relabeler._check_rows(Q, reset=True)


def dtype_of(Q):
    """The dtype that rows came in, NumPy's."""
    return Q.dtype


def parts_of(values, counted, group, n_groups, sizes, weights):
    """The values that statistics are made of, with their groups and clients.

    Parameters
    ----------
    values : ndarray of shape (n_rows, n_columns), float64
        One client after the other.
    counted : slice or ndarray of shape (n_rows,), bool
        Rows that count.
    group : ndarray of shape (n_counted,), int
    n_groups : int
    sizes : ndarray of shape (n_clients,), int >= 1
        Counted rows of every client.
    weights : ndarray of shape (n_counted,) or None

    Yields
    ------
    columns : int or slice
    own : ndarray of shape (n_counted,)
        Those columns of the counted rows.
    groups : Groups
    clients : ManyClients
    """
    groups, clients = Groups(group, n_groups, weights), ManyClients(sizes, weights)
    for column in range(values.shape[1]):
        yield column, np.ascontiguousarray(values[counted, column]), groups, clients


def rows_of(values, rows):
    """Some rows, as an ndarray."""
    return values[rows]
