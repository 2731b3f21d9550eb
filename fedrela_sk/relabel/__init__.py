"""FedReLa proper: priors, z-scores, thresholds, rho, draw and expectation; relabeler, sampler, classifier."""

import importlib

from fedrela_sk.relabel._relabeler import FedReLaRelabeler
from fedrela_sk.relabel._report import RelabelReport

__all__ = ["FedReLaRelabeler", "FedReLaSampler", "RelabelReport", "RelabelingClassifier"]

_LATER = {"FedReLaSampler": "_sampler", "RelabelingClassifier": "_classifier"}


def __getattr__(name):
    if name in _LATER:
        return getattr(importlib.import_module(f"fedrela_sk.relabel.{_LATER[name]}"), name)
    raise AttributeError(f"module 'fedrela_sk.relabel' has no attribute {name!r}")
