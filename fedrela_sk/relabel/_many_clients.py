"""Order statistics of one column at many clients at once, for the rules of `_threshold`."""

import numpy as np

from fedrela_sk.relabel._threshold import ROUNDING


def blocks_of(sizes):
    """Consecutive runs of rows as lines of blocks, whose width is the next power of two.

    A line's width depends on its run alone, and all blocks hold at most twice as many positions as there are rows.

    Parameters
    ----------
    sizes : ndarray of shape (n_runs,), int >= 1

    Returns
    -------
    blocks : list of (ndarray of shape (n_lines,), ndarray of shape (n_lines, width)), int
        Which runs, and positions of their rows; those beyond a run's rows are the position after the last row.
    """
    starts, blocks = np.cumsum(sizes) - sizes, []
    power = np.frexp(sizes - 1)[1]
    for exponent in np.unique(power):
        runs = np.flatnonzero(power == exponent)
        place, size = np.arange(2**exponent), sizes[runs, np.newaxis]
        blocks.append((runs, np.where(place < size, starts[runs, np.newaxis] + place, sizes.sum())))
    return blocks


class ManyClients:
    """Rows of many clients, one client after the other.

    Clients of about one size are sorted together, as lines of one of `blocks_of`.

    Parameters
    ----------
    sizes : ndarray of shape (n_clients,), int >= 1
        Rows of every client.
    weights : ndarray of shape (n_rows,) or None
        Repetitions, positive.
    """

    def __init__(self, sizes, weights=None):
        self.sizes = sizes
        self.weights = None if weights is None else np.append(weights, 0.0)
        self.total = sizes.astype(np.float64)
        if weights is not None:
            self.total = np.bincount(np.repeat(np.arange(len(sizes)), sizes), weights)
        self._blocks = blocks_of(sizes)

    def of(self, z):
        """The rows with their values in a column, ndarray of shape (n_rows,), for a rule of `THRESHOLDS`."""
        return _Column(self, z)

    def pair_at(self, z, k):
        """Positions k and k + 1 of every client's ascending values, the last one repeated.

        Parameters
        ----------
        z : ndarray of shape (n_rows,)
        k : ndarray of shape (n_clients,), int

        Returns
        -------
        pair : ndarray of shape (2, n_clients)
        """
        pair = np.empty((2, len(self.sizes)))
        z = np.append(z, np.inf)
        for clients, rows in self._blocks:
            at = np.stack([k[clients], k[clients] + 1])
            if self.weights is None:
                ascending = np.sort(z[rows], axis=1)
            else:
                order = np.argsort(z[rows], axis=1)
                ascending = np.take_along_axis(z[rows], order, axis=1)
                reached = np.cumsum(np.take_along_axis(self.weights[rows], order, axis=1), axis=1)
                at = np.count_nonzero(reached <= at[:, :, np.newaxis] + ROUNDING, axis=2)
            pair[:, clients] = ascending[np.arange(len(clients)), np.minimum(at, self.sizes[clients] - 1)]
        return pair


class _Column:
    """What a rule needs of one column: the counterpart of `OneClient`."""

    def __init__(self, clients, z):
        self.clients = clients
        self.z = z
        self.total = clients.total

    def ascending(self, k):
        return self.clients.pair_at(self.z, k)

    def descending(self, k):
        return -self.clients.pair_at(-self.z, k)[0]
