"""Imbalanced (federated) classification by re-labelling: FedReLa for scikit-learn.

Public names load on first use, so ``import fedrela_sk`` does no work and does not import torch.
"""

import importlib

from fedrela_sk._version import __version__

# public name -> the room that defines it
_NAMES = {
    "FedReLaRelabeler": "relabel",
    "FedReLaSampler": "relabel",
    "RelabelingClassifier": "relabel",
    "FederatedClassifier": "federation",
    "load_model": "federation",
    "save_model": "federation",
    "DirichletSplit": "splitters",
    "QuantitySkewSplit": "splitters",
    "ShardSplit": "splitters",
    "make_long_tailed": "imbalance",
    "make_step_wise": "imbalance",
}

_ROOMS = (
    "algorithms",
    "aggregation",
    "datasets",
    "exceptions",
    "federation",
    "imbalance",
    "local_data",
    "losses",
    "metrics",
    "nets",
    "participation",
    "plots",
    "relabel",
    "report",
    "splitters",
    "testing",
    "training",
)

__all__ = ["__version__", *_NAMES, *_ROOMS]


def __getattr__(name):
    if name in _NAMES:
        return getattr(importlib.import_module(f"fedrela_sk.{_NAMES[name]}"), name)
    if name in _ROOMS:
        return importlib.import_module(f"fedrela_sk.{name}")
    raise AttributeError(f"module 'fedrela_sk' has no attribute {name!r}")


def __dir__():
    return sorted(__all__)
