"""How a federated method differs from FedAvg: one paper, one file, one row in `ALGORITHMS`."""

from fedrela_sk.algorithms._base import Algorithm, Job, Local, LocalRun, Recipe, RoundFacts
from fedrela_sk.algorithms._fedavg import FedAvg
from fedrela_sk.algorithms._fedir import FedIR
from fedrela_sk.algorithms._fedlc import FedLC
from fedrela_sk.algorithms._fedprox import FedProx
from fedrela_sk.algorithms._fedrod import FedROD
from fedrela_sk.algorithms._local_only import LocalOnly

ALGORITHMS = {
    "fedavg": FedAvg,
    "fedir": FedIR,
    "fedlc": FedLC,
    "fedprox": FedProx,
    "fedrod": FedROD,
    "local_only": LocalOnly,
}

__all__ = [
    "ALGORITHMS",
    "Algorithm",
    "FedAvg",
    "FedIR",
    "FedLC",
    "FedProx",
    "FedROD",
    "Job",
    "Local",
    "LocalOnly",
    "LocalRun",
    "Recipe",
    "RoundFacts",
]
