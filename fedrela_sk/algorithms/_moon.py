"""MOON (Li, He, Song 2021): features near the global model's and away from the client's own last ones."""

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from fedrela_sk._typing import Batch, Local, LocalRun, Model, Module, Tensor, Tensors
from fedrela_sk.algorithms._base import Algorithm
from fedrela_sk.algorithms._checks import check_at_least, check_whole
from fedrela_sk.algorithms._tags import tagged, untagged
from fedrela_sk.nets import find_head, mark_head, swap_head

SEEN = "has previous"  # no name of a parameter: it has a space


class MOON(Algorithm):
    """A model-contrastive term beside the cross-entropy, averaged over the rows of a batch.

    ::

        term = -log( e^(cos(z, z_g) / T) / (e^(cos(z, z_g) / T) + e^(cos(z, z_p) / T)) )
        loss = cross-entropy + mu term

    z are a row's features, the input of the net's last layer; z_g those of the global model that the client
    received, z_p those of the model that it trained when it last took part, however long ago. Both of these
    run in evaluation mode and without gradients. A client that has no last model yet has no term, as in the
    first round of the released code. The server averages. The last model stays at the client.

    Parameters
    ----------
    mu : float >= 0, default=1.0
        Strength. The paper finds 5 best on CIFAR-10, 1 on CIFAR-100 and Tiny-ImageNet, among 0.1, 1, 5, 10.
    temperature : float > 0, default=0.5
    projection : int or None, default=256
        The paper puts a projection before the last layer: of F features, Linear(F, F), ReLU, Linear(F, projection)
        and a new last layer; compare with FedAvg on a net of that kind. None leaves the net as it is, for one
        that has a projection of its own, or none.
    head : str or None, default=None
        Name of the net's last linear layer; None: the last one with a column for every class.

    References
    ----------
    Li, He, Song, "Model-Contrastive Federated Learning", CVPR 2021, arXiv 2103.16257.
    """

    summary = "features contrasted with those of the global and the client's last model; a projection head"
    keeps = "c: M"
    source = "Li et al. 2021"
    bare_loss = False
    sends_model = True
    neutral = {"mu": 0.0, "projection": None}

    def __init__(
        self, mu: float = 1.0, temperature: float = 0.5, projection: int | None = 256, head: str | None = None
    ) -> None:
        self.mu = mu
        self.temperature = temperature
        self.projection = projection
        self.head = head

    def check(self) -> None:
        check_at_least("mu", self.mu, 0)
        check_at_least("temperature", self.temperature, 0, above=True)
        if self.projection is not None:
            check_whole("projection", self.projection, 1)

    def unused_hooks(self) -> tuple[str, ...]:
        """Without the term the net's own loss does, bit for bit."""
        return () if self.mu > 0 else ("client_loss",)

    def prepare_module(self, module: Module, n_classes: int) -> Module:
        name = find_head(module, n_classes, self.head)
        if self.projection is None:
            mark_head(module, name)
            return module
        width: Any = module.get_submodule(name).in_features
        projected = nn.Sequential(
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, self.projection),
            nn.Linear(self.projection, n_classes),
        )
        return swap_head(module, name, projected, head="3")

    def client_init(self, params: Tensors) -> Tensors:
        some = next(iter(params.values()))
        return {SEEN: torch.zeros((), device=some.device)} | tagged("previous", params)

    def client_loss(self, model: Model, batch: Batch, local: Local) -> Tensor | tuple[Tensor, Tensors]:
        z, logits = model.features(batch.x)
        z_global, _ = model.frozen(batch.x, local.anchor)
        z_previous, _ = model.frozen(batch.x, untagged("previous", local.state))
        near, far = (F.cosine_similarity(z, other, dim=1) for other in (z_global, z_previous))
        term = batch.plain_mean(F.softplus((far - near) / self.temperature))
        return batch.criterion_loss(logits) + self.mu * local.state[SEEN] * term

    def client_finish(self, params: Tensors, local: Local, run: LocalRun) -> tuple[Tensors, Tensors]:
        return params, {SEEN: torch.ones_like(local.state[SEEN])} | tagged("previous", params)
