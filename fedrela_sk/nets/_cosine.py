"""A head that returns cosines."""

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from fedrela_sk._typing import Tensor


class CosineLinear(nn.Module):
    """Cosines between features and one vector per class; the head that `fedrela_sk.losses.LDAMLoss` needs.

    Features and class vectors are divided by their lengths, so only directions count. There is no bias. A row
    of zeros has cosine 0 to every class.

    Parameters
    ----------
    in_features : int
    out_features : int
        Classes.

    Attributes
    ----------
    in_features, out_features : int
    weight : parameter of shape (out_features, in_features)
        Begins with independent, uniformly distributed directions of length 1.

    Examples
    --------
    >>> import torch
    >>> from fedrela_sk.nets import CosineLinear
    >>> CosineLinear(3, 2)(torch.ones(5, 3)).shape
    torch.Size([5, 2])
    """

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = nn.Parameter(F.normalize(torch.randn(out_features, in_features), dim=1))

    def forward(self, features: Tensor) -> Any:
        """Cosines, shape (rows, out_features), for features of shape (rows, in_features)."""
        return F.linear(F.normalize(features, dim=-1), F.normalize(self.weight, dim=-1))
