"""Ratio Loss (Wang et al. 2021): class weights from what a balanced set at the server does to the head."""

from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from fedrela_sk import _tree
from fedrela_sk._typing import Array, Job, Local, Model, Module, RoundFacts, Tensor, Tensors
from fedrela_sk.algorithms._base import Algorithm
from fedrela_sk.algorithms._checks import check_at_least
from fedrela_sk.algorithms._class_changes import class_ratios
from fedrela_sk.algorithms._heads import marked, path
from fedrela_sk.algorithms._records import Broadcast


class RatioLoss(Algorithm):
    """Clients minimize the mean of a_y CE(z, y); the server sets the weights a and averages uniformly.

    After every round the server takes the model that the round started from and trains a copy of it on each
    class of its auxiliary rows only, as clients train (rate of the round, epochs, batch size, momentum,
    weight decay; always by SGD, in the order of the rows, in evaluation mode: no Dropout, BatchNorm's running
    statistics). A class that moves its own weights of the head much more than other classes do is rare:

        a_p = alpha + beta min(R_p, cap),  R_p = |sum W_p| / |sum mean_{q != p} W_q|

    over the weights of the head (not its bias) that class p moves up the most and no other class by 80 % as
    much. The weights of a round are used in the next; round 0 is plain CE. The loss is divided by the number of
    rows, not by their weights, so a large a is a larger step. Whatever `client_weight` says is not used. This is
    the official code's ratio of sums; the paper's formula is said to be a mean of ratios. Its monitor of a
    round's classes does not enter the loss; it is a function, `class_composition` in `_class_changes.py`.

    Parameters
    ----------
    auxiliary : int or pair (X, y), default=63
        Rows of each class at the server. An int: so many first rows of each class of the training data, as the
        official code does. **These are rows that clients own: a leak.** A pair: rows of your own that no client
        has, at least one of each class. Either way each class has as many (its first) as the rarest one.
    alpha, beta : float >= 0, default=1.0 and 0.1
    cap : float > 0, default=50.0
        The official code has 5000, with a learning rate of 0.001. A ratio explodes now and then, where the
        others' sum happens to be near 0; at common rates a single such round with weights of hundreds ends
        the training (digits at rate 0.2: three of five seeds). 50 is our choice: weights up to 6.
    head : str or None, default=None
        Name of the linear layer that ends the net; None looks for it.

    References
    ----------
    Wang, Xu, Wang, Zhu, "Addressing Class Imbalance in Federated Learning", AAAI 2021, arXiv 2008.06217. Code and
    defaults: balanced-fl/Addressing-Class-Imbalance-FL.
    """

    summary = (
        "class weights from a balanced set that the server holds: by default 63 rows per class **of the "
        "clients' own**; pass `auxiliary=(X, y)`"
    )
    keeps = "s: the set, C"
    source = "Wang et al. 2021"
    traffic = "M / M + C"
    neutral = {"beta": 0.0}
    neutral_weights = "uniform"

    def __init__(
        self,
        auxiliary: Any = 63,
        alpha: float = 1.0,
        beta: float = 0.1,
        cap: float = 50.0,
        head: str | None = None,
    ) -> None:
        self.auxiliary = auxiliary
        self.alpha = alpha
        self.beta = beta
        self.cap = cap
        self.head = head

    def check(self) -> None:
        if self.auxiliary is None:
            raise ValueError(
                "auxiliary=None leaves RatioLoss without rows at the server. Pass hold-out rows (X, y), or a number "
                "of rows per class to take from the training data."
            )
        check_at_least("alpha", self.alpha, 0)
        check_at_least("beta", self.beta, 0)
        check_at_least("cap", self.cap, 0, above=True)

    def prepare_module(self, module: Module, n_classes: int) -> Module:
        return marked(module, n_classes, self.head)

    def server_init(self, params: Tensors, job: Job) -> Tensors:
        X, codes = job.auxiliary
        n = int(torch.bincount(codes).min())
        rows = torch.stack([X[codes == code][:n] for code in range(job.n_classes)])
        return {"weights": job.like.new_ones(job.n_classes), "auxiliary rows by class": rows}

    def server_broadcast(self, server_state: Tensors) -> Broadcast:
        return Broadcast(every_round={"weights": server_state["weights"]})

    def server_weights(self, weights: Array, clients: Array, server_state: Tensors) -> Array:
        return np.ones_like(weights)

    def client_row_losses(self, logits: Tensor, y: Tensor, local: Local) -> Tensor:
        return local.server["weights"][y] * F.cross_entropy(logits, y, reduction="none")

    def server_train(
        self, model: Model, params: Tensors, server_state: Tensors, facts: RoundFacts
    ) -> tuple[Tensors, Tensors]:
        name = path(model.head, "weight")
        changes = [
            train_on_class(model, x, code, facts)[name] - facts.anchor[name]
            for code, x in enumerate(server_state["auxiliary rows by class"])
        ]
        ratios = class_ratios(torch.stack(changes).flatten(1))
        return params, server_state | {"weights": self.alpha + self.beta * ratios.clamp(max=self.cap)}


def train_on_class(model, x, code, facts):
    """Parameters and buffers of the round's first model after training on rows of one class.

    Parameters
    ----------
    model : fedrela_sk.training.Model
    x : tensor of shape (n_rows, ...)
    code : int
        Their class.
    facts : RoundFacts
    """
    recipe, y = facts.recipe, torch.full((len(x),), code, device=x.device)
    own = _tree.copy(facts.anchor)
    learning = [own[name].requires_grad_() for name in facts.trainable]
    sgd = torch.optim.SGD(learning, facts.lr, recipe.momentum, weight_decay=recipe.weight_decay)
    size = len(x) if recipe.batch_size == -1 else recipe.batch_size
    for _ in range(recipe.epochs):
        for rows, labels in zip(x.split(size), y.split(size), strict=True):
            sgd.zero_grad()
            F.cross_entropy(model.evaluate(rows, own), labels).backward()
            sgd.step()
    return _tree.detach(own)
