"""Arithmetic of partitions: shares from a Dirichlet, cut points, a minimum for every client.

Everything here works on counts, an array of shape (n_clients, n_classes) of whole rows; which rows they are
is settled last, by `owners_from_counts`.
"""

import numpy as np


def symmetric_dirichlet(alpha, size, generator):
    """One draw of Dir(alpha, ..., alpha), safe at any alpha > 0.

    A gamma variate of shape alpha is G U^(1/alpha) with G of shape alpha + 1 and U uniform. Its logarithm is
    kept, since at small alpha the variates themselves are all below the smallest float.

    Parameters
    ----------
    alpha : float > 0
    size : int >= 1
    generator : numpy.random.Generator

    Returns
    -------
    shares : ndarray of shape (size,)
        Non-negative, with sum 1 up to rounding.
    """
    log_gamma = np.log(generator.standard_gamma(alpha + 1.0, size))
    scaled = alpha * log_gamma - generator.standard_exponential(size)
    with np.errstate(over="ignore"):
        logs = (scaled - scaled.max()) / alpha
    shares = np.exp(logs)
    return shares / shares.sum()


def cut_points(shares, total):
    """Whole numbers with sum `total`: differences of floor(total * cumulative shares).

    Returns
    -------
    sizes : ndarray of int, like `shares`
    """
    ends = np.minimum(np.floor(np.cumsum(shares) * total), total).astype(np.int64)
    ends[-1] = total
    return np.diff(ends, prepend=0)


def raise_to_minimum(counts, min_rows):
    """Counts in which every client has at least `min_rows`.

    Each client that is short, one after the other, gets what it lacks from the client that is largest at
    that moment, out of that client's largest class, so that few classes change hands (ties: the lowest
    index). Nobody falls below `min_rows` by giving. At most clients + cells steps.

    Parameters
    ----------
    counts : ndarray of shape (n_clients, n_classes), int
        With a sum of at least `min_rows * n_clients`.
    min_rows : int

    Returns
    -------
    counts : ndarray of shape (n_clients, n_classes), int
        Column sums are kept.
    """
    counts = counts.copy()
    sizes = counts.sum(axis=1)
    for client in np.flatnonzero(sizes < min_rows):
        while sizes[client] < min_rows:
            donor = np.argmax(sizes)
            label = np.argmax(counts[donor])
            moved = min(min_rows - sizes[client], sizes[donor] - min_rows, counts[donor, label])
            counts[donor, label] -= moved
            counts[client, label] += moved
            sizes[donor] -= moved
            sizes[client] += moved
    return counts


def owners_from_counts(counts, codes, generator):
    """Hand out the rows of each class at random so that client k gets `counts[k, c]` rows of class c.

    Parameters
    ----------
    counts : ndarray of shape (n_clients, n_classes), int
    codes : ndarray of shape (n_samples,), int
        The class of each row; class c has `counts[:, c].sum()` rows.
    generator : numpy.random.Generator

    Returns
    -------
    owners : ndarray of shape (n_samples,), int
    """
    n_clients, n_classes = counts.shape
    by_class = np.lexsort((generator.random(len(codes)), codes))
    owners = np.empty(len(codes), dtype=np.intp)
    owners[by_class] = np.repeat(np.tile(np.arange(n_clients), n_classes), counts.T.ravel())
    return owners
