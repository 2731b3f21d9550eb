"""Shares of a total as whole numbers, by largest remainders."""

import numpy as np


def apportion(shares, total, least=0):
    """Whole numbers near `total * shares` with sum `total`: the largest remainders are rounded up.

    Ties go to the earlier entry.

    Parameters
    ----------
    shares : array-like of shape (n_shares,)
        Non-negative, with sum 1 up to rounding.
    total : int
    least : int, default=0
        What every entry gets before the rest is shared out; `total` is at least that for all entries.

    Returns
    -------
    sizes : ndarray of shape (n_shares,), int64
    """
    exact = (total - least * len(shares)) * np.asarray(shares)
    sizes = np.floor(exact).astype(np.int64)
    left = total - least * len(shares) - sizes.sum()
    sizes[np.argsort(sizes - exact, kind="stable")[:left]] += 1
    return sizes + least
