"""The threshold of every target column: only z-scores above it can be relabelled into that class."""

import numpy as np

# tau * W and sums of weights are meant exactly; this absorbs rounding, as in 0.29 * 100 = 28.999...
ROUNDING = 1e-9


def thresholds(z, tau, rule, weights=None):
    """The (1 - tau) point of every column over all rows of one client.

    Parameters
    ----------
    z : ndarray of shape (n_rows, n_columns)
    tau : float in [0, 1]
        Share of rows above the threshold, per column. 0 gives +inf.
    rule : {"quantile", "order_statistic"}
        A key of `THRESHOLDS`.
    weights : ndarray of shape (n_rows,) or None
        Repetitions, positive.

    Returns
    -------
    t : ndarray of shape (n_columns,), float64
    """
    if tau == 0:
        return np.full(z.shape[1], np.inf)
    return THRESHOLDS[rule](OneClient(z, weights), tau)


def quantile(rows, tau):
    """Linear interpolation between order statistics: the paper's quantile, the default of `numpy.quantile`.

    The quantile lies at position ``(W - 1)(1 - tau)``, counted from 0, of the ascending rows, each repeated as
    often as its weight says. For weights that are not integers the same positions are used: position k is held
    by the first row, in ascending order, whose cumulative weight exceeds k, the last row holds all positions
    beyond, and W < 1 counts as 1.

    Parameters
    ----------
    rows : OneClient or ManyClients
    tau : float in (0, 1]

    Returns
    -------
    t : ndarray, float64
        One per column, or one per client.
    """
    position = np.maximum(rows.total - 1.0, 0.0) * (1.0 - tau)
    nearest = np.rint(position)
    on_a_row = np.abs(position - nearest) <= 4 * np.finfo(float).eps * rows.total  # as in 7 * (1 - 0.3)
    position = np.where(on_a_row, nearest, position)
    lower = np.floor(position)
    share = position - lower
    below, above = rows.ascending(lower.astype(np.intp))
    step = above - below
    return np.where(share >= 0.5, above - step * (1.0 - share), below + step * share)


def order_statistic(rows, tau):
    """The (m + 1)-th largest value, ``m = floor(tau W)`` but below W: the released code's threshold.

    At most m rows lie above it. m = 0, as at a client with fewer than 1 / tau rows, gives +inf: nothing is
    relabelled. For weights that are not integers it is the first value, from the largest down, at which the
    cumulative weight exceeds m. Parameters and returns are those of `quantile`.
    """
    m = np.minimum(np.floor(tau * rows.total + ROUNDING), np.ceil(rows.total - ROUNDING) - 1.0)
    return np.where(m > 0, rows.descending(np.maximum(m, 0.0).astype(np.intp)), np.inf)


class OneClient:
    """Order statistics of every column of one client.

    Parameters
    ----------
    z : ndarray of shape (n_rows, n_columns)
    weights : ndarray of shape (n_rows,) or None
    """

    def __init__(self, z, weights):
        self.z = z
        self.weights = weights
        self.total = len(z) if weights is None else weights.sum()

    def ascending(self, k):
        """Values at positions k and k + 1 (counted from 0) of the ascending rows, the last one repeated."""
        if self.weights is not None:
            return _weighted_pair_at(self.z, k, self.weights)
        parted = np.partition(self.z, k, axis=0)
        rest = parted[k + 1 :]
        return parted[k], rest.min(axis=0) if len(rest) else parted[k]

    def descending(self, k):
        """Value at position k of the descending rows."""
        if self.weights is not None:
            return -_weighted_pair_at(-self.z, k, self.weights)[0]
        return np.partition(self.z, len(self.z) - 1 - k, axis=0)[len(self.z) - 1 - k]


def _weighted_pair_at(z, k, weights):
    """Positions k and k + 1 with every row repeated as often as its weight says."""
    pair = np.empty((2, z.shape[1]))
    for column in range(z.shape[1]):
        order = np.argsort(z[:, column])
        reached = np.cumsum(weights[order])
        at = np.searchsorted(reached, [k + ROUNDING, k + 1 + ROUNDING], side="right")
        pair[:, column] = z[order[np.minimum(at, len(z) - 1)], column]
    return pair


THRESHOLDS = {"quantile": quantile, "order_statistic": order_statistic}
