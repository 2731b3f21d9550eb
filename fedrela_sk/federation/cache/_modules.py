"""What a torch module computes with, in parts that can be described."""

import sys

from torch import nn

# What every module carries; hooks and tensors are described by themselves.
_MODULE_OWN = set(vars(nn.Module()))


def module_parts(module, release):
    """Classes, settings, hooks and tensors of a module and of all modules in it.

    Parameters
    ----------
    module : nn.Module
    release : callable of a module's name
        Name and version of an installed package; None for the user's own modules.

    Returns
    -------
    layers : list
    tensors : list of [name, tensor, strides, first name of the same tensor]
    """
    layers = [
        [path, type(layer), layer.training, _kept(layer, release), _hooks(layer)]
        for path, layer in module.named_modules(remove_duplicate=False)
    ]
    first, tensors = {}, []
    for found in (module.named_parameters, module.named_buffers):
        for name, tensor in found(remove_duplicate=False):
            tensors.append([name, tensor, list(tensor.stride()), first.setdefault(id(tensor), name)])
    return layers, tensors


def tensor_hooks(tensor):
    """Functions that act on a tensor's gradient, lists by kind; empty for nearly all tensors."""
    if not tensor.requires_grad:
        return []
    kinds = (getattr(tensor, name, None) for name in ("_backward_hooks", "_post_accumulate_grad_hooks"))
    return [list(hooks.values()) for hooks in kinds if hooks]


def global_hooks():
    """Functions that act on every module or optimizer of the process, lists by kind."""
    places = (vars(nn.modules.module), vars(sys.modules["torch.optim.optimizer"]))
    kinds = [
        (name, hooks) for place in places for name, hooks in place.items() if name.startswith("_global_")
    ]
    return {name: list(hooks.values()) for name, hooks in kinds if isinstance(hooks, dict)}


def _kept(layer, release):
    """Attributes of one layer, and which of its buffers are not part of the state that travels."""
    # what torch's own layers keep under a leading underscore follows from the rest
    of_torch = type(layer).__module__.startswith("torch.nn.modules.") and release(type(layer).__module__)
    kept = {
        name: value
        for name, value in vars(layer).items()
        if name not in _MODULE_OWN and not (of_torch and name.startswith("_"))
    }
    return [kept, sorted(layer._non_persistent_buffers_set)]


def _hooks(layer):
    return {name: list(value.values()) for name, value in vars(layer).items() if "_hooks" in name}
