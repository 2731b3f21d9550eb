"""What a net remembers outside the tensors that travel: kept before round 0, put back before every client.

A client must start from what the server sent and nothing else. The tensors of a module's `state_dict` are
written anew for every client; counters, hidden states, buffers outside the `state_dict`, and whatever
callbacks and criteria keep, are not sent. `Pristine` puts them back.
"""

import copy
import threading

import torch
from skorch.callbacks import GradientNormClipping

from fedrela_sk.exceptions import NetError
from fedrela_sk.training.runtime._replica import forgets
from fedrela_sk.training.runtime._same import same

# Compared in another way, or set for every client.
_ELSEWHERE = {"_parameters", "_buffers", "_modules", "_non_persistent_buffers_set", "training"}
# Of a net: what is kept by itself, or made anew for every client.
_PARTS_OF_A_NET = {"module_", "criterion_", "optimizer_", "history_", "callbacks_"}
# They cannot be copied, and hold nothing of a client.
_OPAQUE = (type(threading.Lock()), type(threading.RLock()))


def pristine_of(net, callbacks):
    """The `Pristine` of a net; None where everything in it is known to remember nothing.

    Parameters
    ----------
    net : initialized skorch net
    callbacks : sequence of skorch callbacks
        The user's own.
    """
    own_callbacks = [callback for callback in callbacks if type(callback) is not GradientNormClipping]
    if forgets(net) and not own_callbacks:
        return None
    others = {
        f"callback {i} ({type(callback).__name__})": callback for i, callback in enumerate(own_callbacks)
    }
    return Pristine(net.module_, net.criterion_, net, others)


class Pristine:
    """What a module, a criterion and other objects remember at the time when this is made.

    Parameters
    ----------
    module : nn.Module
        Values of parameters and persistent buffers are sent to clients and not kept here; only that they are
        there, their shapes, and whether they learn.
    criterion : nn.Module or None
        All of it is kept.
    net : skorch net or None
        Its settings and whatever code of the user's has put on it are kept.
    others : dict of objects or None
        Further objects by what they are called.

    Raises
    ------
    NetError
        If an attribute cannot be copied, so that it could not be put back.
    """

    def __init__(self, module, criterion=None, net=None, others=None):
        self._holders = {
            f"the module's {path!r}" if path else "the module": _Layer(layer, travels=True)
            for path, layer in module.named_modules(remove_duplicate=False)
        }
        if criterion is not None:
            for path, layer in criterion.named_modules():
                self._holders[f"the criterion's {path!r}" if path else "the criterion"] = _Layer(layer)
        if net is not None:
            self._holders["the net"] = _Net(net)
        self._holders |= {f"the {label}": _Plain(thing) for label, thing in (others or {}).items()}
        # meant by reference wherever an attribute holds them
        by_reference = [holder.thing for holder in self._holders.values()]
        by_reference += [*module.parameters(), *_persistent_buffers(module)]
        self._memo = {id(thing): thing for thing in by_reference}
        self._saved = self._copied({label: holder.read() for label, holder in self._holders.items()})

    def moved(self):
        """What differs now, a list of str such as ``"attribute 'n' of the module's 'body'"``."""
        found = []
        for label, holder in self._holders.items():
            now, saved = holder.read(), self._saved[label]
            for key in saved | now:
                if key not in now or key not in saved or not same(now[key], saved[key]):
                    found.append(f"{key[0]} {key[1]!r} of {label}")
        return found

    def restore(self):
        """Put everything back, if anything moved."""
        if not self.moved():
            return
        states = self._copied(self._saved)
        for label, holder in self._holders.items():
            holder.write(states[label])

    def _copied(self, states):
        """Deep copies of all states; what they share stays shared."""
        memo = dict(self._memo)
        return {
            label: {key: _copy_of(value, memo, key, label) for key, value in state.items()}
            for label, state in states.items()
        }


