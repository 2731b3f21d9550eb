"""The focal loss in its softmax form."""

from typing import Any

import torch
from torch.nn import functional as F

from fedrela_sk.losses._base import PriorLoss
from fedrela_sk.losses._checks import check_strength


def focal(cross_entropies, gamma):
    """(1 - p)^gamma (-log p) from the plain -log p of each row's class."""
    # 1 - p stays above 0: its power has no derivative there for gamma < 1
    missing = (-torch.expm1(-cross_entropies)).clamp_min(torch.finfo(cross_entropies.dtype).tiny)
    return missing**gamma * cross_entropies


class FocalLoss(PriorLoss):
    """Rows that are right already count less: (1 - p_y)^gamma (-log p_y), p the softmax.

    Uses no class counts.

    Parameters
    ----------
    gamma : float >= 0, default=2.0
        0 is the cross-entropy.
    ignore_index, reduction
        As in `PriorLoss`.

    References
    ----------
    Lin et al., Focal Loss for Dense Object Detection, ICCV 2017, whose form is a sigmoid per class with
    class weights (0.25, 0.75). The softmax form without weights is that of classification.

    Examples
    --------
    >>> import torch
    >>> from fedrela_sk.losses import FocalLoss
    >>> round(FocalLoss()(torch.tensor([[2.0, 1.0, 0.0]]), torch.tensor([1])).item(), 4)
    0.8029
    """

    needs_counts = False

    def __init__(self, gamma: float = 2.0, *, ignore_index: Any = -100, reduction: Any = "mean") -> None:
        super().__init__(ignore_index=ignore_index, reduction=reduction)
        self.gamma = check_strength("gamma", gamma)

    def _losses(self, logits, y, counts, progress):
        return focal(F.cross_entropy(logits, y, reduction="none"), self.gamma)
