"""Torch modules to wrap in skorch."""

from fedrela_sk.nets._augmentation import Augmentation
from fedrela_sk.nets._mlp import MLP

__all__ = ["MLP", "Augmentation"]
