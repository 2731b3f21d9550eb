"""What hooks of a method return has the names and shapes that it should: torch would broadcast most other ones."""

import torch

from fedrela_sk.exceptions import ClientError, NetError


def check_update(algorithm, tensors, received, shared, stacked=False):
    """Refuse an update that is none of the model that a client received.

    Parameters
    ----------
    algorithm : Algorithm
        Whose `finish` gave it.
    tensors : dict of tensors
        What `finish` returned first; with `stacked` each has a leading client axis.
    received : dict of tensors
        The client's model before it trained.
    shared : collection of str
        Names of those that travel.
    stacked : bool
        Whether both have a leading client axis.

    Raises
    ------
    ClientError
        With the tensor, what it is and what it should be.
    """
    kind = type(algorithm).__name__
    check_tensors(
        tensors, {name: received[name] for name in received if name in tensors}, f"{kind}.finish", extra=True
    )
    missing = [name for name in received if name not in tensors]
    stays = [name for name in missing if name not in shared]
    if stays:
        raise ClientError(
            f"{kind}.finish left out {stays[0]!r}, which stays at the client. Return it unchanged."
        )
    if shared and not any(name in shared or name not in received for name in tensors):
        raise ClientError(
            f"{kind}.finish sends nothing, although the method shares {sorted(shared)[0]!r} and others. Return the "
            "tensors, or name none of them in `shared`."
        )
    if missing and not (algorithm.uses("server_step") or algorithm.uses("server_aggregator")):
        raise ClientError(
            f"{kind}.finish left out {missing[0]!r}, which would stay as it was at the server. Return it, or write a "
            "`step` that makes it from what is sent."
        )


def check_frozen(frozen, tensors, received):
    """Refuse that a parameter moved which does not learn: it travels once, not in every round.

    Parameters
    ----------
    frozen : set of str
        Names of the parameters that did not learn before round 0.
    tensors, received : dict of tensors
        The client's model after and before it trained.

    Raises
    ------
    ClientError
        With the first such parameter.
    """
    for name in frozen & tensors.keys():
        if not torch.equal(tensors[name], received[name]):
            raise ClientError(
                f"parameter {name!r} did not learn before round 0 (requires_grad is False) and has moved. Let it "
                "learn from the start, and freeze it for a while by a callback."
            )


def check_tensors(given, expected, where, extra=False):
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


def check_shape(tensor, expected, where):
    """Refuse what a hook returned for a batch if it is not of the expected shape; returns it.

    Raises
    ------
    NetError
        With both shapes.
    """
    shape = tuple(getattr(tensor, "shape", ()))
    if shape != tuple(expected):
        raise NetError(f"{where} must give shape {tuple(expected)}, got {shape}.")
    return tensor
