"""A fixed classifier that looks at few features: a simplex with most entries zero, bent back to equal angles."""

from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import nn

from fedrela_sk._typing import Dtype, Tensor
from fedrela_sk.exceptions import NetError
from fedrela_sk.nets._etf import simplex_etf

# cosines are cut to this before their angle is taken, as in the authors' code of FedLoGe
_LARGEST_COSINE = 0.99999


class SparseETF(nn.Module):
    """The static classifier of FedLoGe, logits W h + b with W and b that never change.

    W starts as a simplex (`simplex_etf`). Exactly ``floor(sparsity x in_features x out_features)`` entries
    become zero; the others take steps of Adam on ``sum_c (||w_c|| - norm)^2 - mean_c angle_c``, angle_c
    between class c and its nearest class, and zeros stay zero; for a norm above 1 they are taken at length 1, and the
    result is scaled. Two classes without a common entry stay at a
    right angle, which happens where features are few: in about one of 11 draws for 10 classes and 32 features,
    never for hundreds. b is drawn like that of `nn.Linear`, as in the authors' code, where nothing ever
    trains it.

    Parameters
    ----------
    in_features, out_features : int
    sparsity : float in [0, 1), default=0.6
    norm : float > 0, default=0.1
        Length of every row of W.
    n_steps : int, default=10000
    lr : float, default=1e-4
    bias : bool, default=True
    dtype : torch.dtype, default=None
        None is torch's default.

    Attributes
    ----------
    weight : tensor of shape (out_features, in_features)
    bias : tensor of shape (out_features,) or None
        Neither is part of the module's state; the same stream of draws makes them again.

    Raises
    ------
    NetError
        If there are fewer than ``out_features - 1`` features, or too few entries for one in each row.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        sparsity: float = 0.6,
        norm: float = 0.1,
        n_steps: int = 10_000,
        *,
        lr: float = 1e-4,
        bias: bool = True,
        dtype: Dtype | None = None,
    ) -> None:
        super().__init__()
        dtype = torch.get_default_dtype() if dtype is None else dtype
        start = simplex_etf(in_features, out_features).numpy()
        start *= surviving_entries(out_features, in_features, sparsity)
        W = _spread_out_once(start.tobytes(), start.shape, norm, n_steps, lr).copy()
        b = (2 * torch.rand(out_features, dtype=torch.float64) - 1) / in_features**0.5
        self.weight: Tensor
        self.bias: Tensor | None
        self.register_buffer("weight", torch.from_numpy(W).to(dtype), persistent=False)
        self.register_buffer("bias", b.to(dtype) if bias else None, persistent=False)

    def forward(self, features: Tensor) -> Any:
        """Logits, shape (rows, out_features)."""
        return nn.functional.linear(features, self.weight, self.bias)


def surviving_entries(n_rows, n_columns, sparsity):
    """Which entries stay, a boolean ndarray: a uniform draw from torch's generator, no row left empty.

    A row that the draw leaves empty gets back its entry in a column of the fullest row, which loses it.

    Raises
    ------
    NetError
        If fewer entries stay than there are rows.
    """
    size = n_rows * n_columns
    n_zeros = int(sparsity * size)
    if size - n_zeros < n_rows:
        raise NetError(
            f"sparsity={sparsity} leaves {size - n_zeros} of {n_rows} x {n_columns} entries, fewer than one per "
            "class. Use a smaller sparsity or a wider last hidden layer."
        )
    stays = np.ones(size, dtype=bool)
    stays[torch.randperm(size)[:n_zeros].numpy()] = False
    stays = stays.reshape(n_rows, n_columns)
    for row in np.flatnonzero(~stays.any(1)):
        fullest = stays.sum(1).argmax()
        column = np.flatnonzero(stays[fullest])[0]
        stays[row, column], stays[fullest, column] = True, False
    return stays


@lru_cache(maxsize=8)
def _spread_out_once(start, shape, norm, n_steps, lr):
    """`spread_out` of an array given as bytes: a search fits from the same start again and again."""
    scale = max(norm, 1.0)  # steps have a length of their own: long rows would not turn far enough
    return scale * spread_out(np.frombuffer(start).reshape(shape), norm / scale, n_steps, lr)


def spread_out(W, norm, n_steps, lr):
    """Rows of equal length and large angles to their nearest row, by steps of Adam; zeros stay zero.

    Parameters
    ----------
    W : ndarray of shape (n_rows, n_columns), float64
    norm : float
    n_steps : int
    lr : float

    Returns
    -------
    W : ndarray of the same shape
    """
    W, alive = W.copy(), W != 0
    first, second = np.zeros_like(W), np.zeros_like(W)
    for step in range(1, n_steps + 1):
        gradient = spread_gradient(W, norm) * alive
        first += 0.1 * (gradient - first)
        second += 0.001 * (gradient * gradient - second)
        rate = lr / (1 - 0.9**step)
        W -= rate * first / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
    return W


def spread_gradient(W, norm):
    """Gradient of ``sum_c (||w_c|| - norm)^2 - mean_c arccos(max over c' != c of cos(w_c, w_c'))``."""
    rows = np.arange(len(W))
    lengths = np.sqrt((W * W).sum(1))[:, None]
    units = W / lengths
    cosines = units @ units.T
    cosines[rows, rows] = -np.inf
    nearest = cosines.argmax(1)
    largest = cosines[rows, nearest]
    inside = np.abs(largest) < _LARGEST_COSINE
    slope = np.where(inside, 1 / np.sqrt(1 - np.where(inside, largest, 0.0) ** 2), 0.0) / len(W)
    pull = np.zeros_like(cosines)
    pull[rows, nearest] = slope
    pull += pull.T
    towards = pull @ units
    across = towards - units * (units * towards).sum(1)[:, None]
    return across / lengths + 2 * (lengths - norm) * units
