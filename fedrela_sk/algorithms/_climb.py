"""CLIMB (Shen et al. 2022): clients whose loss is far above the average get more weight."""

from typing import Any, Literal

import numpy as np
import torch

from fedrela_sk._typing import Array, ClientData, Job, Local, LocalRun, Model, RoundFacts, Tensors
from fedrela_sk.aggregation import SignedMean
from fedrela_sk.algorithms._base import Algorithm
from fedrela_sk.algorithms._checks import check_at_least, check_choice, check_whole
from fedrela_sk.algorithms._displacement import moved
from fedrela_sk.algorithms._records import Query
from fedrela_sk.losses._mean import weights_in_mean

# one vector of all parameters that learn; no parameter can have this name
STEP = "displacement of the model"
# batches of an epoch in the official code
N_BATCHES = 5


class CLIMB(Algorithm):
    """Minimize the mean of all clients' losses f_i while none exceeds it by more than epsilon.

    The server keeps one number lambda_i >= 0 for each of the N clients, all 0 at first. Every `dual_every`
    rounds all clients report f_i of the model that they receive, rounds go on with

        theta <- theta + 1/|S| sum_{i in S} w_i (theta_i - theta),  w_i = 1 + lambda_i - mean lambda,

    and only then lambda_i <- clip(lambda_i + dual_lr (f_i - mean f - epsilon) / N, 0, max_dual). So the first
    `dual_every` rounds are those of FedAvg with uniform weights. Weights are not renormalized over the
    clients S of a round; whatever `client_weight` says is not used. They belong to clients, not to classes.
    BatchNorm's statistics get the plain mean. `FedAvg` is the primal solver; FedPD, the official code's
    default, is not offered. A client that has no row left reports nothing and keeps its lambda.

    Parameters
    ----------
    epsilon : float >= 0, default=0.2
        Tolerance, on the scale that `losses` names. The paper's value is not known. The official code has 1.0
        on sums over five batches, about 0.2 on a mean; 1.0 on a mean is hardly ever exceeded.
    dual_lr : float >= 0, default=1.0
        Rate of the lambdas; 0 keeps them at 0.
    dual_every : int >= 1, default=5
        Rounds between two reports.
    max_dual : float > 0, default=100.0
        Upper bound of every lambda.
    losses : {"mean", "sum_of_batches"}, default="mean"
        What a client reports: the mean of its criterion over its rows in evaluation mode, or, as the official
        code does up to its augmentation, the sum of the means of batches of a fifth of its rows
        (max(1, n_i // 5), in their order): about five times as much, up to nine times for tiny clients.
    negative : {"allow", "clip"}, default="allow"
        What becomes of w_i < 0, which appears as soon as mean lambda > 1 + lambda_i. "allow": the server goes away
        from that client's model, as in the official code. "clip": w_i is 0.

    References
    ----------
    Shen, Cervino, Hassani, Ribeiro, "An Agnostic Approach to Federated Learning with Class Imbalance", ICLR 2022.
    Defaults: config.py of shenzebang/Federated-Learning-Pytorch.
    """

    summary = "clients far above the mean loss get more weight; all clients report a loss every 5 rounds"
    keeps = "s: one dual per client"
    source = "Shen et al. 2022"
    telling = {"epsilon": 0, "dual_every": 1}
    traffic = "M / M or M + 8 / M"
    neutral = {"dual_lr": 0.0}
    neutral_weights = "uniform"

    def __init__(
        self,
        epsilon: float = 0.2,
        dual_lr: float = 1.0,
        dual_every: int = 5,
        max_dual: float = 100.0,
        losses: Literal["mean", "sum_of_batches"] = "mean",
        negative: Literal["allow", "clip"] = "allow",
    ) -> None:
        self.epsilon = epsilon
        self.dual_lr = dual_lr
        self.dual_every = dual_every
        self.max_dual = max_dual
        self.losses = losses
        self.negative = negative

    def check(self) -> None:
        check_at_least("epsilon", self.epsilon, 0)
        check_at_least("dual_lr", self.dual_lr, 0)
        check_whole("dual_every", self.dual_every, 1)
        check_at_least("max_dual", self.max_dual, 0, above=True)
        check_choice("losses", self.losses, ("mean", "sum_of_batches"))
        check_choice("negative", self.negative, ("allow", "clip"))

    def server_init(self, params: Tensors, job: Job) -> Tensors:
        zeros = torch.zeros(job.n_clients, dtype=torch.float64)
        return {"duals": zeros, "excess": zeros}

    def server_query(self, round: int) -> Query | None:
        if round % self.dual_every:
            return None
        return Query(self.client_report, self.server_gather, whom="all")

    def client_report(self, model: Model, data: ClientData, local: Local) -> Tensors:
        """The loss of the model that a client received, on its own rows."""
        with torch.no_grad():
            batches = data.batches(model.criterion)
            losses = torch.cat([batch.row_losses(model.evaluate(batch.x)) for batch in batches])
        n, weights = len(losses), data.loss_weights
        own = weights_in_mean(model.criterion)  # already in the losses
        counted = weights if own is None else weights * own[data.y]
        size = n if self.losses == "mean" else max(1, n // N_BATCHES)
        parts = zip((weights * losses).split(size), counted.split(size), strict=True)
        return {"loss": sum(_ratio(loss.sum(), count.sum()) for loss, count in parts)}

    def server_gather(self, reports: dict[int, Tensors], server_state: Tensors, facts: RoundFacts) -> Tensors:
        """The step of the lambdas that is due since the last reports; the new ones are kept for the next."""
        duals = server_state["duals"] + self.dual_lr * server_state["excess"] / facts.n_clients
        numbers = sorted(reports)
        losses = torch.stack([reports[number]["loss"] for number in numbers]).cpu().to(torch.float64)
        excess = torch.zeros_like(duals)
        excess[numbers] = losses - losses.mean() - self.epsilon
        return {"duals": duals.clamp(0, self.max_dual), "excess": excess}

    def server_weights(self, weights: Array, clients: Array, server_state: Tensors) -> Array:
        duals = server_state["duals"].numpy()
        own = (1 + duals - duals.mean())[clients]
        return own if self.negative == "allow" else np.maximum(own, 0.0)

    def client_finish(self, params: Tensors, local: Local, run: LocalRun) -> tuple[Tensors, Tensors]:
        steps = [(params[name] - local.anchor[name]).flatten() for name in run.trainable]
        rest = {name: tensor for name, tensor in params.items() if name not in run.trainable}
        return rest | {STEP: torch.cat(steps)}, local.state

    def server_aggregator(self) -> Any:
        return SignedMean([STEP])

    def server_step(
        self, params: Tensors, aggregated: Tensors, server_state: Tensors, facts: RoundFacts
    ) -> tuple[Tensors, Tensors]:
        names = facts.trainable
        parts = aggregated[STEP].split([params[name].numel() for name in names])
        steps = {name: part.view_as(params[name]) for name, part in zip(names, parts, strict=True)}
        return moved(params, aggregated, steps), server_state


def _ratio(total, count):
    """Mean loss of a batch, 0 where no row has a weight."""
    return total / torch.where(count > 0, count, 1.0)
