"""FedProx (Li et al. 2020): a pull back to the model that the round started from."""

from fedrela_sk import _tree
from fedrela_sk._typing import Local, Tensor, Tensors
from fedrela_sk.algorithms._base import Algorithm
from fedrela_sk.algorithms._checks import check_at_least


class FedProx(Algorithm):
    """Clients minimize ``F_k(theta) + (mu / 2) ||theta - theta_t||^2``; the server averages.

    The term's gradient passes through the client's optimizer like any other: with momentum it is inside the
    momentum buffer. Clients take all their local steps; the paper's inexact solvers are not simulated.

    Parameters
    ----------
    mu : float >= 0, default=0.01
        Strength. The authors recommend to tune it over 0.001, 0.01, 0.1, 0.5 and 1; no value works everywhere.

    References
    ----------
    Li, Sahu, Zaheer, Sanjabi, Talwalkar, Smith, "Federated Optimization in Heterogeneous Networks",
    MLSys 2020, arXiv 1812.06127.
    """

    summary = "a pull back to the round's start"
    source = "Li et al. 2020"
    neutral = {"mu": 0.0}

    def __init__(self, mu: float = 0.01) -> None:
        self.mu = mu

    def check(self) -> None:
        check_at_least("mu", self.mu, 0)

    def client_penalty(self, params: Tensors, local: Local) -> Tensor | float:
        return 0.5 * self.mu * _tree.squared_distance(params, local.anchor)
