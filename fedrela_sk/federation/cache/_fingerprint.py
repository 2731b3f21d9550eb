"""What decides a result, as text: the same in every process, different wherever the result could differ."""

import copyreg
import functools
import hashlib
import json
import pickle
import sys
import types
from collections.abc import Iterator
from numbers import Number

import numpy as np
import torch
from skorch import NeuralNet
from torch import nn

from fedrela_sk.federation.cache._modules import module_parts, tensor_hooks
from fedrela_sk.federation.cache._names import check_followable
from fedrela_sk.federation.cache._source import (
    NotKeyable,
    class_parts,
    function_parts,
    is_global,
    release,
    source_text,
)


def fingerprint(thing):
    """Hexadecimal digest of `describe(thing)`."""
    return hashlib.sha256(describe(thing).encode()).hexdigest()


def describe(thing):
    """A thing as one text of plain values.

    Arrays and tensors become digests of their bytes; classes and functions their name with, for code of an
    installed package, its version, else their source, bytecode and everything that they refer to; modules
    and estimators their class, settings and state; other objects what `pickle` would store, and what they hold.

    Raises
    ------
    NotKeyable
        For lambdas, code whose doings cannot be followed, and objects that `pickle` cannot store.
    """
    description = _Description()
    try:
        return json.dumps([description(thing), description.code])
    except NotKeyable:
        raise
    except RecursionError as error:
        raise NotKeyable("it holds something that holds itself") from error
    except Exception as error:  # whatever the objects of users raise when they are looked at
        raise NotKeyable(f"a parameter cannot be described ({type(error).__name__}: {error})") from error


class _Description:
    """Descriptions that share one register of code, so that functions and classes may name each other."""

    def __init__(self):
        self.code = []  # in the order in which they were met
        self._numbers = {}  # id -> (number in `code`, the thing itself, which keeps its id)

    def __call__(self, thing):
        if thing is None or type(thing) in (bool, int, str):
            return thing
        if type(thing) is np.ndarray or isinstance(thing, np.generic):
            return self._array(np.asarray(thing))
        if isinstance(thing, torch.Tensor):
            return self._tensor(thing)
        if type(thing) is bytes:
            return ["bytes", _digest(thing)]
        if isinstance(thing, torch.dtype | torch.device | Number) and release(type(thing).__module__):
            return [type(thing).__name__, repr(thing)]
        if type(thing) is dict:
            return ["dict", *([self(key), self(value)] for key, value in thing.items())]
        if type(thing) in (list, tuple):
            return [type(thing).__name__, *map(self, thing)]
        if type(thing) in (set, frozenset):
            # each by itself: the order of a set is another one in every process
            return [type(thing).__name__, *sorted(map(describe, thing))]
        return self._code_or_object(thing)

    def _code_or_object(self, thing):
        check_followable(thing, "a parameter")
        if isinstance(thing, type):
            return self._code(thing, class_parts)
        if isinstance(thing, types.FunctionType):
            return self._code(thing, function_parts)
        if isinstance(thing, types.MethodType):
            return ["method", self(thing.__func__), self(thing.__self__)]
        if isinstance(thing, types.BuiltinFunctionType):
            return self._builtin(thing)
        if isinstance(thing, types.ModuleType):
            return self._python_module(thing)
        if isinstance(thing, nn.Module):
            return ["module", *map(self, module_parts(thing, release))]
        if hasattr(thing, "get_params"):
            return self._estimator(thing)
        if isinstance(thing, functools._lru_cache_wrapper):
            held = {name: value for name, value in vars(thing).items() if name != "cache_parameters"}
            return ["cached", self(thing.cache_parameters()), self(held)]
        if _is_released(thing):  # a compiled function of a package
            return [self._name(thing), release(thing.__module__)]
        return self._object(thing)

    @staticmethod
    def _name(thing):
        return f"{thing.__module__}.{thing.__qualname__}"

    def _code(self, thing, parts):
        """Name of a function or class; what it does is put into the register, once."""
        name = self._name(thing)
        if _is_released(thing):
            return [name, release(thing.__module__)]
        if id(thing) not in self._numbers:
            number = len(self.code)
            self._numbers[id(thing)] = number, thing
            self.code.append(name)
            self.code[number] = [name, source_text(thing), self(parts(thing))]
        return ["code", self._numbers[id(thing)][0]]

    def _builtin(self, thing):
        version = release(thing.__module__)
        if version is None:
            raise NotKeyable(f"{self._name(thing)} is compiled code whose version is not known")
        owner = None if isinstance(thing.__self__, types.ModuleType) else self(thing.__self__)
        return ["builtin", thing.__qualname__, version, owner]

    def _python_module(self, module):
        version = release(module.__name__)
        if version is None:
            raise NotKeyable(
                f"the module {module.__name__} is held as a whole, so that what is taken from it cannot be followed"
            )
        return ["python module", module.__name__, version]

    def _estimator(self, estimator):
        """Class, parameters and, but for nets, which are cloned, whatever else it holds."""
        params = dict(sorted(estimator.get_params(deep=False).items()))
        held = {} if isinstance(estimator, NeuralNet) else _held(estimator)
        other = {name: value for name, value in held.items() if value is not params.get(name, held)}
        return ["estimator", self(type(estimator)), self(params), self(other)]

    def _array(self, array):
        if array.dtype.hasobject:
            return ["objects", list(array.shape), [self(item) for item in array.ravel().tolist()]]
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        return [str(array.dtype), list(array.shape), _digest(data.data)]

    def _tensor(self, tensor):
        data = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
        facts = [str(tensor.device), str(tensor.dtype), list(tensor.shape), tensor.requires_grad]
        return ["tensor", *facts, _digest(data.data), self(type(tensor)), self(tensor_hooks(tensor))]

    def _object(self, thing):
        reduce = copyreg.dispatch_table.get(type(thing))
        try:
            parts = thing.__reduce_ex__(4) if reduce is None else reduce(thing)
        except Exception as error:
            raise NotKeyable(f"{thing!r} ({type(thing).__name__}) has no stable description") from error
        if isinstance(parts, str):
            return self._named(thing, parts)
        parts = [list(part) if isinstance(part, Iterator) else part for part in parts]
        # a class of the user's own may leave out what it does not want to be pickled
        held = {} if release(type(thing).__module__) else _held(thing)
        return ["object", self(type(thing)), *map(self, parts), self(held)]

    def _named(self, thing, name):
        """What `pickle` stores only as a name: enough where an installed package holds it under that name."""
        module = pickle.whichmodule(thing, name)
        version = release(module)
        if version is None or getattr(sys.modules.get(module), name, None) is not thing:
            raise NotKeyable(f"{name} is stored only as a name, which does not say what it does")
        return ["object", self(type(thing)), name, version]


def _is_released(thing):
    """Whether a function or class is what an installed package has under its name."""
    if not (hasattr(thing, "__qualname__") and hasattr(thing, "__module__")):
        return False
    return release(thing.__module__) is not None and is_global(thing)


def _held(thing):
    """Attributes of an object by name, slots included."""
    slots = [
        name
        for cls in type(thing).__mro__
        for name, slot in vars(cls).items()
        if isinstance(slot, types.MemberDescriptorType) and hasattr(thing, name)
    ]
    return {name: getattr(thing, name) for name in slots} | dict(getattr(thing, "__dict__", {}))


def _digest(data):
    return hashlib.sha256(data).hexdigest()
