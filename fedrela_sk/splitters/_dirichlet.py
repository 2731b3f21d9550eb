"""Label skew: each class is spread over the clients by a draw of a Dirichlet distribution."""

from numbers import Integral, Real
from typing import Literal

import numpy as np

from fedrela_sk._checks import as_float
from fedrela_sk._sklearn import Interval, StrOptions
from fedrela_sk._typing import RandomState
from fedrela_sk.splitters._base import ClientSplit, check_min_rows, class_codes
from fedrela_sk.splitters._counts import (
    cut_points,
    owners_from_counts,
    raise_to_minimum,
    symmetric_dirichlet,
)


class DirichletSplit(ClientSplit):
    """Clients with skewed classes: small `alpha`, few classes per client; large `alpha`, IID clients.

    For every class c shares q_c ~ Dir(alpha, ..., alpha) over the clients are drawn. Several rules in the
    literature go by this name; `method` says which.

    Parameters
    ----------
    n_splits : int, default=10
        Number of clients, at least 1.
    alpha : float, default=0.3
        Concentration of the Dirichlet distribution, above 0.
    method : {"multinomial", "proportions", "equal_size"}, default="multinomial"
        - "multinomial": every row of class c goes to client k with probability q_{c,k}, independently. Sizes
          are random and may be 0. The rule of the released code of FedReLa, FedLoGe and FedGraB.
        - "proportions": class c is cut at floor(n_c * cumulative q_c). Clients that already hold n / n_splits
          rows get nothing of the classes that follow. The rule of NIID-Bench and MOON, without its restarts.
        - "equal_size": the clients of "multinomial" are put one after the other, rows shuffled inside each,
          and cut again into `n_splits` pieces whose sizes differ by at most one. The rule of the code of
          CReFF, CLIP2FL, FedYoYo and FedLF, without its groups of ten and its restarts.
    min_rows : int or None, default=None
        Every client has at least so many rows; None means 10 for "proportions" (as in its code) and 0
        otherwise. Clients that are short get rows, of one class where possible, from the largest client.
    random_state : int, RandomState instance or None, default=None
        An integer gives the same clients at every call.

    Attributes
    ----------
    n_empty_ : int
        Clients without rows in the last `split`; they are not yielded.

    Notes
    -----
    Invariants, each one a test: test sets are disjoint, complete, ascending and never empty; the same
    integer `random_state` gives the same clients; neither X nor the names of the classes matter; how many
    rows of a class a client gets depends only on the class counts (classes in order of first appearance);
    alpha to infinity gives IID clients, alpha to 0 gives each class to one client ("equal_size": pieces of
    few classes). One pass at any alpha: the shares are drawn as logarithms, so they never all underflow.

    References
    ----------
    Hsu, Qi, Brown, "Measuring the effects of non-identical data distribution for federated visual
    classification", arXiv 1909.06335. Li, Diao, Chen, He, "Federated learning on non-IID data silos: an
    experimental study", ICDE 2022 (NIID-Bench).

    Examples
    --------
    >>> import numpy as np
    >>> from fedrela_sk.splitters import DirichletSplit
    >>> y = np.repeat([0, 1, 2], [60, 30, 10])
    >>> splitter = DirichletSplit(n_splits=4, alpha=0.5, random_state=0)
    >>> clients = [test for _, test in splitter.split(np.zeros((100, 1)), y)]
    >>> sum(len(client) for client in clients)
    100
    """

    _parameter_constraints = {
        **ClientSplit._parameter_constraints,
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "method": [StrOptions({"multinomial", "proportions", "equal_size"})],
        "min_rows": [Interval(Integral, 0, None, closed="left"), None],
    }

    def __init__(
        self,
        n_splits: int = 10,
        alpha: float = 0.3,
        *,
        method: Literal["multinomial", "proportions", "equal_size"] = "multinomial",
        min_rows: int | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.n_splits = n_splits
        self.alpha = alpha
        self.method = method
        self.min_rows = min_rows
        self.random_state = random_state

    def _draw_owners(self, n_rows, y, generator):
        rule, default_min_rows = _METHODS[self.method]
        min_rows = default_min_rows if self.min_rows is None else self.min_rows
        check_min_rows(min_rows, self.n_splits, n_rows)
        return rule(
            class_codes(y, "DirichletSplit"), self.n_splits, as_float(self.alpha), min_rows, generator
        )


def multinomial_owners(codes, n_clients, alpha, min_rows, generator):
    """Each row on its own: counts of class c are multinomial with probabilities q_c."""
    columns = [
        generator.multinomial(n_rows, symmetric_dirichlet(alpha, n_clients, generator))
        for n_rows in np.bincount(codes)
    ]
    counts = raise_to_minimum(np.stack(columns, axis=1), min_rows)
    return owners_from_counts(counts, codes, generator)


def proportional_owners(codes, n_clients, alpha, min_rows, generator):
    """Each class is cut at its cumulative shares; clients that hold their even part get no more.

    Some client is always open: before the last class fewer than all rows are handed out. Shares of the open
    clients, renormalized, are again a symmetric Dirichlet, so they are drawn as such.
    """
    class_counts = np.bincount(codes)
    counts = np.zeros((n_clients, len(class_counts)), dtype=np.int64)
    for label, n_rows in enumerate(class_counts):
        is_open = np.flatnonzero(counts.sum(axis=1) * n_clients < len(codes))
        shares = symmetric_dirichlet(alpha, len(is_open), generator)
        counts[is_open, label] = cut_points(shares, n_rows)
    return owners_from_counts(raise_to_minimum(counts, min_rows), codes, generator)


def equal_size_owners(codes, n_clients, alpha, min_rows, generator):
    """The clients of the multinomial rule in one line, cut again into pieces of equal size.

    Sizes are floor or ceil of rows / clients, so a minimum that is possible at all is met.
    """
    before = multinomial_owners(codes, n_clients, alpha, 0, generator)
    in_line = np.lexsort((generator.random(len(codes)), before))
    owners = np.empty(len(codes), dtype=np.intp)
    owners[in_line] = np.arange(len(codes)) * n_clients // len(codes)
    return owners


# method -> (rule, its own min_rows)
_METHODS = {
    "multinomial": (multinomial_owners, 0),
    "proportions": (proportional_owners, 10),
    "equal_size": (equal_size_owners, 0),
}
