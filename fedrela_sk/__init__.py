"""Imbalanced (federated) classification by re-labeling: FedReLa for scikit-learn.

Public names load on first use, so ``import fedrela_sk`` does no work and does not import torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

from fedrela_sk._version import __version__

if TYPE_CHECKING:  # what `__getattr__` loads, for editors and type checkers
    from fedrela_sk import (
        aggregation,
        algorithms,
        datasets,
        exceptions,
        federation,
        imbalance,
        local_data,
        losses,
        metrics,
        nets,
        participation,
        plots,
        relabel,
        report,
        splitters,
        testing,
        training,
    )
    from fedrela_sk.federation import FederatedClassifier, load_model, save_model
    from fedrela_sk.imbalance import make_long_tailed, make_step_wise
    from fedrela_sk.relabel import FedReLaRelabeler, FedReLaSampler, RelabelingClassifier
    from fedrela_sk.splitters import DirichletSplit, QuantitySkewSplit, ShardSplit

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

__all__ = [
    "DirichletSplit",
    "FedReLaRelabeler",
    "FedReLaSampler",
    "FederatedClassifier",
    "QuantitySkewSplit",
    "RelabelingClassifier",
    "ShardSplit",
    "__version__",
    "aggregation",
    "algorithms",
    "datasets",
    "exceptions",
    "federation",
    "imbalance",
    "load_model",
    "local_data",
    "losses",
    "make_long_tailed",
    "make_step_wise",
    "metrics",
    "nets",
    "participation",
    "plots",
    "relabel",
    "report",
    "save_model",
    "splitters",
    "testing",
    "training",
]


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(importlib.import_module(f"fedrela_sk.{_NAMES[name]}"), name)
    if name in _ROOMS:
        return importlib.import_module(f"fedrela_sk.{name}")
    raise AttributeError(f"module 'fedrela_sk' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