def _copy_of(value, memo, key, label):
    """A deep copy of one attribute; what cannot be copied is named."""
    if isinstance(value, _OPAQUE):
        return value
    if (
        isinstance(value, torch.Tensor) and not value.is_leaf
    ):  # computed by a hook of torch's own `weight_norm`
        return value.detach().clone()
    try:
        return copy.deepcopy(value, memo)
    except Exception as error:
        raise NetError(
            f"{key[0]} {key[1]!r} of {label} cannot be copied ({type(error).__name__}: {error}), so a client could "
            "not start without what others left in it. Hold something there that copy.deepcopy can copy, or keep "
            "it outside the net."
        ) from error


def _persistent_buffers(module):
    return [
        buffer
        for layer in module.modules()
        for name, buffer in layer._buffers.items()
        if name not in layer._non_persistent_buffers_set
    ]


class _Plain:
    """An object by its attributes."""

    def __init__(self, thing):
        self.thing = thing

    def read(self):
        return {("attribute", name): value for name, value in self._attributes().items()}

    def write(self, state):
        own, saved = getattr(self.thing, "__dict__", {}), _of_kind(state, "attribute")
        for name in self._attributes().keys() - saved.keys():
            del own[name]
        own.update(saved)

    def _attributes(self):
        own = getattr(self.thing, "__dict__", {})
        return {name: value for name, value in own.items() if not self._elsewhere(name, value)}

    @staticmethod
    def _elsewhere(name, value):
        """Whether an attribute is kept by somebody else, or need not be."""
        return False


class _Net(_Plain):
    """A skorch net without its parts."""

    @staticmethod
    def _elsewhere(name, value):
        return name in _PARTS_OF_A_NET


class _Layer(_Plain):
    """One layer: attributes, parts, parameters and buffers; `travels`: its `state_dict` is sent to clients."""

    def __init__(self, layer, travels=False):
        super().__init__(layer)
        self.travels = travels

    @staticmethod
    def _elsewhere(name, value):
        # a layer carries a dozen collections of hooks, most of them empty
        return name in _ELSEWHERE or (name.endswith("_hooks") and not value)

    def read(self):
        layer = self.thing
        state = super().read()
        state |= {("submodule", name): part for name, part in layer._modules.items()}
        state |= {("parameter", name): self._kept(param) for name, param in layer._parameters.items()}
        for name, buffer in layer._buffers.items():
            local = name in layer._non_persistent_buffers_set
            state["buffer", name] = (local, buffer if local else self._kept(buffer))
        return state

    def _kept(self, tensor):
        """What is kept of a tensor of the `state_dict`: itself by reference, facts, and values if they stay."""
        if tensor is None:
            return None
        values = None if self.travels else tensor.detach()
        return _ByReference(tensor), tuple(tensor.shape), tensor.dtype, tensor.requires_grad, values

    def write(self, state):
        layer = self.thing
        for name, value in vars(layer).items():
            if name.endswith("_hooks") and ("attribute", name) not in state:
                value.clear()
        super().write(state)
        _refill(layer._modules, _of_kind(state, "submodule"))
        params = _of_kind(state, "parameter")
        _refill(layer._parameters, {name: _put_back(kept) for name, kept in params.items()})
        buffers = _of_kind(state, "buffer")
        layer._non_persistent_buffers_set = {name for name, (local, _) in buffers.items() if local}
        _refill(
            layer._buffers,
            {name: kept if local else _put_back(kept) for name, (local, kept) in buffers.items()},
        )


class _ByReference:
    """A tensor that is meant itself, not its values."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        return _ByReference, (id(self.tensor),)


def _put_back(kept):
    """The tensor that `_Layer._kept` described, as it was."""
    if kept is None:
        return None
    reference, shape, dtype, learns, values = kept
    tensor = reference.tensor
    if tuple(tensor.shape) != shape or tensor.dtype != dtype:
        tensor.data = torch.zeros(shape, dtype=dtype, device=tensor.device)
    tensor.requires_grad_(learns)
    if values is not None:
        tensor.data.copy_(values)
    return tensor


def _of_kind(state, kind):
    return {name: value for (own, name), value in state.items() if own == kind}


def _refill(mapping, content):
    mapping.clear()
    mapping.update(content)
