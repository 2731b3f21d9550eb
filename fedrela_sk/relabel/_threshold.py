"""The threshold of every target column: only z-scores above it can be relabelled into that class."""

import math

import numpy as np

# tau * W and positions in sorted order are meant exactly; this absorbs rounding such as 0.29 * 100 = 28.999...
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
    """Linear interpolation between order statistics: the paper's quantile, `numpy.quantile`'s default.

    The quantile lies at position ``(W - 1)(1 - tau)``, counted from 0, of the sorted rows, each repeated as often
    as its weight says. For weights that are not integers, position k is held by the first row, in ascending
    order, whose cumulative weight exceeds k, and W < 1 counts as 1.
    """
    total = len(z) if weights is None else weights.sum()
    position = max(total - 1.0, 0.0) * (1.0 - tau)
    lower = math.floor(position + ROUNDING)
    share = max(position - lower, 0.0)
    below, above = _at_positions(z, [lower, lower + 1], weights)
    step = above - below
    return above - step * (1.0 - share) if share >= 0.5 else below + step * share


def order_statistic(z, tau, weights=None):
    """The (m + 1)-th largest value, ``m = floor(tau W)`` but below W: the released code's threshold.

    At most m rows lie above it. m = 0, a client with fewer than 1 / tau rows, gives +inf: nothing is relabelled.
    For weights that are not integers it is the first value, from the largest down, at which the cumulative
    weight exceeds m.
    """
    total = len(z) if weights is None else weights.sum()
    m = min(math.floor(tau * total + ROUNDING), math.ceil(total - ROUNDING) - 1)
    if m <= 0:
        return np.full(z.shape[1], np.inf)
    return -_at_positions(-z, [m], weights)[0]


def _at_positions(z, positions, weights):
    """Ascending order statistics at 0-based positions, one row of the result per position."""
    positions = np.asarray(positions)
    if weights is None:
        positions = np.minimum(positions, len(z) - 1)
        return np.partition(z, np.unique(positions), axis=0)[positions]
    found = np.empty((len(positions), z.shape[1]))
    for column in range(z.shape[1]):
        order = np.argsort(z[:, column], kind="stable")
        cumulative = np.cumsum(weights[order])
        at = np.searchsorted(cumulative, positions + ROUNDING, side="right")
        found[:, column] = z[order[np.minimum(at, len(z) - 1)], column]
    return found


THRESHOLDS = {"quantile": quantile, "order_statistic": order_statistic}
