"""What decides a result, as text: the same in every process, different wherever the result could differ."""

import copyreg
import hashlib
import json
import types
from collections.abc import Iterator
from numbers import Number

import numpy as np
import torch
from torch import nn

from fedrela_sk.federation._code import NotKeyable, class_parts, function_parts, release, source_text

# What every module carries; hooks and tensors are described by themselves.
_MODULE_OWN = set(vars(nn.Module()))


def fingerprint(thing):
    """Hexadecimal digest of `describe(thing)`."""
    return hashlib.sha256(describe(thing).encode()).hexdigest()


def describe(thing):
    """A thing as one text of plain values.

    Arrays and tensors become digests of their bytes; classes and functions their name with, for code of an
    installed package, its version, else their source, bytecode and everything that they refer to; modules
    and estimators their class, settings and state; other objects what `pickle` would store.

    Raises
    ------
    NotKeyable
        For lambdas, code without source, and objects that `pickle` cannot store.
    """
    description = _Description()
    try:
        body = description(thing)
    except RecursionError as error:
        raise NotKeyable("it holds something that holds itself") from error
    return json.dumps([body, description.code], sort_keys=True)


class _Description:
    """Descriptions that share one register of code, so that functions and classes may name each other."""

    def __init__(self):
        self.code = {}

    def __call__(self, thing):
        if thing is None or isinstance(thing, bool | int | str):
            return thing
        if isinstance(thing, np.ndarray | np.generic):
            return self._array(np.asarray(thing))
        if isinstance(thing, torch.Tensor):
            return self._tensor(thing)
        if isinstance(thing, bytes):
            return ["bytes", _digest(thing)]
        if isinstance(thing, Number | torch.dtype | torch.device):
            return [type(thing).__name__, repr(thing)]
        if isinstance(thing, dict):
            pairs = [[self(key), self(value)] for key, value in thing.items()]
            return ["dict", sorted(pairs, key=json.dumps)]
        if type(thing) in (list, tuple):
            return [type(thing).__name__, *map(self, thing)]
        if isinstance(thing, set | frozenset):
            return ["set", *sorted(map(self, thing), key=json.dumps)]
        return self._code_or_object(thing)

    def _code_or_object(self, thing):
        if isinstance(thing, type):
            return self._code(thing, class_parts)
        if isinstance(thing, types.FunctionType):
            return self._code(thing, function_parts)
        if isinstance(thing, types.MethodType):
            return ["method", self(thing.__func__), self(thing.__self__)]
        if isinstance(thing, types.BuiltinFunctionType):
            owner = None if isinstance(thing.__self__, types.ModuleType) else self(thing.__self__)
            return ["builtin", thing.__qualname__, release(thing.__module__), owner]
        if isinstance(thing, nn.Module):
            return self._module(thing)
        if hasattr(thing, "get_params"):
            return ["estimator", self(type(thing)), self(thing.get_params(deep=False))]
        if hasattr(thing, "__qualname__") and hasattr(thing, "__module__") and release(thing.__module__):
            return [self._name(thing), release(thing.__module__)]  # a compiled function of a package
        return self._object(thing)

    @staticmethod
    def _name(thing):
        return f"{thing.__module__}.{thing.__qualname__}"

    def _code(self, thing, parts):
        """Name of a function or class; what it does is put into the register, once."""
        name = self._name(thing)
        if (version := release(thing.__module__)) is not None:
            return [name, version]
        own = source_text(thing)
        key = f"{name} {_digest(own.encode())}"
        if key not in self.code:
            self.code[key] = own
            self.code[key] = [own, self(parts(thing))]
        return [key]

    def _array(self, array):
        if array.dtype.hasobject:
            return ["objects", list(array.shape), [self(item) for item in array.ravel().tolist()]]
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        return [str(array.dtype), list(array.shape), _digest(data.data)]

    @staticmethod
    def _tensor(tensor):
        data = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
        facts = [str(tensor.device), str(tensor.dtype), list(tensor.shape), tensor.requires_grad]
        return ["tensor", *facts, _digest(data.data)]

    def _module(self, module):
        """Classes, settings, hooks and tensors of a module and of all modules in it."""
        layers = []
        for path, layer in module.named_modules(remove_duplicate=False):
            installed = release(type(layer).__module__) is not None
            # what torch's own layers keep under a leading underscore follows from the rest
            kept = {
                name: value
                for name, value in vars(layer).items()
                if name not in _MODULE_OWN and not (installed and name.startswith("_"))
            }
            hooks = {
                name: list(value.values()) for name, value in vars(layer).items() if name.endswith("_hooks")
            }
            layers.append([path, self(type(layer)), layer.training, self(kept), self(hooks)])
        tensors = dict(module.named_parameters(remove_duplicate=False))
        return ["module", layers, self(tensors | dict(module.named_buffers(remove_duplicate=False)))]

    def _object(self, thing):
        reduce = copyreg.dispatch_table.get(type(thing))
        try:
            parts = thing.__reduce_ex__(4) if reduce is None else reduce(thing)
        except Exception as error:
            raise NotKeyable(f"{thing!r} ({type(thing).__name__}) has no stable description") from error
        if isinstance(parts, str):
            return ["object", self(type(thing)), parts]
        parts = [list(part) if isinstance(part, Iterator) else part for part in parts]
        return ["object", self(type(thing)), *map(self, parts)]


def _digest(data):
    return hashlib.sha256(data).hexdigest()
