"""Everything inside an argument or an object by its place, copied, to see later what has changed."""

from dataclasses import fields, is_dataclass

import numpy as np
import torch
from torch import nn

from fedrela_sk.training import Model


def snapshot(thing, place=""):
    """Copies of all that can be changed inside something, a dictionary by place.

    Parameters
    ----------
    thing : object
        Tensors, arrays, modules and models, and dictionaries, sequences and records of them.
    place : str, default=""
        What the place of the whole is called.
    """
    found = {}
    _look(thing, place, found)
    return found


def _look(thing, place, found):
    if isinstance(thing, torch.Tensor):
        found[place] = thing.detach().clone()
    elif isinstance(thing, np.ndarray):
        found[place] = thing.copy()
    elif isinstance(thing, Model):
        _look(thing.module, place, found)
    elif isinstance(thing, nn.Module):
        _look_at_module(thing, place, found)
    else:
        inside = _parts(thing)
        found[place] = _told(thing) if inside is None else type(thing).__name__
        for name, part in (inside or {}).items():
            _look(part, f"{place}[{name!r}]" if place else str(name), found)


def _look_at_module(module, place, found):
    """Parameters, which of them learn, and the mode of every layer; buffers may move in a pass."""
    found[f"{place}, modes of its layers"] = str([layer.training for layer in module.modules()])
    for name, param in module.named_parameters():
        found[f"{place}, its parameter {name!r}"] = param.detach().clone()
        found[f"{place}, requires_grad of {name!r}"] = str(param.requires_grad)


def _parts(thing):
    """What a container holds, by name; None for what is no container."""
    if isinstance(thing, dict):
        return dict(thing)
    if isinstance(thing, list | tuple):
        return dict(enumerate(thing))
    if is_dataclass(thing) and not isinstance(thing, type):
        return {field.name: getattr(thing, field.name) for field in fields(thing)}
    return None


def _told(thing):
    """What is compared of anything else: simple values by what they are, others by which they are."""
    simple = isinstance(thing, str | bytes | int | float | bool | set | frozenset | type(None))
    return repr(thing) if simple else f"{type(thing).__name__} {id(thing)}"


def changes(before, after):
    """Places whose content is another one, new or gone; in words."""
    gone = [f"{place} is gone" for place in before if place not in after]
    new = [f"{place} is new" for place in after if place not in before]
    other = [
        f"{place} has changed"
        for place, old in before.items()
        if place in after and not _same(old, after[place])
    ]
    return other + new + gone


def _same(one, other):
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return one.shape == other.shape and torch.equal(one.nan_to_num(), other.nan_to_num())
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return one.shape == other.shape and one.tobytes() == other.tobytes()
    return type(one) is type(other) and one == other
