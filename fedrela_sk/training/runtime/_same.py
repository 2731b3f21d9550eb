"""Whether two Python objects hold the same content."""

import numpy as np
import torch


def same(a, b, seen=None):
    """Whether two things hold the same; what cannot be compared is not the same.

    Tensors and arrays are compared by value, type, shape and whether they ask for gradients; NaN equals NaN.
    Other objects are compared by what `pickle` would store of them.

    Parameters
    ----------
    a, b : object
    seen : set or None
        Pairs that are being compared already, for things that hold themselves.
    """
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    seen = set() if seen is None else seen
    if (id(a), id(b)) in seen:
        return True
    seen.add((id(a), id(b)))
    try:
        return _same_content(a, b, seen)
    except Exception:  # for example a tensor that a finished vmap left behind
        return False


def _same_content(a, b, seen):
    if isinstance(a, torch.Tensor):
        return _same_tensor(a, b)
    if isinstance(a, np.ndarray):
        return _same_array(a, b, seen)
    if type(a) in (list, tuple):
        return _all_same(a, b, seen)
    if isinstance(a, int | float | complex | str | bytes | np.generic):
        return bool(a == b) or bool(a != a and b != b)
    if isinstance(a, set | frozenset | type | torch.dtype | torch.device):
        return a == b
    if isinstance(a, dict) and not _all_same([*a.keys(), *a.values()], [*b.keys(), *b.values()], seen):
        return False
    return type(a) is dict or _all_same(_stored(a), _stored(b), seen)


def _all_same(a, b, seen):
    return len(a) == len(b) and all(same(x, y, seen) for x, y in zip(a, b, strict=True))


def _same_array(a, b, seen):
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    return same(a.tolist(), b.tolist(), seen) if a.dtype.hasobject else a.tobytes() == b.tobytes()


def _same_tensor(a, b):
    facts = [(t.shape, t.dtype, t.device, t.requires_grad) for t in (a, b)]
    if facts[0] != facts[1]:
        return False
    a, b = a.detach(), b.detach()
    return torch.equal(a, b) or bool(((a == b) | ((a != a) & (b != b))).all())


def _stored(thing):
    """What `pickle` would store, with what it would read from iterators."""
    parts = thing.__reduce_ex__(4)
    if isinstance(parts, str):
        return [parts]
    return [list(part) if hasattr(part, "__next__") else part for part in parts]
