"""What the hooks of a method returned is refused where it is of another kind than promised, with the hook's name."""

import numpy as np

from fedrela_sk import _tree
from fedrela_sk.algorithms._records import Broadcast, Query
from fedrela_sk.exceptions import ClientError


def check_broadcast(value, where):
    """`value` itself if it is a `Broadcast` of dictionaries of tensors.

    Raises
    ------
    ClientError
        With what it is instead.
    """
    if not isinstance(value, Broadcast):
        raise ClientError(
            f"{where} must return a fedrela_sk.algorithms.Broadcast, got {type(value).__name__}. Wrap what is sent: "
            "Broadcast(every_round=tensors)."
        )
    for part in ("every_round", "first_time", "relabeling"):
        _tree.check_tensors(getattr(value, part), f"{where}, as {part},")
    return value


def check_query(value, where):
    """`value` itself if it is a `Query` that can be asked, or None.

    Raises
    ------
    ClientError
        With what it is instead.
    """
    if value is None:
        return None
    if not isinstance(value, Query):
        raise ClientError(
            f"{where} must return a fedrela_sk.algorithms.Query or None, got {type(value).__name__}. Pass the "
            "functions themselves: Query(self.client_report, self.server_gather)."
        )
    for part in ("report", "gather"):
        if not callable(getattr(value, part)):
            raise ClientError(
                f"{where} gave a Query whose {part} is no function, got {getattr(value, part)!r}."
            )
    if value.whom not in ("sampled", "all"):
        raise ClientError(f'{where} gave a Query with whom={value.whom!r}; it must be "sampled" or "all".')
    return value


def check_weights(value, n_clients, where, signed=False):
    """Aggregation weights as an array of float64, one finite number >= 0 for each client.

    Parameters
    ----------
    value : array-like
        What `server_weights` returned.
    n_clients : int
    where : str
    signed : bool, default=False
        Whether they may be negative, for methods with an aggregator of their own.

    Returns
    -------
    weights : ndarray of shape (n_clients,), float64

    Raises
    ------
    ClientError
        With its shape, or with the first weight that is no weight.
    """
    try:
        weights = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ClientError(f"{where} must return an array of numbers, got {type(value).__name__}.") from error
    if weights.shape != (n_clients,):
        raise ClientError(
            f"{where} must return one weight for each of its {n_clients} clients, got shape {weights.shape}."
        )
    bad = np.flatnonzero(~(np.isfinite(weights) & (signed | (weights >= 0))))
    if len(bad):
        raise ClientError(
            f"{where} must return finite weights >= 0, got {weights[bad[0]]} at position {bad[0]}."
        )
    return weights


def check_orders(value, n_epochs, n_rows, where):
    """Orders of a client's rows as an array of int64, one row for each local epoch.

    Parameters
    ----------
    value : array-like of shape (n_epochs, n_rows)
        What `client_order` returned.
    n_epochs, n_rows : int
    where : str

    Returns
    -------
    orders : ndarray of shape (n_epochs, n_rows), int64

    Raises
    ------
    ClientError
        With the shape, the dtype or the first place that is no row of the client.
    """
    orders = np.asarray(value)
    if orders.shape != (n_epochs, n_rows) or orders.dtype.kind not in "iu":
        raise ClientError(
            f"{where} must return integers of shape (n_epochs, n_rows) = {(n_epochs, n_rows)}, got shape "
            f"{orders.shape} in {orders.dtype}."
        )
    outside = orders[(orders < 0) | (orders >= n_rows)]
    if len(outside):
        raise ClientError(
            f"{where} must give places 0 to {n_rows - 1} of the client's rows, got {outside[0]}."
        )
    return orders.astype(np.int64, copy=False)
