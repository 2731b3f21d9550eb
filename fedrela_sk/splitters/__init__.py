"""Who holds what: splitters whose *test* sets are the clients of a federation.

Each class is a scikit-learn splitter (`split`, `get_n_splits`) and has parameters like an estimator
(`get_params`, `set_params`, `clone`), so ``clients__alpha`` can be searched over. All of them keep the same
promises, each one a test:

- every row is in exactly one test set, and every test set is in ascending order;
- a test set is never empty: clients without rows are left out and counted in `n_empty_`;
- the values in X never matter, nor do the names of the classes;
- an integer `random_state` gives the same clients at every call;
- one pass: never a loop that draws again until the sizes please, at any `alpha` and number of clients;
- what cannot be done (`min_rows * n_splits` above the number of rows) is a `PartitionError`.
"""

from fedrela_sk.splitters._dirichlet import DirichletSplit
from fedrela_sk.splitters._quantity import QuantitySkewSplit
from fedrela_sk.splitters._shards import ShardSplit

__all__ = ["DirichletSplit", "QuantitySkewSplit", "ShardSplit"]
