"""FedGraB (Xiao et al. 2023): controllers balance each tail class's positive and negative gradients."""

from typing import Literal

import torch
from torch.nn import functional as F

from fedrela_sk._typing import Batch, Job, Local, Model, Module, RoundFacts, Tensor, Tensors
from fedrela_sk.algorithms._base import Algorithm
from fedrela_sk.algorithms._checks import check_at_least, check_choice
from fedrela_sk.algorithms._heads import linear, marked, path
from fedrela_sk.algorithms._records import Broadcast

# rows that the estimated prior is spread over
N_ROWS = 10000
# shares of all rows at which the medium classes end: what comes after are the tail's
MEDIUM_ENDS = 0.95


class FedGraB(Algorithm):
    """One-vs-all cross-entropies whose gradients a controller per client and class balances; the server averages.

    - **Loss**: sigmoid cross-entropies summed over classes, averaged over rows. On the way back the gradient of
      logit c is multiplied by f(u_c) for rows of class c and by f(-u_c) for all others, with
      ``f(u) = (10/9) / (1/9 + exp(-u/2))``: f(0) = 1, between 0 and 10.
    - **Controller**: D_c is the sum of |gradient of logit c| over all rows of class c that this client ever saw,
      less that over all other rows, as they were multiplied. With the error e = -D_c, at every step,
      ``u <- u + kp (e - e') + ki e + kd (e - 2 e' + e'')``, e' and e'' the errors of the two steps before. D, u and
      the errors stay at the client between rounds and are never reset while a class is controlled; a
      class that is not has u = 0, and its D goes on.
    - **Skipping**: in every step the T >= 2 controlled classes are visited from the commonest on; each is left
      alone in this step (u = 0, nothing added to D) with probability 0.1^(r / (T - 1)), r the classes left alone
      so far. So the commonest controlled class is never balanced. A single one always is.
    - **Which classes**: after every round the server reads the norms n_c of the rows of the averaged classifier;
      the estimated prior is (n_c - min n) / sum of these, averaged over the rounds so far. The smallest class
      gets 0. Classes in descending order after 95 % of the prior are the tail. In round 0 there is none.

    `predict_proba` is the softmax of the logits, whose largest entry is that of the sigmoids; as logits are
    trained one against all, neither its rows nor the sigmoids are calibrated posteriors.

    Parameters
    ----------
    classes : {"tail", "all"}, default="tail"
        Which classes are controlled. The released script never calls the analyzer and controls all.
    kp, ki, kd : float >= 0, default=10.0, 0.01 and 0.1
        Gains of the controllers.
    head : str or None, default=None
        Name of the linear layer that ends the net; None looks for it.

    References
    ----------
    Xiao, Chen, Liu, Wang, Feng, Hao, Zhou, Wu, Yang, Liu, "Fed-GraB: Federated Long-tailed Learning with
    Self-Adjusting Gradient Balancer", NeurIPS 2023, arXiv 2310.07587. Formulas and defaults: ZackZikaiXiao/FedGraB.
    Its script leaves the classifier out of the optimizer; here it learns.
    """

    summary = "one-vs-all losses whose gradients are balanced by controllers"
    keeps = "c: 4 C, s: C"
    source = "Xiao et al. 2023"
    loop_only = "draws the classes that it leaves alone for every batch, one client after the other"
    traffic = "M / M + C"
    neutral_reason = "one-vs-all losses are the cross-entropy at no setting"

    def __init__(
        self,
        classes: Literal["tail", "all"] = "tail",
        kp: float = 10.0,
        ki: float = 0.01,
        kd: float = 0.1,
        head: str | None = None,
    ) -> None:
        self.classes = classes
        self.kp = kp
        self.ki = ki
        self.kd = kd
        self.head = head

    def check(self) -> None:
        check_choice("classes", self.classes, ("tail", "all"))
        for name in ("kp", "ki", "kd"):
            check_at_least(name, getattr(self, name), 0)

    def prepare_module(self, module: Module, n_classes: int) -> Module:
        return marked(module, n_classes, self.head)

    def server_init(self, params: Tensors, job: Job) -> Tensors:
        return {"total": job.like.new_zeros(job.n_classes), "n_readings": job.like.new_zeros(())}

    def server_broadcast(self, server_state: Tensors) -> Broadcast:
        return Broadcast(
            every_round={"prior": server_state["total"] / server_state["n_readings"].clamp_min(1)}
        )

    def client_init(self, params: Tensors) -> Tensors:
        """One zero for all classes; after a step there is an entry for each."""
        return {name: torch.zeros(()) for name in ("difference", "control", "error", "error_before")}

    def client_loss(self, model: Model, batch: Batch, local: Local) -> Tensor | tuple[Tensor, Tensors]:
        h, _ = model.features(batch.x)
        logits = linear(model.params, model.head, h)
        prior = local.server["prior"]
        controlled = torch.ones_like(prior, dtype=torch.bool) if self.classes == "all" else tail(prior)
        state = self._steer(local.state, controlled)
        alone = left_alone(prior, controlled, local.stream)
        u = torch.where(alone, 0.0, state["control"])
        target = F.one_hot(batch.y, len(prior)).to(logits)
        factor = torch.where(target > 0, balance(u), balance(-u)).to(logits)
        scaled = logits.detach() + factor * (logits - logits.detach())  # the same numbers, other gradients
        losses = F.binary_cross_entropy_with_logits(scaled, target, reduction="none").sum(1)
        size = batch.share[:, None] * factor * (torch.sigmoid(logits) - target).abs()
        gained = ((2 * target - 1) * size).sum(0).detach()
        difference = state["difference"] + torch.where(alone, 0.0, gained)
        return batch.mean(losses), state | {"difference": difference}

    def _steer(self, state, controlled):
        """A step of the controllers; those of other classes are at rest."""
        error, e1, e2 = -state["difference"], state["error"], state["error_before"]
        moved = self.kp * (error - e1) + self.ki * error + self.kd * (error - 2 * e1 + e2)
        new = {"control": state["control"] + moved, "error": error, "error_before": e1}
        return state | {name: torch.where(controlled, value, 0.0) for name, value in new.items()}

    def server_train(
        self, model: Model, params: Tensors, server_state: Tensors, facts: RoundFacts
    ) -> tuple[Tensors, Tensors]:
        reading = N_ROWS * norm_prior(params[path(model.head, "weight")])
        total, n_readings = server_state["total"] + reading, server_state["n_readings"] + 1
        return params, {"total": total, "n_readings": n_readings}


