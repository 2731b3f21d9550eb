"""LDAM: label-distribution-aware margins on cosines, with deferred re-weighting."""

from typing import Any, Literal

import torch
from torch.nn import functional as F

from fedrela_sk._typing import Tensor
from fedrela_sk.losses._base import PriorLoss
from fedrela_sk.losses._checks import check_choice, check_strength
from fedrela_sk.losses._tables import effective_number_weights, margins, of_own_class, own_class


class LDAMLoss(PriorLoss):
    """Cross-entropy of scale (cos - m_y), the margin m_y = max_margin (n_y / min n)^(-1/4) off the own class.

    The module must return **cosines**: end it with `fedrela_sk.nets.CosineLinear`. Ordinary logits times
    `scale` make training diverge. `predict_proba` of skorch is the softmax of the cosines, unscaled: the
    order of classes is right, the posteriors are flat. Absent classes have the margin, and after `defer`
    the weight, of the rarest present class; as rivals they count like any other.

    Parameters
    ----------
    max_margin : float >= 0, default=0.5
        Margin of the rarest class. 0 with ``scale=1`` is the cross-entropy.
    scale : float >= 0, default=30.0
    defer : float in [0, 1] or None, default=None
        From this share of training on, rows are weighted as in `ClassBalancedLoss`; None: never. In skorch
        alone it needs the callback `fedrela_sk.losses.Progress`.
    beta : float in [0, 1], default=0.9999
        Of those weights; 1 weights by 1 / n.
    divide_by : {"rows", "weights"}, default="rows"
        What the mean of a batch divides by after `defer`: its rows, so that a batch of rare classes makes a longer
        step, or, as the authors' code, the sum of its rows' weights.
    counts, ignore_index, reduction
        As in `PriorLoss`.

    References
    ----------
    Cao et al., Learning Imbalanced Datasets with Label-Distribution-Aware Margin Loss, NeurIPS 2019. The
    paper defers weights 1 / n, its code effective numbers with beta = 0.9999, from epoch 160 of 200
    (``defer=0.8``).

    Examples
    --------
    >>> import torch
    >>> from fedrela_sk.losses import LDAMLoss
    >>> loss = LDAMLoss(counts=[1000, 100, 10])
    >>> round(loss(torch.tensor([[0.9, 0.4, 0.1]]), torch.tensor([1])).item(), 4)
    23.4351
    """

    def __init__(
        self,
        max_margin: float = 0.5,
        scale: float = 30.0,
        defer: float | None = None,
        beta: float = 0.9999,
        *,
        divide_by: Literal["rows", "weights"] = "rows",
        counts: Any = None,
        ignore_index: Any = -100,
        reduction: Any = "mean",
    ) -> None:
        super().__init__(counts, ignore_index, reduction)
        self.max_margin = check_strength("max_margin", max_margin)
        self.scale = check_strength("scale", scale)
        self.defer = None if defer is None else check_strength("defer", defer, high=1.0)
        self.beta = check_strength("beta", beta, high=1.0)
        self.divide_by = check_choice("divide_by", divide_by, ("rows", "weights"))
        self.needs_progress = defer is not None

    def _defers(self, progress):
        """Whether rows have no weights yet."""
        return self.defer is None or progress < self.defer

    def mean_weights(self, counts: Tensor | None = None, progress: float | None = None) -> Tensor | None:
        progress = self._progress if progress is None else progress
        if self.divide_by == "rows" or self._defers(progress):
            return None
        counts = self._used_counts if counts is None else counts
        return effective_number_weights(counts if self.counts is None else self.counts, self.beta)

    def _losses(self, logits, y, counts, progress):
        own = own_class(logits, y)
        margin = torch.where(own, margins(counts, self.max_margin).to(logits), 0.0)
        losses = F.cross_entropy(self.scale * (logits - margin), y, reduction="none")
        if self._defers(progress):
            return losses
        return of_own_class(effective_number_weights(counts, self.beta).to(logits), own) * losses
