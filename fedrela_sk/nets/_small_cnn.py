"""A small convolutional net for images of few pixels."""

from torch import nn


class SmallCNN(nn.Sequential):
    """Convolutions with stride 2, one hidden linear layer and a linear head; returns logits.

    The first convolution has windows of 5 x 5 pixels, the others of 3 x 3. Each halves height and width,
    rounded up, so no pooling is needed. Activations are ReLU; there is neither BatchNorm nor Dropout.

    Parameters
    ----------
    image_shape : tuple of int, default=(1, 28, 28)
        (channels, height, width) of an image; X has shape (n, channels, height, width).
    n_classes : int, default=10
        Columns of the logits.
    widths : tuple of int, default=(8, 16)
        Channels after each convolution.
    hidden : int, default=64
        Width of the hidden linear layer.

    Examples
    --------
    >>> import torch
    >>> from fedrela_sk.nets import SmallCNN
    >>> SmallCNN(image_shape=(3, 32, 32), n_classes=7)(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 7])
    """

    def __init__(
        self,
        image_shape: tuple[int, ...] = (1, 28, 28),
        n_classes: int = 10,
        widths: tuple[int, ...] = (8, 16),
        hidden: int = 64,
    ) -> None:
        channels, height, width = image_shape
        layers, kernel = [], 5
        for filters in widths:
            layers += [nn.Conv2d(channels, filters, kernel, stride=2, padding=kernel // 2), nn.ReLU()]
            channels, height, width, kernel = filters, -(-height // 2), -(-width // 2), 3
        layers += [nn.Flatten(), nn.Linear(channels * height * width, hidden), nn.ReLU()]
        super().__init__(*layers, nn.Linear(hidden, n_classes))
