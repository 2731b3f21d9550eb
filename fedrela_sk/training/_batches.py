"""Which rows meet in which batch: decided by streams alone, the same for every engine."""

import numpy as np

from fedrela_sk._random import Purpose, numpy_stream


def batch_bounds(n_rows, batch_size, merge_single=False):
    """Start and stop of every batch of one epoch.

    Parameters
    ----------
    n_rows : int >= 1
    batch_size : int
        -1 for all rows at once, as in skorch.
    merge_single : bool
        Join a last batch of one row to its neighbour: BatchNorm has no statistics of one row.

    Returns
    -------
    bounds : list of (int, int)
    """
    size = n_rows if batch_size == -1 else batch_size
    starts = list(range(0, n_rows, size))
    if merge_single and len(starts) > 1 and n_rows - starts[-1] == 1:
        starts.pop()
    return list(zip(starts, [*starts[1:], n_rows], strict=True))


def epoch_orders(n_rows, epochs, shuffle, seed, round, client):
    """Order of the rows of one client in each epoch of one round.

    Returns
    -------
    orders : ndarray of shape (epochs, n_rows), int64
    """
    if not shuffle:
        return np.tile(np.arange(n_rows), (epochs, 1))
    stream = numpy_stream(seed, Purpose.BATCHES, round, client)
    return np.stack([stream.permutation(n_rows) for _ in range(epochs)])
