"""Layers that change the data in training: their mark, so that a pass can switch them, and random crops and flips."""

from numbers import Integral
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from fedrela_sk.exceptions import NetError


class Augmentation(nn.Module):
    """Base of layers that augment inputs while ``self.training`` and pass them through otherwise.

    `FederatedClassifier(relabel_posteriors={"augment": ...})` decides about layers of this class alone
    whether they augment while posteriors are collected, whatever mode the other layers are in.
    """


class RandomCropFlip(Augmentation):
    """Each image of a batch is padded, cut back to its size at a random place, and mirrored in half of the cases.

    Every image has a place and a flip of its own. All of it runs on the device of the batch. Put it first in a
    net: ``nn.Sequential(RandomCropFlip(), ResNet8())``. The draws come from torch's generator of that device,
    which a federation seeds for each client and round: one seed gives one result under any `n_jobs`, but a GPU
    draws other numbers than a CPU. The stacked engine refuses a net whose output depends on chance; the loop
    engine, which "auto" then takes, runs it.

    Parameters
    ----------
    padding : int >= 0, default=4
        Pixels added at each side, so that there are ``(2 padding + 1)^2`` places.
    flip : bool, default=True
        Whether left and right are swapped with probability 1/2.
    fill : float, default=0.0
        Value of the added pixels. Where X is standardized before it reaches the net, 0 is the mean color.

    Raises
    ------
    NetError
        If `padding` is no whole number >= 0, or a batch is not of shape (n, channels, height, width).

    Examples
    --------
    >>> import torch
    >>> from fedrela_sk.nets import RandomCropFlip
    >>> augment = RandomCropFlip(padding=1)
    >>> augment(torch.ones(2, 3, 8, 8)).shape
    torch.Size([2, 3, 8, 8])
    >>> torch.equal(augment.eval()(torch.ones(2, 3, 8, 8)), torch.ones(2, 3, 8, 8))
    True
    """

    padding: int
    flip: bool
    fill: float

    def __init__(self, padding: int = 4, flip: bool = True, fill: float = 0.0) -> None:
        super().__init__()
        if isinstance(padding, bool) or not isinstance(padding, Integral) or padding < 0:
            raise NetError(f"padding must be a whole number of pixels >= 0, got {padding!r}.")
        self.padding = padding
        self.flip = flip
        self.fill = fill

    def forward(self, X: Any) -> Any:
        """Images of shape (n, channels, height, width), as they came in evaluation mode."""
        if X.ndim != 4:
            raise NetError(
                f"RandomCropFlip takes images of shape (n, channels, height, width), got {tuple(X.shape)}. Reshape X."
            )
        if not self.training:
            return X
        n, channels, height, width = X.shape
        rows = self._start(X) + torch.arange(height, device=X.device)
        columns = self._start(X) + torch.arange(width, device=X.device)
        if self.flip:
            flipped = torch.rand(n, 1, device=X.device) < 0.5
            columns = torch.where(flipped, columns.flip(1), columns)
        padded = F.pad(X, [self.padding] * 4, value=self.fill)
        places = rows[:, :, None] * padded.shape[3] + columns[:, None, :]
        picked = padded.flatten(2).gather(2, places.flatten(1)[:, None].expand(-1, channels, -1))
        return torch.empty_like(X).copy_(picked.view(n, channels, height, width))  # in the memory layout of X

    def _start(self, X):
        """The first row (or column) of every image's crop, shape (n, 1)."""
        return torch.randint(2 * self.padding + 1, (len(X), 1), device=X.device)

    def extra_repr(self) -> Any:
        return f"padding={self.padding}, flip={self.flip}, fill={self.fill}"
