"""The weighted mean of the clients' tensors, which takes one update at a time."""

import math
from typing import Any

import torch

from fedrela_sk._typing import Array, Tensors


class WeightedMean:
    """sum_k w_k theta_k / sum_k w_k over the updates added so far.

    Floating tensors are summed in float64 in the order in which updates are added and cast back at the
    end; integer tensors (BatchNorm's batch counter) take the maximum. Memory is one float64 model,
    however many updates are added.

    Examples
    --------
    >>> import torch
    >>> from fedrela_sk.aggregation import WeightedMean
    >>> mean = WeightedMean()
    >>> mean.add({"w": torch.tensor([0.0])}, weight=1)
    >>> mean.add({"w": torch.tensor([4.0])}, weight=3)
    >>> mean.result()
    {'w': tensor([3.])}
    """

    def __init__(self) -> None:
        self.total_weight = 0.0
        self._sums: Tensors = {}
        self._dtypes: dict[str, Any] = {}
        self._shapes: dict[str, Any] = {}

    def add(self, tensors: Tensors, weight: float) -> None:
        """Add one update.

        Parameters
        ----------
        tensors : dict of tensors
        weight : float >= 0

        Raises
        ------
        ValueError
            If the weight is negative or not finite, or if other updates held other tensors.
        """
        self._check(tensors, weight)
        self._check_shapes({name: tensor.shape for name, tensor in tensors.items()})
        self.total_weight += weight
        for name, tensor in tensors.items():
            if not tensor.is_floating_point():
                known = self._sums.get(name)
                self._sums[name] = tensor.clone() if known is None else torch.maximum(known, tensor)
                continue
            share = tensor.to(torch.float64, copy=True).mul_(weight)
            known = self._sums.get(name)
            self._sums[name] = share if known is None else known.add_(share)
            self._dtypes[name] = tensor.dtype

    def add_stack(self, stacks: Tensors, weights: Array) -> None:
        """Fold the updates of several clients in, in the order of their leading axis.

        Parameters
        ----------
        stacks : dict of tensors of shape (n_clients, ...)
        weights : ndarray of shape (n_clients,), float64, >= 0

        Raises
        ------
        ValueError
            As in `add`.
        """
        for weight in weights.tolist():
            self._check(stacks, weight)
        self._check_shapes({name: stack.shape[1:] for name, stack in stacks.items()})
        self.total_weight += float(weights.sum())
        factors = torch.from_numpy(weights)
        for name, stack in stacks.items():
            known = self._sums.get(name)
            if not stack.is_floating_point():
                largest = stack.amax(0)
                self._sums[name] = largest if known is None else torch.maximum(known, largest)
                continue
            share = torch.tensordot(factors.to(stack.device), stack.to(torch.float64), dims=1)
            self._sums[name] = share if known is None else known.add_(share)
            self._dtypes[name] = stack.dtype

    def _check(self, tensors, weight):
        """Refuse what has no place in a mean, before anything of it is added."""
        if not 0 <= weight < math.inf:
            raise ValueError(
                f"An update's weight must be finite and >= 0, got {weight}. Check client_weight."
            )
        if self._sums and tensors.keys() != self._sums.keys():
            name = min(tensors.keys() ^ self._sums.keys())
            raise ValueError(
                f"All updates must hold the same tensors, but {name!r} is in some of them only. "
                "Send it from every client, or from none."
            )

    def _check_shapes(self, shapes):
        """Refuse tensors of another shape than those of earlier updates, which would be broadcast."""
        for name, shape in shapes.items():
            if self._shapes.setdefault(name, shape) != shape:
                raise ValueError(
                    f"All updates must hold tensors of one shape, but {name!r} came as "
                    f"{tuple(self._shapes[name])} and as {tuple(shape)}."
                )

    def result(self) -> Any:
        """The mean, each tensor in the dtype in which it came.

        Raises
        ------
        ValueError
            If the weights of all updates sum to zero.
        """
        if self.total_weight == 0:
            raise ValueError(
                "The weights of the updates sum to 0, so they have no mean. "
                "Check client_weight and sample_weight of the clients that took part."
            )
        return {
            name: (total / self.total_weight).to(self._dtypes[name]) if name in self._dtypes else total
            for name, total in self._sums.items()
        }
