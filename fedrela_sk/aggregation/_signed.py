"""A mean over updates whose weights may be negative."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from fedrela_sk._typing import Array, Tensors
from fedrela_sk.aggregation._mean import WeightedMean


class SignedMean:
    """(1 / n) sum_k w_k x_k for some tensors, the plain mean (1 / n) sum_k x_k for all others.

    Weights are not normalized: n counts updates. They may be negative, which a weighted mean of models could
    not bear (BatchNorm's variances would turn negative); so only tensors that are asked for feel them.

    Parameters
    ----------
    signed : sequence of str
        Names of the tensors that feel the weights.

    Examples
    --------
    >>> import torch
    >>> from fedrela_sk.aggregation import SignedMean
    >>> mean = SignedMean(["step"])
    >>> mean.add({"step": torch.tensor([4.0]), "var": torch.tensor([2.0])}, weight=-0.5)
    >>> mean.add({"step": torch.tensor([2.0]), "var": torch.tensor([4.0])}, weight=2.5)
    >>> mean.result()
    {'step': tensor([1.5000], dtype=torch.float64), 'var': tensor([3.])}
    """

    def __init__(self, signed: Sequence[str]) -> None:
        self.signed = tuple(signed)
        self._mean = WeightedMean()

    def add(self, tensors: Tensors, weight: float) -> None:
        """Fold one update in.

        Parameters
        ----------
        tensors : dict of tensors
        weight : float

        Raises
        ------
        ValueError
            If the weight is not finite, or if other updates held other tensors.
        """
        if not math.isfinite(weight):
            raise ValueError(f"An update's weight must be finite, got {weight}.")
        scaled = {name: tensors[name].to(torch.float64) * weight for name in self.signed}
        self._mean.add(tensors | scaled, 1.0)

    def add_stack(self, stacks: Tensors, weights: Array) -> None:
        """Fold the updates of several clients in, in the order of their leading axis.

        Parameters
        ----------
        stacks : dict of tensors of shape (n_clients, ...)
        weights : ndarray of shape (n_clients,), float64

        Raises
        ------
        ValueError
            As in `add`.
        """
        bad = weights[~np.isfinite(weights)]
        if len(bad):
            raise ValueError(f"An update's weight must be finite, got {bad[0]}.")
        scaled = {}
        for name in self.signed:
            stack = stacks[name].to(torch.float64)
            factors = torch.from_numpy(weights).to(stack.device)
            scaled[name] = stack * factors.reshape(-1, *[1] * (stack.ndim - 1))
        self._mean.add_stack(stacks | scaled, np.ones(len(weights)))

    def result(self) -> Any:
        """The means: of `signed` in float64, of other tensors as `WeightedMean` gives them.

        Raises
        ------
        ValueError
            If there was no update.
        """
        return self._mean.result()
