"""One row per loss: how it is made, what makes it plain cross-entropy; a made-up batch."""

import torch

from fedrela_sk import losses

Z = torch.tensor([[2.0, 1.0, 0.0]] * 3, dtype=torch.float64)
Y = torch.arange(3)
COUNTS = [1000.0, 100.0, 10.0]

# every loss in settings that do something, one with each branch
MADE = {
    "focal": lambda **kw: losses.FocalLoss(1.5, **without_counts(kw)),
    "focal root": lambda **kw: losses.FocalLoss(0.5, **without_counts(kw)),
    "class balanced": lambda **kw: losses.ClassBalancedLoss(0.99, **kw),
    "class balanced focal": lambda **kw: losses.ClassBalancedLoss(1.0, 2.0, **kw),
    "LDAM": lambda **kw: losses.LDAMLoss(scale=3.0, **kw),
    "LDAM deferred": lambda **kw: losses.LDAMLoss(scale=3.0, defer=0.5, **kw),
    "balanced softmax": losses.BalancedSoftmaxLoss,
    "balanced softmax, mask": lambda **kw: losses.BalancedSoftmaxLoss("mask", **kw),
    "logit adjusted": lambda **kw: losses.LogitAdjustedLoss(0.7, **kw),
    "logit adjusted, mask": lambda **kw: losses.LogitAdjustedLoss(0.7, "mask", **kw),
    "FedLC": losses.FedLCLoss,
    "FedLC, mask": lambda **kw: losses.FedLCLoss(0.5, "mask", **kw),
    "equalization": lambda **kw: losses.EqualizationLoss(0.2, 1.0, **kw),
    "equalization, evaluated": lambda **kw: losses.EqualizationLoss(0.2, **kw).eval(),
}

# settings under which a loss is the cross-entropy, whatever the counts
NEUTRAL = {
    "focal gamma 0": lambda **kw: losses.FocalLoss(0.0, **without_counts(kw)),
    "class balanced beta 0": lambda **kw: losses.ClassBalancedLoss(0.0, **kw),
    "LDAM without margin and scale": lambda **kw: losses.LDAMLoss(0.0, 1.0, **kw),
    "LDAM deferred, beta 0": lambda **kw: losses.LDAMLoss(0.0, 1.0, 0.5, 0.0, **kw),
    "logit adjusted tau 0": lambda **kw: losses.LogitAdjustedLoss(0.0, **kw),
    "logit adjusted tau 0, mask": lambda **kw: losses.LogitAdjustedLoss(0.0, "mask", **kw),
    "FedLC tau 0": lambda **kw: losses.FedLCLoss(0.0, **kw),
    "FedLC tau 0, mask": lambda **kw: losses.FedLCLoss(0.0, "mask", **kw),
    "equalization threshold 0": lambda **kw: losses.EqualizationLoss(0.0, 1.0, **kw),
    "equalization gamma 0": lambda **kw: losses.EqualizationLoss(1.0, 0.0, **kw),
    "equalization gamma 0, evaluated": lambda **kw: losses.EqualizationLoss(1.0, 0.0, **kw).eval(),
    "the base": losses.PriorLoss,
}

# settings that give the cross-entropy where all classes have equally many rows
EVEN = {
    "class balanced": losses.ClassBalancedLoss,
    "class balanced, 1 / n": lambda **kw: losses.ClassBalancedLoss(1.0, **kw),
    "balanced softmax": losses.BalancedSoftmaxLoss,
    "logit adjusted": lambda **kw: losses.LogitAdjustedLoss(2.5, **kw),
    "FedLC": lambda **kw: losses.FedLCLoss(3.0, **kw),
    "equalization": losses.EqualizationLoss,
}


def without_counts(keywords):
    return {name: value for name, value in keywords.items() if name != "counts"}


def batch(rows=12, n_classes=4, dtype=torch.float64, seed=0):
    """(logits, labels) with every class among the labels."""
    stream = torch.Generator().manual_seed(seed)
    return 2 * torch.randn(rows, n_classes, dtype=dtype, generator=stream), torch.arange(rows) % n_classes


def loss_and_gradient(criterion, logits, y):
    logits = logits.clone().requires_grad_()
    loss = criterion(logits, y)
    (grad,) = torch.autograd.grad(loss.sum(), logits)
    return loss.detach(), grad
