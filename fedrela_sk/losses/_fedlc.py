"""FedLC: logits calibrated by a client's own counts."""

from typing import Any, Literal

from fedrela_sk.losses._shifted import ShiftedLoss


class FedLCLoss(ShiftedLoss):
    """CE(z - tau n^(-1/4), y), n the class counts of the client.

    The formula as it is quoted from the paper leaves the true class out of the denominator. That loss is
    unbounded below: it can be made smaller for ever by raising the true logit alone, and training
    collapses. It is not offered; this is the form that implementations use.

    Parameters
    ----------
    tau : float >= 0, default=1.0
        0 is the cross-entropy, also where classes are absent. The paper is said not to print its value.
    absent : {"one", "mask"}, default="one"
        "one": a class without rows counts as if it had one (as the rarest present one where that has less), so
        that its logit loses tau. "mask": the class
        leaves the softmax, the gradient of its logit is exactly zero; a row whose own class is absent keeps it,
        counted as the rarest present one. Which is better differs, see `fedrela_sk.algorithms.FedLC`.
    counts, ignore_index, reduction
        As in `PriorLoss`. Counts, not shares: twice the rows are another loss. Equal counts are the
        cross-entropy.

    References
    ----------
    Zhang et al., Federated Learning with Label Distribution Skew via Logits Calibration, ICML 2022. Absent
    classes: Flower's baseline masks them (and is NaN at tau = 0), FL-bench takes 1e-8 rows, 100 tau off
    the logit.

    Examples
    --------
    >>> import torch
    >>> from fedrela_sk.losses import FedLCLoss
    >>> round(FedLCLoss(counts=[16, 1])(torch.zeros(1, 2), torch.tensor([1])).item(), 4)
    0.9741
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
        return -(counts**-0.25)
