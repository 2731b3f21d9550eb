"""Torch criteria for rare classes, each a child of `CrossEntropyLoss`; `docs/losses.md` compares them."""

from fedrela_sk.losses._adjust import adjust_posteriors
from fedrela_sk.losses._balanced_softmax import BalancedSoftmaxLoss
from fedrela_sk.losses._base import PriorLoss
from fedrela_sk.losses._class_balanced import ClassBalancedLoss
from fedrela_sk.losses._equalization import EqualizationLoss
from fedrela_sk.losses._fedlc import FedLCLoss
from fedrela_sk.losses._focal import FocalLoss
from fedrela_sk.losses._ldam import LDAMLoss
from fedrela_sk.losses._logit_adjusted import LogitAdjustedLoss
from fedrela_sk.losses._progress import Progress

__all__ = [
    "BalancedSoftmaxLoss",
    "ClassBalancedLoss",
    "EqualizationLoss",
    "FedLCLoss",
    "FocalLoss",
    "LDAMLoss",
    "LogitAdjustedLoss",
    "PriorLoss",
    "Progress",
    "adjust_posteriors",
]
