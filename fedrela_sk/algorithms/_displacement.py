"""What the server does with the mean displacement of the round's clients, in float64."""

from typing import Any

import torch

from fedrela_sk._typing import Tensors


def displacement(params: Tensors, aggregated: Tensors, trainable: Any) -> Any:
    """Mean displacement of the parameters that learn, ``{name: float64 tensor}``.

    Parameters
    ----------
    params : dict of tensors
        The global model that the clients received.
    aggregated : dict of tensors
        The mean of their models.
    trainable : iterable of str
    """
    return {name: aggregated[name].to(torch.float64) - params[name].to(torch.float64) for name in trainable}


def moved(params: Tensors, aggregated: Tensors, steps: Any) -> Tensors:
    """The new global model: parameters in `steps` move by them, all other tensors are the mean.

    Parameters
    ----------
    params, aggregated : dict of tensors
        As in `displacement`.
    steps : dict of float64 tensors

    Returns
    -------
    params : dict of tensors
        Each in its own dtype.
    """
    new = {
        name: (params[name].to(torch.float64) + step).to(params[name].dtype) for name, step in steps.items()
    }
    return {name: new.get(name, aggregated.get(name, tensor)) for name, tensor in params.items()}


def zeros(params, trainable):
    """A float64 zero for every parameter that learns."""
    return {name: torch.zeros_like(params[name], dtype=torch.float64) for name in trainable}
