"""FedLF (Lu et al. 2024): scaled logits, features near their class center and free of correlation."""

from typing import Literal

import torch
from torch.nn import functional as F

from fedrela_sk._deprecation import old_attributes
from fedrela_sk._typing import Batch, ClientData, Local, Model, Module, Tensor, Tensors
from fedrela_sk.algorithms._base import Algorithm
from fedrela_sk.algorithms._checks import check_at_least, check_choice
from fedrela_sk.algorithms._heads import features_of, marked, path
from fedrela_sk.losses._tables import own_class

# of the authors' code: features of classes without rows, the largest gap, what is added to a variance
_ABSENT_CENTER, _LARGEST_GAP, _LEAST_VARIANCE = 1e-8, 100.0, 1e-8
# added to squared distances: the one row of a client is its own center, where rounding would point anywhere
_LEAST_SQUARE = 1e-8


@old_attributes
class FedLF(Algorithm):
    """Three local losses, h the features, w_c the rows of the classifier, n_c a client's class counts.

    1. The cross-entropy of logits ``s_c w_c^T h``, ``s_c = alpha + (1 - alpha) n_c / max n``, without biases: the
       scores of locally rare classes must grow to count.
    2. `center_weight` times the cross-entropy of ``-(||h - mu_c|| + [c = y] min(gap, 100))``, mu_c the class
       means of the features under the received model, fixed for the round (entries of 1e-8 for classes
       without rows), gap the largest distance between two of them: a row must come nearer to its own center
       by a margin.
    3. `decorrelation_weight` times the mean squared off-diagonal entry of Z^T Z, divided by the rows of the
       batch, Z the features standardized over the batch; 0 for a batch of one row.

    The server averages; predictions use the classifier with its biases, which nothing trains.

    As in the authors' code; the paper's own text was not available to us. The code takes the centers from
    augmented images in training mode, ours come from one pass in evaluation mode. 1e-8 is added under the
    root of the distance, whose gradient at the center itself is then 0. Row weights count as repetition in
    the first two losses; in the third, rows without weight are left out and all others count once.

    Parameters
    ----------
    alpha : float in [0, 1], default=0.25
        Factor of an absent class; 1 leaves all logits as they are.
    center_weight : float >= 0, default=0.01
    decorrelation_weight : float >= 0, default=0.01
    counts : {"original", "relabeled"}, default="original"
        Whether n_c counts the labels that came with the data or the current ones.
    head : str or None, default=None
        Name of the net's last linear layer; None: the last one with a column for every class.

    References
    ----------
    Lu, Li, Jiang, "FedLF: Adaptive Logit Adjustment and Feature Optimization in Federated Long-Tailed
    Learning", ACML 2024, arXiv 2409.12105; code: github.com/18sym/FedLF.
    """

    summary = "scaled logits, class centers, decorrelated features"
    source = "as in its code, 2024"
    neutral_reason = "its logits have no biases"

    def __init__(
        self,
        alpha: float = 0.25,
        center_weight: float = 0.01,
        decorrelation_weight: float = 0.01,
        counts: Literal["original", "relabeled"] = "original",
        head: str | None = None,
    ) -> None:
        self.alpha = alpha
        self.center_weight = center_weight
        self.decorrelation_weight = decorrelation_weight
        self.counts = counts
        self.head = head

    def check(self) -> None:
        check_at_least("alpha", self.alpha, 0, 1)
        check_at_least("center_weight", self.center_weight, 0)
        check_at_least("decorrelation_weight", self.decorrelation_weight, 0)
        check_choice("counts", self.counts, ("original", "relabeled"))

    def prepare_module(self, module: Module, n_classes: int) -> Module:
        return marked(module, n_classes, self.head)

    def client_begin(self, model: Model, data: ClientData, local: Local) -> Tensors:
        centers = class_means(features_of(model, data.X), data.y, data.weights, model.n_classes)
        gap = (centers[:, None] - centers[None]).norm(dim=2).max()
        return {"centers": centers, "gap": gap.clamp(max=_LARGEST_GAP)}

    def client_loss(self, model: Model, batch: Batch, local: Local) -> Tensor | tuple[Tensor, Tensors]:
        h, _ = model.features(batch.x)
        scale = self.alpha + (1 - self.alpha) * local.counts / local.counts.max()
        logits = scale * F.linear(h, model.params[path(model.head, "weight")])
        own = own_class(logits, batch.y)
        distances = distances_to(h, local.start["centers"]) + own * local.start["gap"]
        rows = F.cross_entropy(logits, batch.y, reduction="none")
        rows = rows + self.center_weight * F.cross_entropy(-distances, batch.y, reduction="none")
        return batch.mean(rows) + self.decorrelation_weight * correlation(h, batch.share > 0)


def class_means(h, y, weights, n_classes):
    """Weighted mean features of every class, (n_classes, n_features); 1e-8 for classes without weight."""
    total = torch.zeros(n_classes).to(h).index_add_(0, y, weights)[:, None]
    sums = torch.zeros(n_classes, h.shape[1]).to(h).index_add_(0, y, h * weights[:, None])
    return torch.where(total > 0, sums / torch.where(total > 0, total, 1.0), _ABSENT_CENTER)


def distances_to(h, centers):
    """Distance of every row to every center, shape (n_rows, n_centers): sqrt(||h - mu||^2 + 1e-8)."""
    return torch.sqrt(((h[:, None] - centers) ** 2).sum(2) + _LEAST_SQUARE)


def correlation(h, real):
    """Mean squared off-diagonal entry of Z^T Z over the number of rows, Z the standardized features.

    Parameters
    ----------
    h : tensor of shape (n_rows, n_features)
    real : boolean tensor of shape (n_rows,)
        False for rows that are left out.

    Returns
    -------
    value : scalar tensor
        0 for a single row, for none, and for a single feature.
    """
    d, n = h.shape[1], real.sum().clamp_min(1)
    rows = real[:, None].to(h)
    centered = (h - (h * rows).sum(0) / n) * rows
    variance = (centered**2).sum(0) / (n - 1).clamp_min(1)
    Z = centered / torch.sqrt(_LEAST_VARIANCE + variance)
    others = 1 - torch.eye(d).to(h)
    mean = ((Z.T @ Z * others) ** 2).sum() / max(d * (d - 1), 1)
    return torch.where(n > 1, mean / n, 0.0)
