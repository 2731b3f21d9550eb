"""What all losses have in common: whose class counts they use, and how a batch becomes one number."""

from typing import Literal

import torch
from numpy.typing import ArrayLike
from torch import nn
from torch.nn import functional as F

from fedrela_sk._typing import Tensor
from fedrela_sk.losses._checks import check_batch, check_choice, check_counts, check_length, check_strength


class PriorLoss(nn.CrossEntropyLoss):
    """Base of the losses; by itself it is the cross-entropy.

    A child writes one function, `_losses`. It is a child of `CrossEntropyLoss` because skorch then takes
    the module's output as logits and applies softmax in `predict_proba`. Predictions use plain logits:
    a loss changes training only. It has neither class weights nor label smoothing.

    Parameters
    ----------
    counts : array-like of shape (n_classes,), "original", "relabeled" or None, default=None
        Rows of each class, in the order of the columns of logits; sums of row weights are fine. None: those
        of `use`, which `FederatedClassifier` sets to each client's own counts before it trains: of its original
        labels, also after relabeling ("original" says the same), or with "relabeled" of its current ones.
    ignore_index : int, default=-100
        Rows with this target have loss 0 and are not counted in the mean.
    reduction : {"mean", "sum", "none"}, default="mean"
        "mean" divides by the number of rows, also where classes are weighted (`LDAMLoss` may do otherwise). As in
        torch, it is NaN for a batch without rows.

    Attributes
    ----------
    needs_counts : bool
        Whether the loss depends on class counts.
    needs_progress : bool
        Whether the loss depends on how far training has come.
    draws : bool
        Whether it draws random numbers while ``self.training``.

    Raises
    ------
    ValueError
        If a strength, `counts` or `reduction` is invalid; in a call, counts that do not fit the columns, or
        missing counts or progress.
    """

    needs_counts = True
    needs_progress = False
    draws = False

    def __init__(
        self,
        counts: ArrayLike | None = None,
        ignore_index: int = -100,
        reduction: Literal["mean", "sum", "none"] = "mean",
    ) -> None:
        check_choice("reduction", reduction, ("mean", "sum", "none"))
        super().__init__(ignore_index=ignore_index, reduction=reduction)
        self.count_labels = "original"
        if isinstance(counts, str):
            check_choice("counts", counts, ("original", "relabeled"))
            self.count_labels, counts = counts, None
        self.counts = None if counts is None else torch.from_numpy(check_counts(counts))
        self._used_counts: Tensor | None = None
        self._progress = None

    def use(self, counts: Tensor | None, progress: float) -> None:
        """Set what the next calls use; `counts` of the constructor win.

        Parameters
        ----------
        counts : tensor of shape (n_classes,) or None
            Not checked, since the engine of a federation made them.
        progress : float in [0, 1]
            Share of training that is done.
        """
        self._used_counts = counts
        self._progress = check_strength("progress", progress, high=1.0)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Loss of a batch.

        Parameters
        ----------
        input : tensor of shape (rows, n_classes)
            Logits.
        target : tensor of shape (rows,), int64

        Returns
        -------
        loss : tensor of shape (), or (rows,) with reduction "none"
        """
        check_batch(input, target)
        losses = self.row_losses(input, target, self._used_counts, self._progress)
        if self.reduction == "none":
            return losses
        if self.reduction == "sum":
            return losses.sum()
        kept, weights = target != self.ignore_index, self.mean_weights()
        if weights is None:
            return losses.sum() / kept.sum()
        return losses.sum() / (kept * weights.to(losses)[torch.where(kept, target, 0)]).sum()

    def mean_weights(self, counts: Tensor | None = None, progress: float | None = None) -> Tensor | None:
        """Class weights whose sum over its rows the mean of a batch divides by.

        Parameters
        ----------
        counts : tensor of shape (..., n_classes) or None
            As in `row_losses`; None: those of `use`.
        progress : float in [0, 1] or None
            None: that of `use`.

        Returns
        -------
        weights : tensor of shape (..., n_classes) or None
            None: the mean divides by the number of rows.
        """
        return None

    def row_losses(self, logits: Tensor, y: Tensor, counts: Tensor | None, progress: float | None) -> Tensor:
        """Loss of every row: differentiable, no row looks at another, nothing is written to `self`.

        Runs under `torch.func.vmap`; where `draws`, with ``randomness="different"``.

        Parameters
        ----------
        logits : tensor of shape (rows, n_classes)
        y : tensor of shape (rows,), int64
        counts : tensor of shape (n_classes,) or (rows, n_classes), or None
            Numbers of rows or sums of their weights; one line per row where rows are of several clients.
            `counts` of the constructor win. All zero: all classes are treated alike.
        progress : float in [0, 1] or None
            None only where not `needs_progress`.

        Returns
        -------
        losses : tensor of shape (rows,), dtype of `logits`

        Raises
        ------
        ValueError
            Counts or progress are needed and missing, or there is not one count per column.
        """
        self._check_progress(progress)
        kept = y != self.ignore_index
        losses = self._losses(logits, torch.where(kept, y, 0), self._counts_for(logits, counts), progress)
        return torch.where(kept, losses, 0.0)

    def _losses(self, logits, y, counts, progress):
        """`row_losses` of rows that all have a class."""
        return F.cross_entropy(logits, y, reduction="none")

    def _counts_for(self, logits, counts):
        """The counts to use, in the wider of their dtype and that of `logits`."""
        if not self.needs_counts:
            return None
        counts = counts if self.counts is None else self.counts
        if counts is None:
            raise ValueError(
                f"{type(self).__name__} needs the number of rows of each class. Pass criterion__counts=... to the "
                "net (counts=... to the loss), or train inside FederatedClassifier, which hands in each client's "
                "own counts (without the callback losses.Progress, which is for skorch only)."
            )
        check_length(counts, logits.shape[-1])
        return counts.to(torch.promote_types(torch.promote_types(counts.dtype, logits.dtype), torch.float32))

    def _check_progress(self, progress):
        if self.needs_progress and progress is None:
            raise ValueError(
                f"{type(self).__name__} needs to know how far training has come. Add fedrela_sk.losses.Progress() "
                "to the callbacks of the net, call use(None, progress) in a loop of your own, or train inside "
                "FederatedClassifier."
            )
