"""From a module's output to logits, losses and posteriors: one contract for every criterion.

`CrossEntropyLoss` and its children get logits. `NLLLoss`, skorch's default, gets the logarithm of
probabilities, as in skorch.
"""

from copy import copy

import torch
import torch.nn.functional as F
from torch import nn

from fedrela_sk.exceptions import NetError
from fedrela_sk.losses import PriorLoss
from fedrela_sk.losses._mean import weights_in_mean
from fedrela_sk.training.runtime._generator import forked_generators

# how far a row of probabilities may sum from 1, by dtype of the module
_SUM_TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-4}


def check_criterion(criterion, own_loss=False, bare=False):
    """`criterion` itself, if its logits are known.

    Parameters
    ----------
    criterion : nn.Module
    own_loss : bool
        Whether a method's loss takes its place.
    bare : bool
        Whether that loss takes nothing from it but its `reduction`.

    Raises
    ------
    NetError
        If it is neither `CrossEntropyLoss`, a child of it, nor `NLLLoss`; if it does not reduce a batch to one
        loss; if a class weight is no weight; or if it learns, since its parameters would go from client to client.
    """
    if not isinstance(criterion, (nn.CrossEntropyLoss, nn.NLLLoss)):
        raise NetError(
            f"criterion must be torch.nn.CrossEntropyLoss (or a child of it) on logits, or torch.nn.NLLLoss on "
            f"probabilities; got {type(criterion).__name__}. Derive a custom loss from CrossEntropyLoss."
        )
    if own_loss and type(criterion) not in (nn.CrossEntropyLoss, nn.NLLLoss):
        raise NetError(
            f"criterion={type(criterion).__name__} would not be used: the algorithm has a loss of its own. Use "
            "torch.nn.CrossEntropyLoss with it, or this criterion with an algorithm that takes any."
        )
    if bare:
        _check_bare(criterion)
    if criterion.reduction not in ("mean", "sum"):
        raise NetError(
            f"criterion__reduction must be 'mean' or 'sum', got {criterion.reduction!r}: a batch has one loss."
        )
    _check_class_weights(criterion)
    learned = [name for name, p in criterion.named_parameters() if p.requires_grad]
    if learned:
        raise NetError(
            f"{type(criterion).__name__} has the trainable parameter {learned[0]!r}, which would pass from client "
            "to client unseen. Move it into the module, whose parameters are averaged."
        )
    return criterion


def _check_class_weights(criterion):
    """Refuse class weights that are negative or not finite: batches would have no mean."""
    weight = getattr(criterion, "weight", None)
    if weight is None:
        return
    wrong = ~(torch.isfinite(weight) & (weight >= 0))
    if wrong.any():
        column = int(wrong.nonzero()[0])
        raise NetError(
            f"criterion__weight must be finite and not negative, got {float(weight[column])} for class {column}. "
            "Pass 0 for a class that should not count."
        )


def use_dtype(criterion, dtype):
    """Class weights of whatever dtype they were given in, in that of the module."""
    weight = getattr(criterion, "weight", None)
    if isinstance(weight, torch.Tensor):
        criterion.weight = weight.to(dtype)


def _check_bare(criterion):
    """Refuse settings that a method's own loss would leave out."""
    for name, off in {"weight": None, "label_smoothing": 0.0, "ignore_index": -100}.items():
        value = getattr(criterion, name, off)
        if value is not off and value != off:
            raise NetError(
                f"criterion__{name}={value!r} would not be used: the algorithm has a loss of its own. Leave it "
                "out, or use an algorithm that takes any criterion. (A method whose loss goes by batch.row_losses "
                "states bare_loss = False.)"
            )


def check_output(output, criterion, n_classes):
    """Check a module's first output against the classes and the contract of its criterion.

    Raises
    ------
    NetError
        If it is no (rows, n_classes) tensor, or `NLLLoss` meets rows that are not probabilities.
    """
    if not isinstance(output, torch.Tensor) or output.ndim != 2 or output.shape[1] != n_classes:
        got = tuple(output.shape) if isinstance(output, torch.Tensor) else type(output).__name__
        raise NetError(
            f"The module must return one column per class, shape (rows, {n_classes}); got {got}. "
            f"Set the module's number of outputs to {n_classes}, or, where y lacks classes that the net knows (a "
            "fold or a group without them), name all of them: FederatedClassifier(classes=...)."
        )
    if not isinstance(criterion, nn.NLLLoss):
        return
    output = output.detach()
    off = (output.sum(1) - 1).abs()
    worst = int(off.argmax())
    if not off[worst] <= _SUM_TOLERANCE.get(output.dtype, 1e-2) or output.min() < 0:
        raise NetError(
            f"With criterion NLLLoss (skorch's default) the module must return probabilities, but "
            f"row {worst} of the first batch sums to {float(output[worst].sum()):.6g} with a smallest entry of "
            f"{float(output[worst].min()):.3g}. "
            "Use criterion=torch.nn.CrossEntropyLoss for a module that returns logits."
        )


