"""Clustered sampling (Fraboni et al. 2021): one client from each of m overlapping groups of equal total weight."""

import numpy as np

from fedrela_sk.participation._base import Choice, Participation, alone, n_chosen


class ClusteredSampling(Participation):
    """An unbiased draw by client size, with less variance than drawing clients with replacement.

    Clients, the largest first, fill m distributions W_1, ..., W_m one after the other, each up to a total of 1,
    client i with m p_i in all, p_i being its share of all rows. One client is drawn from every W_k; a client
    drawn more than once trains once and weighs that much more:

        sum_k W_k(i) = m p_i,   sum_i W_k(i) = 1,   weight of client i = (times drawn) / m,

    so that the expected weight of client i is p_i. From the paper: the variance of a weight,
    sum_k W_k(i) (1 - W_k(i)) / m^2, is at most that of multinomial sampling, p_i (1 - p_i) / m; a client takes
    part at least as often as there; it is drawn at most floor(m p_i) + 2 times. Ours: ties in size go to the
    earlier client, sizes may be fractional (sample weights), and m follows from a share.

    Even ``share=1`` leaves clients out where sizes differ. The server must know the sizes beforehand.

    Parameters
    ----------
    share : float in (0, 1], default=0.1
        m = max(1, round half up(share x number of clients)) draws a round; at most so many clients take part.

    References
    ----------
    Fraboni, Vidal, Kameni, Lorenzi, "Clustered Sampling: Low-Variance and Improved Representativity for
    Clients Selection in Federated Learning", ICML 2021, arXiv 2105.05883, Algorithm 1 (sampling by sample
    size; their Algorithm 2, by similarity of models, is not built).

    Examples
    --------
    >>> import numpy as np
    >>> from fedrela_sk.participation import ClusteredSampling
    >>> ClusteredSampling(share=0.5).choose(0, np.random.default_rng(0), sizes=[60, 5, 5, 10])
    Choice(groups=((0,),), weights=(1.0,), total=1.0)
    """

    def __init__(self, share: float = 0.1) -> None:
        self.share = share

    def _choose(self, round, stream, sizes, counts):
        if not sizes.any():
            raise ValueError(
                f"ClusteredSampling draws clients by size, but all {len(sizes)} sizes are 0 in round {round}. "
                "Check sample_weight, or use UniformSampling."
            )
        rows = clustered_distributions(sizes, n_chosen(self.share, len(sizes)))
        drawn = [stream.choice(len(sizes), p=row) for row in rows]
        positions, times = np.unique(drawn, return_counts=True)
        return Choice(alone(positions), tuple((times / len(rows)).tolist()))


def clustered_distributions(sizes, m):
    """The m distributions that one client each is drawn from.

    Clients lie one after the other on a line, client i with length m sizes[i]; distribution k is what lies
    on the k-th of m equal stretches.

    Parameters
    ----------
    sizes : ndarray of shape (n_clients,), float64
        At least 0, with a positive sum.
    m : int >= 1

    Returns
    -------
    distributions : ndarray of shape (m, n_clients), float64
        Rows sum to 1, column i to m sizes[i] / sum(sizes).
    """
    order = np.argsort(-sizes, kind="stable")
    ends = np.cumsum(m * sizes[order])  # whole numbers stay exact
    starts = np.concatenate([[0.0], ends[:-1]])
    stretch = ends[-1] / m
    edges = stretch * np.arange(m + 1)
    edges[-1] = ends[-1]
    lengths = np.minimum(ends, edges[1:, None]) - np.maximum(starts, edges[:-1, None])
    distributions = np.empty((m, len(sizes)))
    distributions[:, order] = np.maximum(lengths, 0.0) / stretch
    return distributions
