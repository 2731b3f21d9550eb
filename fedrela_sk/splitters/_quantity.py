"""Quantity skew: clients differ in how many rows they hold, not in which classes."""

from numbers import Integral, Real
from typing import Literal

import numpy as np

from fedrela_sk._apportion import apportion
from fedrela_sk._checks import as_float
from fedrela_sk._sklearn import Interval, StrOptions
from fedrela_sk._typing import RandomState
from fedrela_sk.splitters._base import ClientSplit, check_min_rows
from fedrela_sk.splitters._counts import (
    owners_from_counts,
    raise_to_minimum,
    symmetric_dirichlet,
)


class QuantitySkewSplit(ClientSplit):
    """Clients of unequal size, rows drawn at random whatever their class.

    Sizes are n * share, rounded to whole rows with the right sum (largest remainders up).

    Parameters
    ----------
    n_splits : int, default=10
        Number of clients, at least 1.
    alpha : float, default=0.5
        For "dirichlet": shares ~ Dir(alpha, ..., alpha) over the clients; above 0, small is uneven.
    method : {"dirichlet", "power_law"}, default="dirichlet"
        "power_law": the share of client k = 0, 1, ... is proportional to (k + 1)^(-exponent), so client 0 is
        the largest.
    exponent : float, default=1.0
        For "power_law", at least 0: 0 gives even sizes, 1 is Zipf's law.
    min_rows : int, default=0
        Every client has at least so many rows, taken from the largest client of the moment.
    random_state : int, RandomState instance or None, default=None
        An integer gives the same clients at every call.

    Attributes
    ----------
    n_empty_ : int
        Clients without rows in the last `split`; they are not yielded.

    Notes
    -----
    Invariants, each one a test: test sets are disjoint, complete, ascending and never empty; the same
    integer `random_state` gives the same clients; neither X nor y matters; alpha to infinity (or exponent 0)
    gives sizes that differ by at most one, alpha to 0 gives all rows but the minima to one client.

    References
    ----------
    Li, Diao, Chen, He, "Federated learning on non-IID data silos: an experimental study", ICDE 2022,
    "quantity skew".

    Examples
    --------
    >>> import numpy as np
    >>> from fedrela_sk.splitters import QuantitySkewSplit
    >>> splitter = QuantitySkewSplit(n_splits=4, method="power_law", random_state=0)
    >>> [len(test) for _, test in splitter.split(np.zeros(100))]
    [48, 24, 16, 12]
    """

    _parameter_constraints = {
        **ClientSplit._parameter_constraints,
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "method": [StrOptions({"dirichlet", "power_law"})],
        "exponent": [Interval(Real, 0, None, closed="left")],
        "min_rows": [Interval(Integral, 0, None, closed="left")],
    }

    def __init__(
        self,
        n_splits: int = 10,
        alpha: float = 0.5,
        *,
        method: Literal["dirichlet", "power_law"] = "dirichlet",
        exponent: float = 1.0,
        min_rows: int = 0,
        random_state: RandomState = None,
    ) -> None:
        self.n_splits = n_splits
        self.alpha = alpha
        self.method = method
        self.exponent = exponent
        self.min_rows = min_rows
        self.random_state = random_state

    def _draw_owners(self, n_rows, y, generator):
        check_min_rows(self.min_rows, self.n_splits, n_rows)
        shares = _SHARES[self.method](self, generator)
        sizes = raise_to_minimum(apportion(shares, n_rows)[:, None], self.min_rows)
        return owners_from_counts(sizes, np.zeros(n_rows, dtype=np.intp), generator)


def _dirichlet_shares(splitter, generator):
    return symmetric_dirichlet(as_float(splitter.alpha), splitter.n_splits, generator)


def _power_law_shares(splitter, generator):
    weights = np.arange(1, splitter.n_splits + 1, dtype=np.float64) ** -as_float(splitter.exponent)
    return weights / weights.sum()


_SHARES = {"dirichlet": _dirichlet_shares, "power_law": _power_law_shares}