def log_input(criterion, output):
    """What the criterion expects: logits, or log probabilities spelled as skorch spells them."""
    if isinstance(criterion, nn.NLLLoss):
        return torch.log(output + torch.finfo(output.dtype).eps)
    return output


def use_counts(criterion, counts, progress):
    """Tell a criterion of `fedrela_sk.losses` whose rows it sees; others do not ask."""
    if hasattr(criterion, "use"):
        criterion.use(counts, progress)


def row_losses(criterion, logits, y):
    """Loss of every row.

    Parameters
    ----------
    criterion : CrossEntropyLoss or NLLLoss
        Its `reduction` is not used, its own ``weight`` counts as usual.
    logits : tensor of shape (n_rows, n_classes)
        As `log_input` gives them.
    y : tensor of shape (n_rows,), int64
        Or, for a plain `CrossEntropyLoss` or `NLLLoss`, shares of the classes, (n_rows, n_classes): an ignored
        class has loss 0 here too.

    Returns
    -------
    losses : tensor of shape (n_rows,)
    """
    if y.is_floating_point() and 0 <= criterion.ignore_index < y.shape[1]:
        return _losses_of_kept(criterion, logits, y)
    if type(criterion) is nn.NLLLoss and y.is_floating_point():
        shares = y if criterion.weight is None else y * criterion.weight
        return -(shares * logits).sum(1)
    if type(criterion) is nn.NLLLoss:
        return F.nll_loss(
            logits, y, weight=criterion.weight, ignore_index=criterion.ignore_index, reduction="none"
        )
    if type(criterion) is nn.CrossEntropyLoss:
        return F.cross_entropy(
            logits,
            y,
            weight=criterion.weight,
            ignore_index=criterion.ignore_index,
            label_smoothing=criterion.label_smoothing,
            reduction="none",
        )
    reduction, criterion.reduction = criterion.reduction, "none"
    try:
        losses = criterion(logits, y)
    finally:
        criterion.reduction = reduction
    if losses.shape != y.shape:
        raise NetError(
            f"{type(criterion).__name__} must return one loss per row when its reduction is 'none' "
            f"(row weights need it); got shape {tuple(losses.shape)} for {len(y)} rows."
        )
    return losses


def _losses_of_kept(criterion, logits, shares):
    """Row losses for shares of the classes, of which one is ignored; torch refuses that."""
    kept = torch.arange(shares.shape[1], device=shares.device) != criterion.ignore_index
    total = (shares * kept).sum(1, keepdim=True)
    plain = copy(criterion)
    plain.ignore_index = -100
    return total[:, 0] * row_losses(plain, logits, shares * kept / torch.where(total > 0, total, 1.0))


def row_shares(criterion, y, weights, class_weight=True, counts=None, progress=None):
    """Share of every row in the loss of its batch, so that the loss is the sum of share times row loss.

    Parameters
    ----------
    criterion : CrossEntropyLoss or NLLLoss
        With reduction "mean" a share is weight / sum of weights, "sum": the weight itself; rows of the class
        that it ignores have none.
    y : tensor of shape (..., n_rows), int64
    weights : tensor of shape (..., n_rows)
        Row weights, 0 for rows that only fill up.
    class_weight : bool, default=True
        Whether the mean divides by the criterion's own class weights too, as torch's does.
    counts : tensor of shape (..., n_classes) or None
        Of the client of each batch, where batches are of several clients; None: those that the criterion was told.
    progress : float in [0, 1] or None
        As `counts`.

    Returns
    -------
    shares : tensor of shape (..., n_rows)
        All 0 in a batch without weight.
    """
    weights = weights * (y != criterion.ignore_index)
    if criterion.reduction == "sum":
        return weights
    own = weights_in_mean(criterion, counts, progress) if class_weight else None
    total = (weights if own is None else weights * _of_class(own.to(weights), y)).sum(-1, keepdim=True)
    return torch.where(total > 0, weights / total.clamp_min(torch.finfo(total.dtype).tiny), 0 * weights)


