"""Marks the layers that change the data in training, so that a pass can switch them on or off."""

from torch import nn


class Augmentation(nn.Module):
    """Base of layers that augment inputs while ``self.training`` and pass them through otherwise.

    `FederatedClassifier(relabel_posteriors={"augment": ...})` decides about layers of this class alone
    whether they augment while posteriors are collected, whatever mode the other layers are in.
    """
