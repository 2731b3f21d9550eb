"""BalanceFL (Shuai et al. 2022): balanced batches, noise on features, absent classes kept as they were."""

from typing import Literal

import numpy as np
import torch
from torch.nn import functional as F

from fedrela_sk._typing import Array, Batch, ClientData, Local, Model, Module, Tensor, Tensors
from fedrela_sk.algorithms._base import Algorithm
from fedrela_sk.algorithms._checks import check_at_least, check_choice, check_whole
from fedrela_sk.algorithms._heads import features_of, linear, marked


class BalanceFL(Algorithm):
    """Each client trains as if its classes were balanced and forgets none that it lacks; the server averages.

    - Batches visit the client's classes in turn, so that an epoch of n_k rows holds every class equally often up
      to one; rows of a rare class come again. The official code draws every row at random with replacement, by
      weights that make classes equally likely: classes are then equal on average only.
    - With probability ``1 - n_{k,c} / max n_k`` a row of class c gets Gaussian noise on its features, with the
      mean covariance of the client's classes, weighted by their rows. It is computed once a round from the
      received model in evaluation mode, and `n_noise` vectors are drawn beforehand.
    - The loss of a batch, z the logits (with noise in the first term only):
      ``CE(z over the classes in the batch, y) + distill * soft CE(received z / T, z / T over the other classes)
      - entropy * sum over rows of the entropy of softmax(z over the classes in the batch)``.
      Its last term is a sum, the others are means, as in the official code.

    The received model answers in evaluation mode; the official code leaves it in training mode.

    Parameters
    ----------
    distill : float >= 0, default=1.0
        Weight of the second term.
    temperature : float > 0, default=2.0
        T.
    entropy : float >= 0, default=0.002
        Weight of the third term.
    n_noise : int >= 1, default=500
        Noise vectors of a client and round.
    counts : {"original", "relabeled"}, default="original"
        Which labels n_k counts once a client has relabeled. Batches and covariances go by current labels.
    head : str or None, default=None
        Name of the linear layer that ends the net; None looks for it.

    References
    ----------
    Shuai, Shen, Jiang, Zhao, Yan, Xing, "BalanceFL: Addressing Class Imbalance in Long-Tail Federated Learning",
    IPSN 2022. Formulas and defaults: sxontheway/BalanceFL; the paper was not available to us.
    """

    summary = "balanced batches, noise on features, absent classes kept by distillation"
    source = "Shuai et al. 2022"
    loop_only = "draws feature noise for every batch, one client after the other"
    neutral_reason = "its batches are balanced at every setting"

    def __init__(
        self,
        distill: float = 1.0,
        temperature: float = 2.0,
        entropy: float = 0.002,
        n_noise: int = 500,
        counts: Literal["original", "relabeled"] = "original",
        head: str | None = None,
    ) -> None:
        self.distill = distill
        self.temperature = temperature
        self.entropy = entropy
        self.n_noise = n_noise
        self.counts = counts
        self.head = head

    def check(self) -> None:
        check_at_least("distill", self.distill, 0)
        check_at_least("temperature", self.temperature, 0, above=True)
        check_at_least("entropy", self.entropy, 0)
        check_whole("n_noise", self.n_noise, 1)
        check_choice("counts", self.counts, ("original", "relabeled"))

    def prepare_module(self, module: Module, n_classes: int) -> Module:
        return marked(module, n_classes, self.head)

    def client_order(
        self, y: Array, n_epochs: int, n_classes: int, stream: np.random.Generator
    ) -> Array | None:
        return np.stack([balanced_order(y, stream) for _ in range(n_epochs)])

    def client_begin(self, model: Model, data: ClientData, local: Local) -> Tensors:
        features = features_of(model, data.X)
        root = square_root(mean_class_covariance(features, data.y, data.weights))
        draws = torch.from_numpy(local.stream.standard_normal((self.n_noise, len(root))))
        return {"noise": (draws.to(root) @ root).to(features)}

    def client_loss(self, model: Model, batch: Batch, local: Local) -> Tensor | tuple[Tensor, Tensors]:
        h, logits = model.features(batch.x)
        received = model.frozen(batch.x, local.anchor)[1]
        noisy = linear(model.params, model.head, h + self._noise(batch.y, local))
        here = torch.bincount(batch.y, minlength=logits.shape[1]) > 0
        own = F.cross_entropy(noisy.masked_fill(~here, -torch.inf), batch.y, reduction="none")
        kept = soft_cross_entropy(received[:, ~here] / self.temperature, logits[:, ~here] / self.temperature)
        spread = soft_cross_entropy(logits[:, here], logits[:, here])
        n_rows = len(batch.y) if batch.criterion.reduction == "mean" else 1  # a sum over rows in either case
        return batch.mean(own + self.distill * kept - self.entropy * n_rows * spread)

    def _noise(self, y, local):
        """Noise for the features of a batch's rows, zeros for most rows of common classes."""
        rarity = 1 - local.counts / local.counts.max()
        drawn = torch.from_numpy(local.stream.random(len(y))).to(rarity.device)
        pool = local.start["noise"]
        picked = torch.from_numpy(local.stream.integers(len(pool), size=len(y))).to(pool.device)
        return torch.where((drawn < rarity[y])[:, None], pool[picked], 0.0)


def balanced_order(y, stream):
    """As many rows as there are, in which every class comes in turn.

    Parameters
    ----------
    y : ndarray of shape (n_rows,), int64
    stream : numpy.random.Generator

    Returns
    -------
    order : ndarray of shape (n_rows,), int64
        Each class equally often up to one; its rows equally often up to one.
    """
    classes, n = np.unique(y), len(y)
    turns = np.concatenate([stream.permutation(classes) for _ in range(0, n, len(classes))])[:n]
    order = np.empty(n, dtype=np.int64)
    for label in classes:
        places, rows = np.flatnonzero(turns == label), np.flatnonzero(y == label)
        again = [stream.permutation(rows) for _ in range(0, len(places), len(rows))]
        order[places] = np.concatenate(again)[: len(places)]
    return order


def mean_class_covariance(features, y, weights):
    """Mean of the classes' covariances, weighted by their rows.

    Parameters
    ----------
    features : tensor of shape (n_rows, n_features)
    y : tensor of shape (n_rows,), int64
    weights : tensor of shape (n_rows,)
        Count as repetitions.

    Returns
    -------
    covariance : tensor of shape (n_features, n_features), float64
        A class of one row has none: it counts as 0.
    """
    features, weights = features.to(torch.float64), weights.to(torch.float64)
    total = features.new_zeros(features.shape[1], features.shape[1])
    for label in torch.unique(y):
        h, w = features[y == label], weights[y == label]
        n = w.sum()
        if n <= 1:
            continue
        centered = h - (w @ h) / n
        total += n * (centered.T * w) @ centered / (n - 1)
    return total / weights.sum()


def square_root(covariance):
    """The symmetric root of a covariance; eigenvalues below 0 by rounding count as 0."""
    values, vectors = torch.linalg.eigh(covariance)
    return (vectors * values.clamp_min(0).sqrt()) @ vectors.T


def soft_cross_entropy(target, logits):
    """-sum softmax(target) log softmax(logits) of every row; 0 where there is no column."""
    return -(torch.softmax(target, 1) * torch.log_softmax(logits, 1)).sum(1)
