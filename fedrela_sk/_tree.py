"""Named tensors, a model as ``{name: tensor}``: arithmetic, and checks of what hooks give."""

import torch

from fedrela_sk.exceptions import ClientError


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


def check_like(given, expected, where, extra=False):
    """Refuse tensors by name that are not of the shape and dtype of others.

    Parameters
    ----------
    given, expected : dict of tensors
    where : str
        What gave them, for the error.
    extra : bool
        Whether `given` may hold other names too.

    Raises
    ------
    ClientError
        With the first tensor that is missing, of no place, or of another shape or dtype.
    """
    if not isinstance(given, dict):
        raise ClientError(f"{where} must give a dictionary of tensors by name, got {type(given).__name__}.")
    other = [
        name for name in (*expected, *given) if name not in given or (name not in expected and not extra)
    ]
    if other:
        problem = "lacks" if other[0] in expected else "has no place for"
        raise ClientError(f"{where} gave tensors of other names than the model's: it {problem} {other[0]!r}.")
    for name, tensor in given.items():
        if not isinstance(tensor, torch.Tensor):
            raise ClientError(f"{where} gave {type(tensor).__name__} for {name!r}, expected a tensor.")
        like = expected.get(name, tensor)
        if tensor.shape != like.shape or tensor.dtype != like.dtype:
            raise ClientError(
                f"{where} gave {name!r} with shape {tuple(tensor.shape)} in {tensor.dtype}, expected "
                f"{tuple(like.shape)} in {like.dtype}."
            )


def check_tensors(value, where):
    """`value` itself if it is a dictionary of tensors by name.

    Parameters
    ----------
    value : object
        What a hook returned.
    where : str
        The hook with its class, and the client or the round where there is one.

    Raises
    ------
    ClientError
        With the first thing in it that is no tensor.
    """
    check_like(value, value, where)
    return value


def check_pair(value, where, parts="(tensors, state)"):
    """`value` itself if it is a pair whose second part, a state, is a dictionary of tensors.

    Raises
    ------
    ClientError
        With what it is instead.
    """
    if not isinstance(value, tuple) or len(value) != 2:
        got = f"a tuple of {len(value)}" if isinstance(value, tuple) else type(value).__name__
        raise ClientError(f"{where} must return the pair {parts}, got {got}.")
    check_tensors(value[1], f"{where}, as its second part,")
    return value
