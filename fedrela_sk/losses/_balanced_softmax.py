"""The balanced softmax."""

from typing import Any, Literal

from fedrela_sk.losses._logit_adjusted import LogitAdjustedLoss


class BalancedSoftmaxLoss(LogitAdjustedLoss):
    """-log(n_y e^z_y / sum_c n_c e^z_c): the logit-adjusted loss with tau = 1.

    Parameters
    ----------
    absent : {"one", "mask"}, default="one"
        As in `LogitAdjustedLoss`; "one" is what the code of FedETF does.
    counts, ignore_index, reduction
        As in `PriorLoss`. Scaling all counts changes nothing (with absent classes: only under "mask").

    References
    ----------
    Ren et al., Balanced Meta-Softmax for Long-Tailed Visual Recognition, NeurIPS 2020.

    Examples
    --------
    >>> import torch
    >>> from fedrela_sk.losses import BalancedSoftmaxLoss
    >>> loss = BalancedSoftmaxLoss(counts=[8, 1, 1])
    >>> round(loss(torch.zeros(1, 3), torch.tensor([1])).item(), 4)
    2.3026
    """

    def __init__(
        self,
        absent: Literal["one", "mask"] = "one",
        *,
        counts: Any = None,
        ignore_index: Any = -100,
        reduction: Any = "mean",
    ) -> None:
        super().__init__(1.0, absent, counts=counts, ignore_index=ignore_index, reduction=reduction)
