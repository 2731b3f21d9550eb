"""A head that does not learn: class vectors at the corners of a simplex."""

import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from fedrela_sk._typing import Dtype, Tensor
from fedrela_sk.exceptions import NetError


def simplex_etf(n_features: int, n_classes: int, generator: Any = None) -> Tensor:
    """One unit vector per class, every two at the same and largest possible angle (a simplex frame).

    With U of orthonormal columns and Z an orthonormal basis of the vectors that sum to 0, the classes are the
    rows of ``sqrt(C / (C - 1)) Z U^T``: their inner products are -1 / (C - 1), their sum is 0.

    Parameters
    ----------
    n_features : int
    n_classes : int >= 2
    generator : torch.Generator, default=None
        Source of the draws, on the CPU; None is torch's global one.

    Returns
    -------
    vectors : tensor of shape (n_classes, n_features), float64

    Raises
    ------
    NetError
        If there are fewer than ``n_classes - 1`` features: no such vectors exist.
    """
    if n_features < n_classes - 1:
        raise NetError(
            f"{n_classes} class vectors at equal angles need at least {n_classes - 1} features, but the head gets "
            f"{n_features}. Use a wider last hidden layer."
        )
    draws = torch.rand(n_features, n_classes - 1, dtype=torch.float64, generator=generator)
    U, _ = torch.linalg.qr(draws)
    centering = torch.eye(n_classes, dtype=torch.float64) - 1 / n_classes
    Z, _ = torch.linalg.qr(centering[:, :-1])
    return math.sqrt(n_classes / (n_classes - 1)) * Z @ U.T


class ETFHead(nn.Module):
    """Cosines with fixed class vectors of a simplex, perhaps of projected features and times a scale.

    The class vectors are no part of the module's state: they are neither trained, nor sent, nor saved with
    it. The same stream of draws makes the same vectors.

    Parameters
    ----------
    in_features, out_features : int
        Features and classes.
    projection : bool, default=True
        Whether a linear layer maps features to `out_features` numbers first, where any number of features
        will do, and a learned scale, 1 at first, multiplies the cosines. False: the features' own cosines.
    dtype : torch.dtype, default=None
        None is torch's default.

    Attributes
    ----------
    in_features, out_features : int
    projection : nn.Linear or nn.Identity
    scale : parameter of shape () or None
    vectors : tensor of shape (out_features, in_features or out_features)

    Raises
    ------
    NetError
        Without a projection, if there are fewer than ``out_features - 1`` features.

    Examples
    --------
    >>> import torch
    >>> from fedrela_sk.nets import ETFHead
    >>> ETFHead(4, 3)(torch.ones(2, 4)).shape
    torch.Size([2, 3])
    """

    def __init__(
        self, in_features: int, out_features: int, projection: bool = True, dtype: Dtype | None = None
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        dtype = torch.get_default_dtype() if dtype is None else dtype
        width = out_features if projection else in_features
        self.vectors: Tensor
        self.register_buffer("vectors", simplex_etf(width, out_features).to(dtype), persistent=False)
        self.projection = nn.Linear(in_features, width, dtype=dtype) if projection else nn.Identity()
        self.scale = nn.Parameter(torch.ones((), dtype=dtype)) if projection else None

    def forward(self, features: Tensor) -> Any:
        """Shape (rows, out_features), for features of shape (rows, in_features)."""
        cosines = F.normalize(self.projection(features), dim=-1) @ self.vectors.T
        return cosines if self.scale is None else self.scale * cosines
