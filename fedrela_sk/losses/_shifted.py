"""Base of the losses that shift logits by a function of the class counts."""

import torch
from torch.nn import functional as F

from fedrela_sk.losses._base import PriorLoss
from fedrela_sk.losses._checks import check_choice, check_strength
from fedrela_sk.losses._tables import absent_as_rarest, own_class


class ShiftedLoss(PriorLoss):
    """CE(z + tau s(n), y), s falling to minus infinity as n falls to 0.

    A child writes `_shift`: s of positive counts, of any shape. A constant added to all classes changes nothing.

    Parameters
    ----------
    tau : float >= 0
        0 is the cross-entropy, whatever the counts.
    absent : {"one", "mask"}
        What becomes of a class without rows. "mask": the limit of the formula; the class leaves the softmax,
        and the gradient of its logit is exactly zero. Only a row whose own class is absent keeps it, counted as
        the rarest present one. "one": the class counts as if it had one row, or as many as the rarest present
        one where that has less (counts may be shares, or sums of small weights).
    counts, ignore_index, reduction
        As in `PriorLoss`.
    """

    def __init__(self, tau, absent, counts, ignore_index, reduction):
        super().__init__(counts, ignore_index, reduction)
        self.tau = check_strength("tau", tau)
        self.absent = check_choice("absent", absent, ("mask", "one"))

    def _losses(self, logits, y, counts, progress):
        masks = self.absent == "mask" and self.tau > 0
        filled = absent_as_rarest(counts)
        if not masks:
            filled = torch.where(counts > 0, counts, filled.clamp(max=1.0))
        shift = self._shift(filled)
        shift = self.tau * (shift - shift.amax(-1, keepdim=True))  # exactly 0 for equal counts
        logits = logits + shift.to(logits)
        if masks:
            gone = (counts == 0) & (counts > 0).any(-1, keepdim=True)
            logits = logits.masked_fill(gone.to(logits.device) & ~own_class(logits, y), -torch.inf)
        return F.cross_entropy(logits, y, reduction="none")