def balance(u):
    """Factor on a gradient: 1 at 0, 10 and 0 at plus and minus infinity."""
    return (10 / 9) / (1 / 9 + torch.exp(-u / 2))


def norm_prior(weight):
    """Shares of the classes from the norms of a classifier's rows, smallest at 0; equal for equal norms.

    The official code divides by the norms' standard deviation first, which cancels.
    """
    norms = torch.linalg.vector_norm(weight, dim=1)
    above = norms - norms.min()
    total = above.sum()
    return torch.where(total > 0, above / torch.where(total > 0, total, 1.0), 1 / len(norms))


def tail(prior):
    """Which classes come after 95 % of the prior in descending order, bool; none where nothing is known yet."""
    prior = prior.to(torch.float64)
    ordered, classes = torch.sort(prior, descending=True, stable=True)
    before = torch.cumsum(ordered, 0) - ordered
    found = torch.zeros_like(prior, dtype=torch.bool)
    # hitting the share exactly ends the medium classes
    found[classes] = before >= (MEDIUM_ENDS - 1e-9) * prior.sum()
    return found & (prior.sum() > 0)


def left_alone(prior, controlled, stream):
    """Controlled classes that this step leaves alone, bool of shape (n_classes,)."""
    alone = torch.zeros_like(controlled)
    order = [c for c in torch.sort(prior, descending=True, stable=True)[1].tolist() if controlled[c]]
    if len(order) < 2:
        return alone
    n_alone = 0
    for c, u in zip(order, stream.random(len(order)), strict=True):
        if u < 0.1 ** (n_alone / (len(order) - 1)):
            alone[c], n_alone = True, n_alone + 1
    return alone
