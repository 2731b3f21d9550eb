"""The threshold of every target column: only z-scores above it can be relabeled into that class."""

import numpy as np

# tau * W and sums of weights are meant exactly; this absorbs rounding, as in 0.29 * 100 = 28.999...
ROUNDING = 1e-9


def quantile(clients, z, tau):
    """Linear interpolation between order statistics: the paper's quantile, the default of `numpy.quantile`.

    The quantile lies at position ``(W - 1)(1 - tau)``, counted from 0, of the ascending rows, each repeated as
    often as its weight says. For weights that are not integers the same positions are used: position k is held
    by the first row, in ascending order, whose cumulative weight exceeds k, the last row holds all positions
    beyond, and W < 1 counts as 1.

    Parameters
    ----------
    clients : Clients
        Of the rows, with their weights. W is the sum of a client's weights.
    z : ndarray or tensor of shape (n_rows, n_columns)
    tau : float in (0, 1]
        Share of rows above the threshold, per client and column.

    Returns
    -------
    t : ndarray of shape (n_clients, n_columns), float64
    """
    position = np.maximum(clients.total - 1.0, 0.0) * (1.0 - tau)
    nearest = np.rint(position)
    on_a_row = np.abs(position - nearest) <= 4 * np.finfo(float).eps * clients.total  # as in 7 * (1 - 0.3)
    position = np.where(on_a_row, nearest, position)
    lower = np.floor(position)
    share = position - lower
    below, above = clients.pair_at(z, lower.astype(np.intp))
    step = above - below
    return np.where(share >= 0.5, above - step * (1.0 - share), below + step * share)


def order_statistic(clients, z, tau):
    """The (m + 1)-th largest value, ``m = floor(tau W)`` but below W: the released code's threshold.

    At most m rows lie above it. m = 0, as at a client with fewer than 1 / tau rows, gives +inf: nothing is
    relabeled. For weights that are not integers it is the first value, from the largest down, at which the
    cumulative weight exceeds m. Parameters and returns are those of `quantile`.
    """
    m = np.minimum(np.floor(tau * clients.total + ROUNDING), np.ceil(clients.total - ROUNDING) - 1.0)
    largest = -clients.pair_at(-z, np.maximum(m, 0.0).astype(np.intp))[0]
    return np.where(m > 0, largest, np.inf)


THRESHOLDS = {"quantile": quantile, "order_statistic": order_statistic}
