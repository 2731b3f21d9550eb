"""The logit-adjusted loss."""

from typing import Any, Literal

import torch

from fedrela_sk.losses._shifted import ShiftedLoss


class LogitAdjustedLoss(ShiftedLoss):
    """CE(z + tau log pi, y), pi the shares of the classes.

    Trained so, plain logits answer as if classes were equally common (tau = 1). Adjusting the posteriors
    of such a net again, by `adjust_posteriors`, would correct twice.

    Parameters
    ----------
    tau : float >= 0, default=1.0
        1 is `BalancedSoftmaxLoss`, 0 the cross-entropy, also where classes are absent.
    absent : {"one", "mask"}, default="one"
        "one": a class without rows counts as if it had one (as the rarest present one where that has less), so that
        clients go on telling their classes from it.
        "mask": the class leaves the softmax, the gradient of its logit is exactly zero; a row whose own class is
        absent keeps it, counted as the rarest present one. Small clients lack many classes: there "mask" costs
        several points.
    counts, ignore_index, reduction
        As in `PriorLoss`. Scaling all counts changes nothing (with absent classes: only under "mask").

    References
    ----------
    Menon et al., Long-tail learning via logit adjustment, ICLR 2021. The authors' code adds
    log(pi^tau + 1e-12), which for an absent class is about -27.6 instead of minus infinity.

    Examples
    --------
    >>> import torch
    >>> from fedrela_sk.losses import LogitAdjustedLoss
    >>> loss = LogitAdjustedLoss(counts=[1000, 100, 10])
    >>> round(loss(torch.tensor([[2.0, 1.0, 0.0]]), torch.tensor([2])).item(), 4)
    6.6426
    """

    def __init__(
        self,
        tau: float = 1.0,
        absent: Literal["one", "mask"] = "one",
        *,
        counts: Any = None,
        ignore_index: Any = -100,
        reduction: Any = "mean",
    ) -> None:
        super().__init__(tau, absent, counts, ignore_index, reduction)

    def _shift(self, counts):
        return torch.log(counts)
