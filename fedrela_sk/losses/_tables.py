"""From class counts to numbers per class; every function maps the last axis and takes (..., n_classes)."""

import math

import torch


def own_class(logits, y):
    """Where the column is the row's own class, a boolean tensor like `logits`."""
    return y.unsqueeze(-1) == torch.arange(logits.shape[-1], device=logits.device)


def of_own_class(table, own):
    """Each row's entry of a table over classes, shape (rows,)."""
    return torch.where(own, table, 0.0).sum(-1)


def absent_as_rarest(counts):
    """Counts in which an absent class counts as the rarest present one; all ones where none is present."""
    present = counts > 0
    rarest = torch.where(present, counts, torch.inf).amin(-1, keepdim=True)
    return torch.where(present, counts, torch.where(rarest.isinf(), 1.0, rarest))


def effective_number_weights(counts, beta):
    """Class weights (1 - beta) / (1 - beta^n), scaled to a mean of 1 over the present classes.

    An absent class has the weight of the rarest present one. `beta` = 1 is the limit: 1 / n.
    """
    present = counts > 0
    filled = absent_as_rarest(counts)
    if beta == 1:
        weights = 1 / filled
    else:
        log_beta = math.log(beta) if beta > 0 else -math.inf
        weights = math.expm1(log_beta) / torch.expm1(filled * log_beta)
    total = torch.where(present, weights, 0.0).sum(-1, keepdim=True)
    return weights * torch.where(total > 0, present.sum(-1, keepdim=True) / total, 1.0)


def margins(counts, max_margin):
    """Margins max_margin (n / min n)^(-1/4); an absent class has that of the rarest present one."""
    filled = absent_as_rarest(counts)
    return max_margin * (filled.amin(-1, keepdim=True) / filled) ** 0.25
