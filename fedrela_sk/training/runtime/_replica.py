"""Copies of a net that may be run without leaving anything behind in the net itself."""

import copy

import torch

from fedrela_sk.exceptions import NetError

# Packages whose modules and losses keep nothing of the rows that they have seen.
_FORGETFUL_PACKAGES = ("torch", "skorch", "fedrela_sk")


def forgets(net):
    """Whether all code of a net, its module and its criterion is known to keep nothing outside their tensors."""
    layers = [*net.module_.modules(), *net.criterion_.modules()]
    known = all(type(part).__module__.split(".")[0] in _FORGETFUL_PACKAGES for part in (net, *layers))
    return known and not any(map(has_hooks, layers))


def has_hooks(layer):
    """Whether code was hooked to a layer or to one of its own parameters."""
    if any(value for name, value in vars(layer).items() if name.endswith("_hooks")):
        return True
    params = [param for param in layer._parameters.values() if param is not None]
    return any(p._backward_hooks or getattr(p, "_post_accumulate_grad_hooks", None) for p in params)


def replica_of(net, tensors=None):
    """A net like another, with a module of its own: running it writes nothing that anybody else sees.

    Parameters
    ----------
    net : initialized skorch net
    tensors : dict of tensors or None
        Parameters and buffers by name that take the place of the module's own, shared with the caller; what is
        left out is the module's. None: all are the module's; its parameters share memory, its buffers are copied.

    Returns
    -------
    replica : skorch net of the same kind
        Shares all but the module.

    Raises
    ------
    NetError
        If the module cannot be copied.
    """
    replica = object.__new__(type(net))
    vars(replica).update(vars(net))
    vars(replica)["module_"] = _copied(net.module_, _by_reference(net.module_, tensors or {}))
    return replica


def private_copy(net):
    """A net that may be run without leaving anything in `net`: itself, if all of its code is known to leave nothing.

    The copy shares the net's parameters; buffers, whatever else the module keeps, and the criterion are its own.

    Parameters
    ----------
    net : initialized skorch net
    """
    if forgets(net):
        return net
    replica = replica_of(net)
    vars(replica)["criterion_"] = copy.deepcopy(net.criterion_)
    return replica


def independent_net(net):
    """A net like another that shares neither module nor optimizer with it, for classes that cannot be pickled too."""
    copied = object.__new__(type(net))
    vars(copied).update(vars(net))
    vars(copied)["module_"] = independent_copy(net.module_)
    return copied.initialize_optimizer()


def independent_copy(module):
    """A copy of a module that shares nothing with it, without gradients."""
    copied = _copied(module, {})
    for param in copied.parameters():
        param.grad = None
    return copied


def _copied(module, memo):
    for layer in module.modules():
        for value in vars(layer).values():
            if isinstance(value, torch.Tensor) and not value.is_leaf:  # what a hook computed from parameters
                memo[id(value)] = value.detach().clone()
    try:
        return copy.deepcopy(module, memo)
    except Exception as error:
        raise NetError(
            f"The module cannot be copied ({type(error).__name__}: {error}). Let it hold only what copy.deepcopy "
            "can copy."
        ) from error


def _by_reference(module, tensors):
    """What stands in a copy in place of each tensor of a module: `tensors`, else its own parameters."""
    memo = {}
    for name, param in module.named_parameters(remove_duplicate=False):
        shared = tensors.get(name, param).detach().to(param.device)
        memo[id(param)] = torch.nn.Parameter(shared, requires_grad=param.requires_grad)
    for name, tensor in module.named_buffers(remove_duplicate=False):
        if name in tensors:
            memo[id(tensor)] = tensors[name].to(tensor.device, copy=True)
    return memo
