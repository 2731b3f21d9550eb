"""What methods with heads of their own share: parts of a head by name, a linear layer like another."""

from functools import lru_cache

import torch
from torch.nn import functional as F

from fedrela_sk.exceptions import NetError
from fedrela_sk.losses import LogitAdjustedLoss
from fedrela_sk.nets import find_head, linear_head, mark_head

# of (gamma, absent); a loss keeps nothing of the rows that it saw: one for each setting, not for each batch
balanced_softmax = lru_cache(maxsize=8)(LogitAdjustedLoss)


def linear_head_of(module, n_classes, head):
    """(name, layer) of the plain linear layer that ends a net.

    Parameters
    ----------
    module : nn.Module
    n_classes : int
    head : str or None
        Its name, None to look for it.

    Raises
    ------
    NetError
        If there is none, or if it holds several heads already.
    """
    name = find_head(module, n_classes, head)
    layer = module.get_submodule(name)
    if not hasattr(layer, "weight"):
        raise NetError(
            f"The head {name!r} is of kind {type(layer).__name__}, but this method puts heads of its own beside a "
            "linear layer. Let the net end in nn.Linear."
        )
    return name, layer


def marked(module, n_classes, head):
    """The module itself, its linear head marked: later hooks find the layer that `head` names."""
    name, _ = linear_head_of(module, n_classes, head)
    mark_head(module, name)
    return module


def like(layer, zero=False):
    """A new linear layer of another's sizes and dtype; its weights are drawn from torch's generator."""
    bias = layer.bias is not None
    return linear_head(layer.in_features, layer.out_features, zero=zero, bias=bias, dtype=layer.weight.dtype)


def path(layer, name):
    """Name of a part of a layer in its module; the module may be the layer itself."""
    return f"{layer}.{name}" if layer else name


def in_part(name, part):
    """Name of the tensor that stands in another part of the same head where `name` stands in its own.

    ``head.main.weight`` and "personal" give ``head.personal.weight``.
    """
    *layer, _, leaf = name.split(".")
    return ".".join([*layer, part, leaf])


def names_in_part(names, part):
    """Names of the tensors of the part of a `MultiHead` that is called `part`, a tuple.

    Layers of a net that happen to have that name are not meant: a part stands beside a "main".
    """
    names = tuple(names)
    return tuple(
        name for name in names if name.split(".")[-2:-1] == [part] and in_part(name, "main") in names
    )


def names_outside_part(names, part):
    """All other names than those of `names_in_part`, a tuple in their order."""
    names = tuple(names)
    inside = names_in_part(names, part)
    return tuple(name for name in names if name not in inside)


def linear(params, layer, h):
    """Output of the linear layer called `layer`, with its tensors in `params`."""
    return F.linear(h, params[path(layer, "weight")], params.get(path(layer, "bias")))


def features_of(model, X, size=1024):
    """What enters the head in evaluation mode, without gradients, for many rows.

    Parameters
    ----------
    model : fedrela_sk.training.Model
    X : tensor of shape (n_rows, ...)
    size : int
        Rows at a time; changes only memory.

    Returns
    -------
    features : tensor of shape (n_rows, n_features)
    """
    return torch.cat([model.frozen(part)[0] for part in X.split(size)])
