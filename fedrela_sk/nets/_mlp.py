"""The multilayer perceptron that `FederatedClassifier` sizes when no net is given."""

from torch import nn


class MLP(nn.Sequential):
    """Linear layers with ReLU between them; returns logits.

    Parameters
    ----------
    n_features : int
        Columns of X.
    n_classes : int
        Columns of the logits.
    hidden : tuple of int, default=(64, 32)
        Width of each hidden layer; empty for multinomial logistic regression.
    dropout : float in [0, 1), default=0.0
        Share of hidden units dropped after each activation in training.

    Examples
    --------
    >>> import torch
    >>> from fedrela_sk.nets import MLP
    >>> MLP(n_features=3, n_classes=2)(torch.zeros(5, 3)).shape
    torch.Size([5, 2])
    """

    def __init__(
        self, n_features: int, n_classes: int, hidden: tuple[int, ...] = (64, 32), dropout: float = 0.0
    ) -> None:
        layers, width = [], n_features
        for units in hidden:
            layers += [nn.Linear(width, units), nn.ReLU()]
            if dropout:
                layers.append(nn.Dropout(dropout))
            width = units
        super().__init__(*layers, nn.Linear(width, n_classes))
