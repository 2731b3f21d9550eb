"""The softmax equalization loss: rare classes are spared as rivals, at random."""

import math
from typing import Any

import torch
from torch.nn import functional as F

from fedrela_sk.losses._base import PriorLoss
from fedrela_sk.losses._checks import check_strength
from fedrela_sk.losses._tables import own_class


class EqualizationLoss(PriorLoss):
    """-log(e^z_y / sum_j w_j e^z_j), w_j = 1 - b [f_j < threshold] [j != y], b = 1 with probability gamma.

    f_j is the share of class j. While training, b is drawn for every row and class from torch's
    generator of the device; in evaluation mode w_j is its mean, 1 - gamma for rare rivals. A class without
    rows is rare like any other below the threshold.

    Parameters
    ----------
    threshold : float in [0, 1], default=5e-3
        Share of rows below which a class is rare. 0 is the cross-entropy.
    gamma : float in [0, 1], default=0.9
        Probability that a rare rival is left out. 0 is the cross-entropy.
    counts, ignore_index, reduction
        As in `PriorLoss`. Scaling all counts changes nothing.

    References
    ----------
    Tan et al., Equalization Loss for Long-Tailed Object Recognition, CVPR 2020; the defaults are
    those of the code of Balanced Meta-Softmax, which draws one b for a whole batch.

    Examples
    --------
    >>> import torch
    >>> from fedrela_sk.losses import EqualizationLoss
    >>> loss = EqualizationLoss(threshold=0.01, gamma=1.0, counts=[1000, 100, 10])
    >>> round(loss(torch.tensor([[2.0, 1.0, 0.0]]), torch.tensor([1])).item(), 4)
    1.3133
    """

    draws = True

    def __init__(
        self,
        threshold: float = 5e-3,
        gamma: float = 0.9,
        *,
        counts: Any = None,
        ignore_index: Any = -100,
        reduction: Any = "mean",
    ) -> None:
        super().__init__(counts, ignore_index, reduction)
        self.threshold = check_strength("threshold", threshold, high=1.0)
        self.gamma = check_strength("gamma", gamma, high=1.0)

    def _losses(self, logits, y, counts, progress):
        rare = counts < self.threshold * counts.sum(-1, keepdim=True)
        spared = rare.to(logits.device) & ~own_class(logits, y)
        if self.training:
            spared, log_weight = spared & (torch.rand_like(logits) < self.gamma), -math.inf
        else:
            log_weight = math.log1p(-self.gamma) if self.gamma < 1 else -math.inf
        return F.cross_entropy(torch.where(spared, logits + log_weight, logits), y, reduction="none")
