"""Mediators (Astraea, Duan et al. 2019): chains of clients whose pooled classes are nearly balanced."""

from numbers import Integral

import numpy as np

from fedrela_sk._sklearn import Interval
from fedrela_sk.participation._base import Choice, Participation
from fedrela_sk.participation._uniform import draw_uniformly


class Mediators(Participation):
    """The clients of a round form chains; inside a chain the model is handed from client to client.

    Chains are filled greedily, one after the other. The next client is always the one that brings the
    pooled class histogram h closest to uniform, that is the one with the smallest

        KL(h / sum(h) || uniform) = log C - H(h / sum(h)),

    H being the entropy over all C classes: a class that nobody holds adds the same to every candidate. The
    paper's rule. Chains are averaged by the rows of their clients, as in the paper. Ours: ties go to the
    earlier client, a chain without any rows counts as log C, clients are drawn uniformly first where
    ``share`` is below 1, and every client of a chain trains once a round. The paper's other half, augmenting
    classes below the mean, is a matter of ``local_data``.

    Clients that take part reveal their class histograms (original labels) to the server. Nothing else
    leaves them that FedAvg would not send, but each client of a chain sees the model of the one before.

    Parameters
    ----------
    n_clients : int >= 1, default=10
        Length of a chain (the paper's gamma); the last may be shorter. 1 is FedAvg.
    share : float in (0, 1], default=1.0
        Share of the clients that take part, as in `UniformSampling`.

    References
    ----------
    Duan, Liu, Chen, Tan, Ren, Qiao, Liang, "Astraea: Self-balancing Federated Learning for Improving
    Classification Accuracy of Mobile Deep Learning Applications", ICCD 2019, arXiv 1907.01132, mediator
    based multi-client rescheduling.

    Examples
    --------
    >>> import numpy as np
    >>> from fedrela_sk.participation import Mediators
    >>> counts = np.array([[9, 0], [0, 5], [5, 0], [0, 9]])
    >>> Mediators(n_clients=2).choose(0, np.random.default_rng(0), counts.sum(1), counts)
    Choice(groups=((0, 3), (1, 2)), weights=(18.0, 10.0), total=1.0)
    """

    needs_counts = True

    _parameter_constraints = {
        **Participation._parameter_constraints,
        "n_clients": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(self, n_clients: int = 10, share: float = 1.0) -> None:
        self.n_clients = n_clients
        self.share = share

    def _choose(self, round, stream, sizes, counts):
        positions = draw_uniformly(stream, self.share, len(sizes))
        chains = balanced_chains(counts[positions], self.n_clients)
        groups = tuple(tuple(positions[chain].tolist()) for chain in chains)
        return Choice(groups, tuple(float(sizes[list(group)].sum()) for group in groups))


def balanced_chains(counts, length):
    """Rows of `counts` in chains of up to `length`, each addition the most balancing one.

    Parameters
    ----------
    counts : ndarray of shape (n_clients, n_classes), float64
    length : int >= 1

    Returns
    -------
    chains : list of lists of int
        Every row once, in the order of addition.
    """
    rest, chains = list(range(len(counts))), []
    while rest:
        chain, pooled = [], np.zeros(counts.shape[1])
        while rest and len(chain) < length:
            best = int(np.argmin(divergence_from_uniform(pooled + counts[rest])))
            chain.append(rest.pop(best))
            pooled = pooled + counts[chain[-1]]
        chains.append(chain)
    return chains


def divergence_from_uniform(counts):
    """KL divergence of histograms from the uniform law, in nats; of shape (n,) for `counts` of shape (n, C)."""
    totals = counts.sum(axis=1, keepdims=True)
    shares = np.divide(counts, totals, out=np.zeros_like(counts), where=totals > 0)
    terms = shares * np.log(shares, out=np.zeros_like(shares), where=shares > 0)
    return np.log(counts.shape[1]) + terms.sum(axis=1)
