"""Residual nets for small images (He et al. 2016, arXiv 1512.03385), in the form that is usual for CIFAR."""

from collections import OrderedDict

from torch import nn


class ResidualBlock(nn.Module):
    """relu(F(x) + S(x)), F two convolutions of 3 x 3 with BatchNorm and a ReLU between them.

    S is the identity where the shape stays, else a convolution of 1 x 1 with BatchNorm.

    Parameters
    ----------
    n_in, n_out : int
        Channels.
    stride : int
        Of the first convolution and of S.
    """

    def __init__(self, n_in, n_out, stride):
        super().__init__()
        self.residual = nn.Sequential(
            *_normed_convolution(n_in, n_out, 3, stride), nn.ReLU(), *_normed_convolution(n_out, n_out, 3, 1)
        )
        same = stride == 1 and n_in == n_out
        self.shortcut = (
            nn.Sequential() if same else nn.Sequential(*_normed_convolution(n_in, n_out, 1, stride))
        )
        self.activation = nn.ReLU()

    def forward(self, x):
        """Shape (n, n_out, height / stride, width / stride), rounded up."""
        return self.activation(self.residual(x) + self.shortcut(x))


class ResNet(nn.Sequential):
    """A stem of 3 x 3 with stride 1 and no pooling, stages of residual blocks, a mean over pixels, a linear head.

    Each stage after the first doubles the channels and halves height and width.

    Parameters
    ----------
    depths : sequence of int
        Blocks of each stage.
    n_classes, n_channels, width : int
        As in `ResNet18`.
    """

    def __init__(self, depths, n_classes, n_channels, width):
        stem = nn.Sequential(*_normed_convolution(n_channels, width, 3, 1), nn.ReLU())
        parts, n_in = OrderedDict(stem=stem), width
        for stage, depth in enumerate(depths):
            n_out = width * 2**stage
            strides = [1 if stage == 0 else 2] + [1] * (depth - 1)
            blocks = [ResidualBlock(n_in if i == 0 else n_out, n_out, s) for i, s in enumerate(strides)]
            parts[f"stage{stage + 1}"] = nn.Sequential(*blocks)
            n_in = n_out
        parts |= OrderedDict(pool=nn.AdaptiveAvgPool2d(1), flat=nn.Flatten(), head=nn.Linear(n_in, n_classes))
        super().__init__(parts)


class ResNet8(ResNet):
    """Three stages of one residual block each; returns logits.

    With the default width, the channels are 64, 128 and 256 and there are 1,227,594 parameters for 10 classes:
    the net of the CReFF family of methods. As in all three nets the head is the layer ``head``, the layers start
    as PyTorch initializes them, and BatchNorm keeps a federation out of the stacked engine.

    Parameters
    ----------
    n_classes : int, default=10
        Columns of the logits.
    n_channels : int, default=3
        Channels of an image; X has shape (n, n_channels, height, width), of any height and width.
    width : int, default=64
        Channels of the stem and of the first stage.

    Examples
    --------
    >>> import torch
    >>> from fedrela_sk.nets import ResNet8
    >>> ResNet8(n_classes=7, width=4)(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 7])
    """

    def __init__(self, n_classes: int = 10, n_channels: int = 3, width: int = 64) -> None:
        super().__init__((1, 1, 1), n_classes, n_channels, width)


class ResNet18(ResNet):
    """Four stages of two residual blocks each; returns logits.

    With the default width, the channels are 64, 128, 256 and 512, and there are 11,168,832 parameters before
    the head.

    Parameters
    ----------
    n_classes : int, default=10
    n_channels : int, default=3
    width : int, default=64
        All as in `ResNet8`.
    """

    def __init__(self, n_classes: int = 10, n_channels: int = 3, width: int = 64) -> None:
        super().__init__((2, 2, 2, 2), n_classes, n_channels, width)


class ResNet34(ResNet):
    """Four stages of 3, 4, 6 and 3 residual blocks; returns logits.

    With the default width, the channels are 64, 128, 256 and 512, and there are 21,276,992 parameters before
    the head.

    Parameters
    ----------
    n_classes : int, default=100
    n_channels : int, default=3
    width : int, default=64
        All as in `ResNet8`.
    """

    def __init__(self, n_classes: int = 100, n_channels: int = 3, width: int = 64) -> None:
        super().__init__((3, 4, 6, 3), n_classes, n_channels, width)


def _normed_convolution(n_in, n_out, size, stride):
    """A convolution that keeps height and width at stride 1, and BatchNorm, whose shift makes a bias superfluous."""
    convolution = nn.Conv2d(n_in, n_out, size, stride=stride, padding=size // 2, bias=False)
    return convolution, nn.BatchNorm2d(n_out)
