"""Checks of your own methods, rules, splitters, relabelers and engines, as `check_estimator` is for estimators.

Each takes an instance, runs short fits on made rows and raises a `CheckError` at the first promise that is not kept.

=====================  =============================================================================================
check                  of what
=====================  =============================================================================================
`check_algorithm`      a federated method, `fedrela_sk.algorithms.Algorithm`
`check_participation`  a rule of who takes part, `fedrela_sk.participation.Participation`
`check_splitter`       a splitter whose test sets are the clients
`check_relabeler`      an object with `fit(Q, y)` and `relabel(Q, y, uniforms=...)`
`check_engine`         the settings of an engine, `fedrela_sk.training.Engine`
=====================  =============================================================================================
"""

from fedrela_sk.exceptions import CheckError
from fedrela_sk.testing._algorithm import check_algorithm
from fedrela_sk.testing._engine import check_engine
from fedrela_sk.testing._participation import check_participation
from fedrela_sk.testing._relabeler import check_relabeler
from fedrela_sk.testing._splitter import check_splitter

__all__ = [
    "CheckError",
    "check_algorithm",
    "check_engine",
    "check_participation",
    "check_relabeler",
    "check_splitter",
]
