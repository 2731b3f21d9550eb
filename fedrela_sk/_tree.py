"""Arithmetic on named tensors: a model's parameters and buffers as ``{name: tensor}``."""

import torch


def copy(tree):
    """A detached copy that shares no memory with `tree`; entries lie in memory row by row."""
    return {
        name: tensor.detach().clone(memory_format=torch.contiguous_format) for name, tensor in tree.items()
    }


def detach(tree):
    """The same tensors without gradients."""
    return {name: tensor.detach() for name, tensor in tree.items()}


def subset(tree, names):
    """The entries called `names`, in the order of `names`."""
    return {name: tree[name] for name in names}


def nbytes(tree):
    """Bytes that the tensors of `tree` hold."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tree.values())


def first_not_finite(tree):
    """Name of the first tensor with a NaN or an infinity, None if there is none."""
    for name, tensor in tree.items():
        # one pass: any NaN or infinity makes the sum of x * 0 a NaN
        if tensor.is_floating_point() and not torch.isfinite((tensor * 0).sum()):
            return name
    return None


def squared_distance(tree, other):
    """Sum over all entries of (tree - other)^2, a scalar tensor that carries gradients."""
    return sum(((tensor - other[name]) ** 2).sum() for name, tensor in tree.items())