def _of_class(table, y):
    """Every row's entry of a table over classes, or of one line of a table for each batch."""
    return table[y] if table.ndim == 1 else table.gather(-1, y)


def batch_loss(criterion, output, y, weights=None):
    """Loss of one batch, a scalar tensor.

    The formula of both engines: the sum over rows of share times loss, as `row_shares` and `row_losses` give
    them. Where no row has a weight of its own that is what the criterion itself says, and 0 in a batch whose
    rows all weigh nothing (of classes with weight 0, or ignored), of which torch's mean is 0 / 0.

    Parameters
    ----------
    criterion : CrossEntropyLoss or NLLLoss
        Its own ``reduction`` says whether rows are averaged or summed, its own ``weight`` counts as usual.
    output : tensor of shape (rows, n_classes)
        As the module returned it.
    y : tensor of shape (rows,), int64
    weights : tensor of shape (rows,) or None
        Row weights. The mean becomes sum(w l) / sum(w), so that an integer weight equals repeated rows; a
        batch without weight has loss 0.

    Raises
    ------
    NetError
        If there are row weights and a child's mean of a batch is not one that they are known for.
    """
    logits = log_input(criterion, output)
    if weights is None:
        loss = criterion(logits, y)
        return _or_nothing(loss, criterion, logits, y)
    losses = row_losses(criterion, logits, y)
    shares = row_shares(criterion, y, weights, divides_by_class_weights(criterion, logits, y))
    return (shares * losses).sum()


def _or_nothing(loss, criterion, logits, y):
    """`loss`, or 0 (with gradients of 0) where it is a mean over rows that all weigh nothing."""
    own = getattr(criterion, "weight", None)
    if criterion.reduction == "sum" or (own is None and criterion.ignore_index < 0):
        return loss
    ones = torch.ones(len(y), dtype=logits.dtype, device=logits.device)
    if row_shares(criterion, y, ones).any() or torch.isfinite(loss):
        return loss
    return (0 * logits).sum()


def has_known_mean(criterion):
    """Whether a batch is reduced by torch's code or by ours, not by a child's own."""
    ours = isinstance(criterion, PriorLoss) and type(criterion).forward is PriorLoss.forward
    return ours or type(criterion) in (nn.CrossEntropyLoss, nn.NLLLoss)


@torch.no_grad()
def divides_by_class_weights(criterion, logits, y):
    """Whether a criterion's mean of a batch divides by the sum of its class weights, as torch's own do.

    A child may have another mean. It is asked: for the mean of this batch, and of one row of it whose weight
    is not 1, which is compared with the mean that divides by weights and with that which counts rows.

    Raises
    ------
    NetError
        If it is neither.
    """
    if has_known_mean(criterion) or criterion.reduction == "sum":
        return True
    rows = _telling_rows(criterion, y)
    for divides in (True, False):
        if all(_has_mean(criterion, logits[i], y[i], divides) for i in rows):
            return divides
    raise NetError(
        f"{type(criterion).__name__} reduces a batch to another number than the mean of its rows' losses (divided "
        "by the number of rows, or by the sum of their class weights), so that row weights have no meaning for it. "
        "Leave sample_weight and class_weight out, or let its reduction 'mean' be such a mean."
    )


def _telling_rows(criterion, y):
    """The whole batch, and a row of it that tells one mean from the other where there is one."""
    own, batch = getattr(criterion, "weight", None), slice(None)
    if own is None:
        return [batch]
    telling = ((own[y] != 1) & (own[y] > 0) & (y != criterion.ignore_index)).nonzero()[:1, 0]
    return [batch, telling] if len(telling) else [batch]


def _has_mean(criterion, logits, y, divides):
    """Whether a criterion's own value of a batch is the mean of its rows' losses, up to rounding."""
    with forked_generators(logits.device):
        own = criterion(logits, y)
    with forked_generators(logits.device):  # one that draws, draws the same
        losses = row_losses(criterion, logits, y)
    shares = row_shares(criterion, y, torch.ones_like(losses), divides)
    tolerance = torch.finfo(losses.dtype).eps ** 0.5
    return not torch.isfinite(own) or torch.isclose(own, (shares * losses).sum(), tolerance, tolerance)


def posteriors_of(criterion, output):
    """Posteriors of a module's output.

    Returns
    -------
    posteriors : tensor of shape (rows, n_classes), float64
        Rows sum to one.
    """
    output = output.to(torch.float64)
    if isinstance(criterion, nn.NLLLoss):
        output = torch.log(output)
    return torch.softmax(output, dim=1)
