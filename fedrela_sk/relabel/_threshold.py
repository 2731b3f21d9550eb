"""The threshold of every target column: only z-scores above it can be relabelled into that class."""

import math

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
    return THRESHOLDS[rule](z, tau, weights)


def quantile(z, tau, weights=None):
    """Linear interpolation between order statistics: the paper's quantile, the default of `numpy.quantile`.

    The quantile lies at position ``(W - 1)(1 - tau)``, counted from 0, of the ascending rows, each repeated as
    often as its weight says. For weights that are not integers the same positions are used: position k is held
    by the first row, in ascending order, whose cumulative weight exceeds k, the last row holds all positions
    beyond, and W < 1 counts as 1.
    """
    total = _total(z, weights)
    position = max(total - 1.0, 0.0) * (1.0 - tau)
    if abs(position - round(position)) <= 4 * np.finfo(float).eps * total:
        position = round(position)  # on a row, as in 7 * (1 - 0.3)
    lower = math.floor(position)
    share = position - lower
    below, above = _pair_at(z, lower) if weights is None else _weighted_pair_at(z, lower, weights)
    step = above - below
    return above - step * (1.0 - share) if share >= 0.5 else below + step * share


def order_statistic(z, tau, weights=None):
    """The (m + 1)-th largest value, ``m = floor(tau W)`` but below W: the released code's threshold.

    At most m rows lie above it. m = 0, as at a client with fewer than 1 / tau rows, gives +inf: nothing is
    relabelled. For weights that are not integers it is the first value, from the largest down, at which the
    cumulative weight exceeds m.
    """
    total = _total(z, weights)
    m = min(math.floor(tau * total + ROUNDING), math.ceil(total - ROUNDING) - 1)
    if m <= 0:
        return np.full(z.shape[1], np.inf)
    if weights is None:
        return np.partition(z, len(z) - 1 - m, axis=0)[len(z) - 1 - m]
    return -_weighted_pair_at(-z, m, weights)[0]


def _total(z, weights):
    return len(z) if weights is None else weights.sum()


def _pair_at(z, k):
    """Ascending order statistics k and k + 1 (counted from 0) of every column, the last one repeated."""
    parted = np.partition(z, k, axis=0)
    rest = parted[k + 1 :]
    return parted[k], rest.min(axis=0) if len(rest) else parted[k]


def _weighted_pair_at(z, k, weights):
    """The same with every row repeated as often as its weight says."""
    pair = np.empty((2, z.shape[1]))
    for column in range(z.shape[1]):
        order = np.argsort(z[:, column])
        reached = np.cumsum(weights[order])
        at = np.searchsorted(reached, [k + ROUNDING, k + 1 + ROUNDING], side="right")
        pair[:, column] = z[order[np.minimum(at, len(z) - 1)], column]
    return pair


THRESHOLDS = {"quantile": quantile, "order_statistic": order_statistic}
