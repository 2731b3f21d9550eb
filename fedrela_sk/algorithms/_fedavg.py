"""FedAvg (McMahan et al. 2017): the weighted mean of the clients' models."""

from typing import Any

from fedrela_sk._typing import RoundFacts, Tensors
from fedrela_sk.algorithms._base import Algorithm
from fedrela_sk.algorithms._checks import check_at_least
from fedrela_sk.algorithms._displacement import displacement, moved


class FedAvg(Algorithm):
    """theta <- theta + server_lr (mean_k theta_k - theta) with mean_k x_k = sum_k w_k x_k / sum_k w_k.

    The sums run over the clients that took part, not over all of them. At the default rate 1 the new model
    is the mean of theirs. BatchNorm's running statistics are averaged at any rate, its batch counters take
    the maximum.

    Parameters
    ----------
    server_lr : float >= 0, default=1.0
        Share of the mean displacement that the server goes.

    References
    ----------
    McMahan, Moore, Ramage, Hampson, Agüera y Arcas, "Communication-Efficient Learning of Deep Networks
    from Decentralized Data", AISTATS 2017.
    """

    summary = "nothing; a server rate"
    source = "McMahan et al. 2017"
    neutral: dict[str, Any] | None = {}
    neutral_reason = "it is FedAvg"

    def __init__(self, server_lr: float = 1.0) -> None:
        self.server_lr = server_lr

    def check(self) -> None:
        check_at_least("server_lr", self.server_lr, 0)

    def server_step(
        self, params: Tensors, aggregated: Tensors, server_state: Tensors, facts: RoundFacts
    ) -> tuple[Tensors, Tensors]:
        if self.server_lr == 1:
            return super().server_step(params, aggregated, server_state, facts)
        delta = displacement(params, aggregated, facts.trainable)
        steps = {name: self.server_lr * d for name, d in delta.items()}
        return moved(params, aggregated, steps), server_state
