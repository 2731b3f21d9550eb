"""How a federated method differs from FedAvg: one paper, one file, one row in `ALGORITHMS`.

Beside the methods there is what authors of others need: the base `Algorithm` with its hooks, the records that hooks
are given and return, and small tools. Ranges of hyper-parameters: `check_at_least`, `check_choice`, `check_flag`,
`check_whole`. Steps of the server: `displacement`, `moved`. Tensors beside the model's: `tagged`, `untagged`.
"""

from fedrela_sk.algorithms._balancefl import BalanceFL
from fedrela_sk.algorithms._base import Algorithm
from fedrela_sk.algorithms._checks import check_at_least, check_choice, check_flag, check_whole
from fedrela_sk.algorithms._climb import CLIMB
from fedrela_sk.algorithms._creff import CReFF
from fedrela_sk.algorithms._displacement import displacement, moved
from fedrela_sk.algorithms._fedavg import FedAvg
from fedrela_sk.algorithms._fedavgm import FedAvgM
from fedrela_sk.algorithms._feddyn import FedDyn
from fedrela_sk.algorithms._fedetf import FedETF
from fedrela_sk.algorithms._fedgrab import FedGraB
from fedrela_sk.algorithms._fedir import FedIR
from fedrela_sk.algorithms._fedlc import FedLC
from fedrela_sk.algorithms._fedlf import FedLF
from fedrela_sk.algorithms._fedloge import FedLoGe
from fedrela_sk.algorithms._fedmix import FedMix
from fedrela_sk.algorithms._fednova import FedNova
from fedrela_sk.algorithms._fednpc import FedNPC
from fedrela_sk.algorithms._fedopt import FedAdagrad, FedAdam, FedYogi
from fedrela_sk.algorithms._fedprox import FedProx
from fedrela_sk.algorithms._fedrod import FedROD
from fedrela_sk.algorithms._fedyoyo import FedYoYo
from fedrela_sk.algorithms._local_only import LocalOnly
from fedrela_sk.algorithms._moon import MOON
from fedrela_sk.algorithms._ratio_loss import RatioLoss
from fedrela_sk.algorithms._records import Broadcast, Job, Local, LocalRun, Query, Recipe, RoundFacts
from fedrela_sk.algorithms._scaffold import SCAFFOLD
from fedrela_sk.algorithms._tags import tagged, untagged

ALGORITHMS = {
    "balancefl": BalanceFL,
    "climb": CLIMB,
    "creff": CReFF,
    "fedadagrad": FedAdagrad,
    "fedadam": FedAdam,
    "fedavg": FedAvg,
    "fedavgm": FedAvgM,
    "feddyn": FedDyn,
    "fedetf": FedETF,
    "fedgrab": FedGraB,
    "fedir": FedIR,
    "fedlc": FedLC,
    "fedlf": FedLF,
    "fedloge": FedLoGe,
    "fedmix": FedMix,
    "fednova": FedNova,
    "fednpc": FedNPC,
    "fedprox": FedProx,
    "fedrod": FedROD,
    "fedyogi": FedYogi,
    "fedyoyo": FedYoYo,
    "local_only": LocalOnly,
    "moon": MOON,
    "ratio_loss": RatioLoss,
    "scaffold": SCAFFOLD,
}

__all__ = [
    "ALGORITHMS",
    "CLIMB",
    "MOON",
    "SCAFFOLD",
    "Algorithm",
    "BalanceFL",
    "Broadcast",
    "CReFF",
    "FedAdagrad",
    "FedAdam",
    "FedAvg",
    "FedAvgM",
    "FedDyn",
    "FedETF",
    "FedGraB",
    "FedIR",
    "FedLC",
    "FedLF",
    "FedLoGe",
    "FedMix",
    "FedNPC",
    "FedNova",
    "FedProx",
    "FedROD",
    "FedYoYo",
    "FedYogi",
    "Job",
    "Local",
    "LocalOnly",
    "LocalRun",
    "Query",
    "RatioLoss",
    "Recipe",
    "RoundFacts",
    "check_at_least",
    "check_choice",
    "check_flag",
    "check_whole",
    "displacement",
    "moved",
    "tagged",
    "untagged",
]
