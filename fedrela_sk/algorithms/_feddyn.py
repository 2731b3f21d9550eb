"""FedDyn (Acar et al. 2021): a linear term that moves every client's minimum to everybody's."""

from typing import Literal

import numpy as np
import torch

from fedrela_sk import _tree
from fedrela_sk._typing import Array, ClientData, Job, Local, LocalRun, Model, RoundFacts, Tensor, Tensors
from fedrela_sk.algorithms._base import Algorithm
from fedrela_sk.algorithms._checks import check_at_least, check_choice, check_flag
from fedrela_sk.algorithms._displacement import displacement, moved, zeros
from fedrela_sk.algorithms._records import Broadcast, Query
from fedrela_sk.algorithms._tags import tagged, untagged

# Below both a warning: seen on digits, where alpha 0.01 diverges at pulls of 0.01 and not at 0.05.
SAFE_ALPHA, SAFE_PULL = 0.1, 0.02
# in the server's state
MEAN_ROWS = "mean rows of a client"


class FedDyn(Algorithm):
    """Clients minimize F_k(theta) - <g_k, theta> + (alpha / 2) ||theta - theta_t||^2.

    ::

        g_k <- g_k - alpha (theta_k - theta_t)                    at clients that took part
        h <- h - (alpha / clients) sum_k (theta_k - theta_t)      over clients that took part
        theta <- mean_k theta_k - h / alpha                       mean over clients that took part

    Means are plain: every client counts the same, whatever `client_weight` says. h is the mean of all g_k at all
    times (with `by_rows`, of all w_k g_k). All start at zero, so that the first round is FedProx with mu=alpha and,
    with all clients, goes twice as far. BatchNorm's statistics are averaged and nothing else. With momentum in the
    client's optimizer both terms are inside it.

    Clients keep g_k; nothing travels but the model, and before a relabeling the one that predicts where it
    is not the same. ``alpha=0.01, clip=10.0, by_rows=True`` is the released code on CIFAR-10, which has hundreds of
    steps in a round.

    Parameters
    ----------
    alpha : float > 0, default=0.1
        Strength; the released code's examples have 0.01. The server divides by it: where clients take few steps in a
        round, small values make the model's norm grow without bound. Below 0.1 and where learning rate x alpha x the
        median client's steps in a round is below 0.02, `fit` warns once and ``history_.notes`` says so.
    predicts : {"server", "participants"}, default="server"
        Which model predicts and relabels: the one that the server sends to clients, or the mean of the models
        of the last round's clients, which is the better one early on.
    clip : float > 0 or None, default=None
        Largest norm of the gradient of a batch's loss and of the linear part, ``alpha theta`` left out, as in the
        released code, which has 10. None: as it is.
    by_rows : bool, default=False
        Whether client k has strength alpha / w_k, w_k its rows (sum of their weights) over the mean rows of all
        clients, as in the released code. Clients then report their number of rows once, before round 0.

    References
    ----------
    Acar, Zhao, Matas Navarro, Mattina, Whatmough, Saligrama, "Federated Learning Based on Dynamic
    Regularization", ICLR 2021, arXiv 2111.04263.
    """

    summary = (
        "a linear and a quadratic term that align the clients' optima; `clip=10.0`, `by_rows=True`: the "
        "released code's"
    )
    keeps = "c: M, s: M"
    source = "Acar et al. 2021"
    neutral_reason = "alpha=0 is not defined: the server divides by alpha"

    def __init__(
        self,
        alpha: float = 0.1,
        predicts: Literal["server", "participants"] = "server",
        clip: float | None = None,
        by_rows: bool = False,
    ) -> None:
        self.alpha = alpha
        self.predicts = predicts
        self.clip = clip
        self.by_rows = by_rows

    def check(self) -> None:
        check_at_least("alpha", self.alpha, 0, above=True)
        check_choice("predicts", self.predicts, ("server", "participants"))
        if self.clip is not None:
            check_at_least("clip", self.clip, 0, above=True)
        check_flag("by_rows", self.by_rows)

    def caution(self, lr: float, n_steps: float) -> str | None:
        pull = lr * self.alpha * n_steps
        if self.alpha >= SAFE_ALPHA or pull >= SAFE_PULL:
            return None
        return (
            f"FedDyn(alpha={self.alpha:g}): learning rate x alpha x the median client's {n_steps:g} steps in a round "
            f"is {pull:.2g}, below {SAFE_PULL:g}. Clients are hardly held back and the server divides by alpha, so "
            f"that the model may grow without bound. Use alpha={SAFE_ALPHA:g}, or more local steps."
        )

    def unused_hooks(self) -> tuple[str, ...]:
        unused = {"predict_params": self.predicts == "server", "client_correct": self.clip is None}
        return tuple(hook for hook, is_unused in unused.items() if is_unused)

    def server_init(self, params: Tensors, job: Job) -> Tensors:
        rows = {MEAN_ROWS: job.like.new_ones(())} if self.by_rows else {}
        return rows | self._server_state(zeros(params, job.trainable), _tree.subset(params, job.trainable))

    def client_init(self, params: Tensors) -> Tensors:
        return {name: torch.zeros_like(p) for name, p in params.items() if p.is_floating_point()}

    def server_weights(self, weights: Array, clients: Array, server_state: Tensors) -> Array:
        return np.ones_like(weights)

    def server_query(self, round: int) -> Query | None:
        if not self.by_rows or round > 0:
            return None
        return Query(self.client_report, self.server_gather, whom="all", needs_model=False)

    def client_report(self, model: Model, data: ClientData, local: Local) -> Tensors:
        """How many rows a client has."""
        return {"rows": local.counts.sum()}

    def server_gather(self, reports: dict[int, Tensors], server_state: Tensors, facts: RoundFacts) -> Tensors:
        """The mean number of rows."""
        rows = torch.stack([report["rows"] for report in reports.values()])
        return server_state | {MEAN_ROWS: rows.mean()}

    def server_broadcast(self, server_state: Tensors) -> Broadcast:
        mean_rows = _tree.subset(server_state, server_state.keys() & {MEAN_ROWS})
        return Broadcast(first_time=mean_rows, relabeling=untagged("mean", server_state))

    def _strength(self, local):
        """alpha of a client."""
        return self.alpha * local.server[MEAN_ROWS] / local.counts.sum() if self.by_rows else self.alpha

    def client_penalty(self, params: Tensors, local: Local) -> Tensor | float:
        linear = sum((local.state[name] * param).sum() for name, param in params.items())
        return 0.5 * self._strength(local) * _tree.squared_distance(params, local.anchor) - linear

    def client_correct(self, grads: Tensors, params: Tensors, local: Local) -> Tensors:
        if self.clip is None:
            return grads
        alpha = self._strength(local)
        pulls = {name: alpha * params[name] for name in grads}
        others = {name: grad - pulls[name] for name, grad in grads.items()}
        norm = torch.sqrt(sum((other**2).sum() for other in others.values()))
        factor = torch.clamp(self.clip / (norm + 1e-6), max=1.0)  # as torch clips
        return {name: factor * other + pulls[name] for name, other in others.items()}

    def client_finish(self, params: Tensors, local: Local, run: LocalRun) -> tuple[Tensors, Tensors]:
        alpha = self._strength(local)
        slopes = {
            name: local.state[name] - alpha * (params[name] - local.anchor[name]) for name in run.trainable
        }
        return params, local.state | slopes

    def server_step(
        self, params: Tensors, aggregated: Tensors, server_state: Tensors, facts: RoundFacts
    ) -> tuple[Tensors, Tensors]:
        delta = displacement(params, aggregated, facts.trainable)
        share = facts.n_participants / facts.n_clients
        h = {name: h - self.alpha * share * delta[name] for name, h in untagged("h", server_state).items()}
        steps = {name: d - h[name] / self.alpha for name, d in delta.items()}
        return moved(params, aggregated, steps), server_state | self._server_state(
            h, _tree.subset(aggregated, h)
        )

    def _server_state(self, h, mean):
        """h, and the mean of the clients' models where it predicts."""
        return tagged("h", h) | (tagged("mean", mean) if self.predicts == "participants" else {})

    def predict_params(
        self, params: Tensors, server_state: Tensors, model: Model, relabeling: bool = False
    ) -> Tensors:
        return params | untagged("mean", server_state)
