"""The class-balanced loss: weights from the effective number of rows."""

from typing import Any

from torch.nn import functional as F

from fedrela_sk.losses._base import PriorLoss
from fedrela_sk.losses._checks import check_strength
from fedrela_sk.losses._focal import focal
from fedrela_sk.losses._tables import effective_number_weights, of_own_class, own_class


class ClassBalancedLoss(PriorLoss):
    """Rows weighted by w_y, w_c proportional to (1 - beta) / (1 - beta^n_c).

    The weights of the classes that are present have mean 1, so they sum to n_classes where all are; a
    client that lacks classes does not take longer steps for it. An absent class has the weight of the
    rarest present one. A batch is averaged over its rows, not over the sum of their weights.

    Parameters
    ----------
    beta : float in [0, 1], default=0.9999
        0 is the cross-entropy; towards 1 the weights become proportional to 1 / n_c, which 1 stands for.
    gamma : float >= 0, default=0.0
        Above 0 the focal loss is weighted; its p is that of the plain softmax.
    counts, ignore_index, reduction
        As in `PriorLoss`. The weights depend on the unit of counts.

    References
    ----------
    Cui et al., Class-Balanced Loss Based on Effective Number of Samples, CVPR 2019. The code of LDAM-DRW
    takes the focal p from the loss already weighted, which is another number; not done here.

    Examples
    --------
    >>> import torch
    >>> from fedrela_sk.losses import ClassBalancedLoss
    >>> loss = ClassBalancedLoss(beta=0.99, counts=[1000, 100, 10])
    >>> round(loss(torch.tensor([[2.0, 1.0, 0.0]]), torch.tensor([2])).item(), 4)
    5.7947
    """

    def __init__(
        self,
        beta: float = 0.9999,
        gamma: float = 0.0,
        *,
        counts: Any = None,
        ignore_index: Any = -100,
        reduction: Any = "mean",
    ) -> None:
        super().__init__(counts, ignore_index, reduction)
        self.beta = check_strength("beta", beta, high=1.0)
        self.gamma = check_strength("gamma", gamma)

    def _losses(self, logits, y, counts, progress):
        losses = focal(F.cross_entropy(logits, y, reduction="none"), self.gamma)
        weights = effective_number_weights(counts, self.beta).to(logits)
        return of_own_class(weights, own_class(logits, y)) * losses
