"""Optimal client sampling (Chen, Horváth, Richtárik 2022): the larger an update, the likelier it is sent."""

from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedrela_sk._sklearn import Interval
from fedrela_sk._typing import Array
from fedrela_sk.exceptions import NotFiniteError
from fedrela_sk.participation._base import Choice, Participation, alone, check_numbers, n_chosen


class OptimalSampling(Participation):
    """All clients train; each sends its update with the probability that minimizes the variance.

    With w_i the share of client i in the average and u_i = w_i x (norm of its update), the estimate of the
    full average from independent draws has variance sum_i (1 - p_i) / p_i u_i^2. It is smallest, among all
    p with sum_i p_i = m, for

        p_i = 1 for the n - l largest u_i,   p_i = (m + l - n) u_i / (sum of the l smallest u) otherwise,

    l being the largest number for which m + l - n > 0 and all these p_i are at most 1 (the paper's theorem
    on independent sampling). A client that sends weighs w_i / p_i, which makes the estimate unbiased.

    Where the paper is silent, or sends nothing at all:

    - No client may be left to send. Then one is drawn with probability p_i / sum(p) and sends. The weight is
      w_i divided by the probability of being among the senders, p_i (1 + e / sum(p)) with
      e = prod_i (1 - p_i), so the estimate stays unbiased; where some p_i is 1, e is 0 and the weight is the
      paper's w_i / p_i.
    - A client whose u_i is 0 has p_i = 0: it would add nothing. With no more than m other clients these
      have p_i = 1, and sum(p) is their number. If all u_i are 0, all p_i are m / n.

    This saves traffic, not computation: every client trains every round.

    Parameters
    ----------
    share : float in (0, 1], default=0.1
        m = max(1, round half up(share x number of clients)) clients send on average, a few more where one is drawn
        because nobody would.
    approximate : bool, default=False
        The paper's Algorithm 2: the server sees only sums over clients, never a single norm. Starting from
        p_i = min(1, m u_i / sum(u)), the p_i below 1 are multiplied in every round of exchange with the
        factor that would bring the sum to m, and cut at 1 again. Once that factor is 1 nothing changes any
        more (the paper stops there); before, sum(p) is below m.
    j_max : int >= 1, default=4
        Rounds of exchange of the approximation.

    References
    ----------
    Chen, Horváth, Richtárik, "Optimal Client Sampling for Federated Learning", TMLR 2022, arXiv 2010.13723.

    Examples
    --------
    >>> import numpy as np
    >>> from fedrela_sk.participation import OptimalSampling
    >>> rule = OptimalSampling(share=0.5)
    >>> rule.probabilities(weights=[1, 1, 1, 1], norms=[4.0, 0.5, 0.25, 0.25])
    array([1.  , 0.5 , 0.25, 0.25])
    """

    _parameter_constraints = {
        **Participation._parameter_constraints,
        "approximate": ["boolean"],
        "j_max": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(self, share: float = 0.1, *, approximate: bool = False, j_max: int = 4) -> None:
        self.share = share
        self.approximate = approximate
        self.j_max = j_max

    def report_nbytes(self, n_classes: int) -> Any:
        """The norm, one float64; with ``approximate`` two more in each round of exchange, at most j_max."""
        return 8 * (1 + 2 * self.j_max) if self.approximate else 8

    def _choose(self, round, stream, sizes, counts):
        return Choice(alone(range(len(sizes))))

    def select(
        self, round: int, stream: np.random.Generator, weights: ArrayLike, norms: ArrayLike
    ) -> tuple[Array, Array]:
        """The clients that send, once all have trained.

        Parameters
        ----------
        round : int
        stream : numpy.random.Generator
            The only source of chance.
        weights : array-like of shape (n_clients,)
            The algorithm's usual weights, at least 0 with a positive sum; only their shares matter.
        norms : array-like of shape (n_clients,)
            Euclidean norms of the clients' displacements.

        Returns
        -------
        positions : ndarray of shape (n_senders,), int
            Ascending; at least one.
        absolute : ndarray of shape (n_senders,), float64
            What each displacement is multiplied with before they are summed. They do not sum to 1.

        Raises
        ------
        NotFiniteError
            If a norm is NaN or infinite.
        ValueError
            If a parameter, a weight or a norm is out of range.
        """
        shares, p = self._shares_and_probabilities(weights, norms, round)
        sends = stream.random(len(p)) < p
        if not sends.any():
            sends[stream.choice(len(p), p=p / p.sum())] = True
        positions = np.flatnonzero(sends)
        nobody = np.prod(1 - p)
        return positions, shares[positions] / (p[positions] * (1 + nobody / p.sum()))

    def probabilities(self, weights: Any, norms: Any) -> Any:
        """Probability that each client sends by its own draw, an array of shape (n_clients,); see `select`."""
        return self._shares_and_probabilities(weights, norms, round=None)[1]

    def _shares_and_probabilities(self, weights, norms, round):
        self._validate_params()
        weights, norms = check_numbers(weights, "weights", round), _check_norms(norms, round)
        if len(weights) != len(norms) or not weights.any():
            raise ValueError(
                f"Every client needs a weight, and one of them more than 0: got {len(weights)} weights with "
                f"sum {weights.sum():g} for {len(norms)} norms in round {round}."
            )
        shares = weights / weights.sum()
        return shares, self._probabilities(shares * norms, n_chosen(self.share, len(norms)))

    def _probabilities(self, u, m):
        if not u.any():
            return np.full(len(u), m / len(u))
        u = u / u.max()  # only ratios matter, and sums stay finite
        return (
            approximate_probabilities(u, m, self.j_max) if self.approximate else optimal_probabilities(u, m)
        )


def _check_norms(norms, round):
    norms = np.asarray(norms, dtype=np.float64)
    wrong = np.flatnonzero(~np.isfinite(norms))
    if len(wrong):
        raise NotFiniteError(
            f"The update of the client at position {wrong[0]} has norm {norms.flat[wrong[0]]} in round {round}. "
            "Lower the learning rate, scale the features, or clip gradients."
        )
    return check_numbers(norms, "norms", round)


def optimal_probabilities(u, m):
    """The p with sum m that minimize sum_i (1 - p_i) / p_i u_i^2.

    Parameters
    ----------
    u : ndarray of shape (n_clients,), float64
        At least 0, not all 0.
    m : int in [1, n_clients]

    Returns
    -------
    p : ndarray of shape (n_clients,), float64
    """
    if np.count_nonzero(u) <= m:
        return (u > 0).astype(np.float64)
    ascending = np.sort(u)
    sums = np.cumsum(ascending)
    budgets = m - np.arange(len(u))[::-1]  # m + l - n for l = 1, ..., n
    last = np.flatnonzero((budgets > 0) & (budgets * ascending <= sums))[-1]
    return np.minimum(1.0, budgets[last] * u / sums[last])


def approximate_probabilities(u, m, j_max):
    """Probabilities of the paper's Algorithm 2, from only sums over clients.

    Parameters
    ----------
    u : ndarray of shape (n_clients,), float64
        At least 0, not all 0.
    m : int in [1, n_clients]
    j_max : int >= 1

    Returns
    -------
    p : ndarray of shape (n_clients,), float64
        With sum at most m.
    """
    p = np.minimum(1.0, m * u / u.sum())
    for _ in range(j_max):
        below = p < 1
        total = p[below].sum()
        if total == 0:
            break
        factor = (m - len(u) + np.count_nonzero(below)) / total
        p[below] = np.minimum(1.0, factor * p[below])
    return p
