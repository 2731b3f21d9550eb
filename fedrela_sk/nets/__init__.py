"""Torch modules to wrap in skorch; finding and swapping a classifier head."""

from fedrela_sk.nets._augmentation import Augmentation, RandomCropFlip
from fedrela_sk.nets._cosine import CosineLinear
from fedrela_sk.nets._etf import ETFHead, simplex_etf
from fedrela_sk.nets._head import (
    MultiHead,
    find_head,
    forward_with_features,
    linear_head,
    mark_head,
    swap_head,
)
from fedrela_sk.nets._mlp import MLP
from fedrela_sk.nets._resnet import ResNet8, ResNet18, ResNet34
from fedrela_sk.nets._small_cnn import SmallCNN
from fedrela_sk.nets._sparse_etf import SparseETF

__all__ = [
    "MLP",
    "Augmentation",
    "CosineLinear",
    "ETFHead",
    "MultiHead",
    "RandomCropFlip",
    "ResNet8",
    "ResNet18",
    "ResNet34",
    "SmallCNN",
    "SparseETF",
    "find_head",
    "forward_with_features",
    "linear_head",
    "mark_head",
    "simplex_etf",
    "swap_head",
]
