"""Remix (Chou et al. 2020): mixup whose label is the rarer of the two where the classes differ enough."""

from numbers import Real

import numpy as np

from fedrela_sk._sklearn import Interval
from fedrela_sk.local_data._mixup import Mixup


class Remix(Mixup):
    """Features as in `Mixup`; of labels y (n_y rows at the client) and y' (n_y' rows)

        share of y = 0 where n_y >= kappa n_y' and l < tau,
                     1 where kappa n_y <= n_y' and 1 - l < tau,
                     l otherwise.

    No code of the authors is known; the rule is the one of the re-implementation in ntucllab/imbalanced-DL.

    Parameters
    ----------
    alpha : float >= 0, default=1.0
    kappa : float >= 1, default=3.0
        How many times as many rows make a class the common one. Infinity: `Mixup`.
    tau : float in [0, 1], default=0.5

    References
    ----------
    Chou, Chang, Pan, Wei, Juan, "Remix: Rebalanced Mixup", ECCV 2020 workshops, arXiv 2007.03943.
    """

    _parameter_constraints = {
        **Mixup._parameter_constraints,
        "kappa": [Interval(Real, 1, None, closed="left")],
        "tau": [Interval(Real, 0, 1, closed="both")],
    }

    def __init__(self, alpha: float = 1.0, kappa: float = 3.0, tau: float = 0.5) -> None:
        super().__init__(alpha)
        self.kappa = kappa
        self.tau = tau

    def _label_shares(self, counts, y, other, share):
        own, others = counts[y], counts[other]
        rarer_partner = (own >= self.kappa * others) & (share < self.tau)
        rarer_self = (self.kappa * own <= others) & (1 - share < self.tau)
        return np.select([rarer_partner, rarer_self], [0.0, 1.0], default=share)
