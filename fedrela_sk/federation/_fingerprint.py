"""What decides a result, as text: the same in every process, different wherever the result could differ."""

import functools
import hashlib
import inspect
import json
import types
from numbers import Number

import numpy as np
import torch
from torch import nn

# Code of these packages is keyed by the versions that stand beside it.
_VERSIONED = {"numpy", "scipy", "sklearn", "skorch", "torch", "fedrela_sk"}
_VERSIONED |= {"builtins", "abc", "typing", "collections"}  # Python itself; its version is in the key too


class NotKeyable(Exception):
    """A thing has no stable description; the message says which and why."""


def fingerprint(thing):
    """Hexadecimal digest of `describe(thing)`."""
    text = json.dumps(describe(thing), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def describe(thing):
    """A thing as nested lists and dictionaries of plain values.

    Arrays and tensors become digests of their bytes; classes and functions their name and, outside of the
    packages whose versions are known, their source; modules and estimators their class, settings and
    state.

    Raises
    ------
    NotKeyable
        For lambdas, closures, code without source, and objects that are none of these.
    """
    if thing is None or isinstance(thing, bool | int | float | str):
        return thing if not isinstance(thing, float) else repr(thing)
    if isinstance(thing, bytes):
        return ["bytes", hashlib.sha256(thing).hexdigest()]
    if isinstance(thing, np.ndarray | np.generic):
        return _array(np.asarray(thing))
    if isinstance(thing, torch.Tensor):
        return ["tensor", str(thing.device), _array(thing.detach().cpu().numpy())]
    if isinstance(thing, torch.dtype | torch.device | Number | slice):
        return [type(thing).__name__, repr(thing)]
    if isinstance(thing, dict):
        return ["dict", sorted(([describe(k), describe(v)] for k, v in thing.items()), key=json.dumps)]
    if isinstance(thing, list | tuple):
        return [type(thing).__name__, *map(describe, thing)]
    if isinstance(thing, set | frozenset):
        return ["set", *sorted(map(describe, thing), key=json.dumps)]
    return _describe_code_or_object(thing)


def _describe_code_or_object(thing):
    if isinstance(thing, functools.partial):
        return ["partial", describe(thing.func), describe(thing.args), describe(thing.keywords)]
    if isinstance(thing, type):
        return ["class", _source(thing)]
    if isinstance(thing, types.FunctionType | types.BuiltinFunctionType):
        return _function(thing)
    if isinstance(thing, nn.Module):
        return _module(thing)
    if hasattr(thing, "get_params"):
        return ["estimator", _source(type(thing)), describe(thing.get_params(deep=False))]
    if hasattr(thing, "get_n_splits") or type(thing).__module__.split(".")[0] in _VERSIONED:
        return ["object", _source(type(thing)), describe(getattr(thing, "__dict__", None) or repr(thing))]
    raise NotKeyable(f"{thing!r} ({type(thing).__name__}) has no stable description")


def _array(array):
    if array.dtype.hasobject:
        return ["objects", list(array.shape), [describe(item) for item in array.ravel().tolist()]]
    data = np.ascontiguousarray(array)
    return [str(array.dtype), list(array.shape), hashlib.sha256(data.view(np.uint8).data).hexdigest()]


def _function(function):
    if function.__name__ == "<lambda>":
        raise NotKeyable("a lambda has no stable description: define a named function at module level")
    if getattr(function, "__closure__", None):
        raise NotKeyable(f"function {function.__qualname__!r} closes over variables")
    defaults = describe(list(getattr(function, "__defaults__", None) or ()))
    return ["function", _source(function), defaults]


def _source(thing):
    """Name and source of a function, or of a class and its bases; the name alone where a version stands for it."""
    if isinstance(thing, type):
        return [_source_of_one(kind) for kind in thing.__mro__]
    return _source_of_one(thing)


def _source_of_one(thing):
    name = f"{thing.__module__}.{thing.__qualname__}"
    if thing.__module__.split(".")[0] in _VERSIONED:
        return name
    try:
        return [name, inspect.getsource(thing)]
    except (OSError, TypeError) as error:
        raise NotKeyable(f"{name} has no source text that could be compared") from error


def _module(module):
    """Classes, settings and tensors of a module and of all modules in it."""
    layers = [
        [path, _source(type(layer)), layer.extra_repr(), layer.training]
        for path, layer in module.named_modules()
    ]
    return ["module", layers, describe(dict(module.state_dict()))]
