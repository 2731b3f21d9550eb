"""The nets of the settings files, and the skorch net around them."""

import numpy as np
import torch
from skorch import NeuralNetClassifier
from torch import nn

from fedrela_sk.losses import BalancedSoftmaxLoss
from fedrela_sk.nets import RandomCropFlip, ResNet8, ResNet18, ResNet34, SmallCNN


def _small_cnn(net, shape, n_classes):
    return SmallCNN(shape, n_classes, widths=tuple(net["widths"]), hidden=net["hidden"])


def _resnet8(net, shape, n_classes):
    return ResNet8(n_classes, shape[0], net.get("width", 64))


def _resnet18(net, shape, n_classes):
    return ResNet18(n_classes, shape[0])


def _resnet34(net, shape, n_classes):
    return ResNet34(n_classes, shape[0])


# named functions: `memory` has no stable description of a lambda
NETS = {"small_cnn": _small_cnn, "resnet8": _resnet8, "resnet18": _resnet18, "resnet34": _resnet34}
CRITERIA = {"cross_entropy": nn.CrossEntropyLoss, "balanced_softmax": BalancedSoftmaxLoss}


class SettingsNet(nn.Sequential):
    """A net of `NETS`, behind a random crop and flip of each image where the settings ask for it.

    Parameters
    ----------
    net : dict
        The section "net" of a settings file.
    shape : tuple of int
        (channels, height, width).
    n_classes : int
    """

    def __init__(self, net, shape, n_classes):
        layers = [NETS[net["kind"]](net, shape, n_classes)]
        super().__init__(*([RandomCropFlip()] if net.get("augment") else []), *layers)


def make_net(net, data, criterion=None):
    """The skorch net of every client.

    Parameters
    ----------
    net : dict
        The section "net" of a settings file.
    data : Images
    criterion : dict, optional
        `name`, a key of `CRITERIA`, and parameters of the loss; the cross-entropy by default.
    """
    criterion = {"name": "cross_entropy"} | (criterion or {})
    return NeuralNetClassifier(
        SettingsNet,
        module__net=net,
        module__shape=data.X.shape[1:],
        module__n_classes=len(np.unique(data.y)),
        criterion=CRITERIA[criterion["name"]],
        **{f"criterion__{name}": value for name, value in criterion.items() if name != "name"},
        optimizer=torch.optim.SGD,
        optimizer__momentum=net["momentum"],
        optimizer__weight_decay=net["weight_decay"],
        lr=net["lr"],
        batch_size=net["batch_size"],
        max_epochs=net["epochs"],
        iterator_train__shuffle=True,
        device="cuda" if torch.cuda.is_available() else "cpu",
    )
