"""How a federated method differs from FedAvg: one paper, one file, one row in `ALGORITHMS`."""

from fedrela_sk.algorithms._base import Algorithm, LocalRun
from fedrela_sk.algorithms._fedavg import FedAvg
from fedrela_sk.algorithms._local_only import LocalOnly

ALGORITHMS = {"fedavg": FedAvg, "local_only": LocalOnly}

__all__ = ["ALGORITHMS", "Algorithm", "FedAvg", "LocalOnly", "LocalRun"]
