"""Label skew: rows sorted by class are cut into shards, and each client gets a few of them."""

from numbers import Integral

import numpy as np

from fedrela_sk._sklearn import Interval
from fedrela_sk._typing import RandomState
from fedrela_sk.splitters._base import ClientSplit, class_codes


class ShardSplit(ClientSplit):
    """Clients of a few classes each: the "pathological" split of the FedAvg paper.

    Rows are sorted by class (in order of first appearance, at random inside a class) and cut into
    `n_splits * shards_per_client` shards whose sizes differ by at most one; every client gets
    `shards_per_client` of them at random.

    Parameters
    ----------
    n_splits : int, default=10
        Number of clients, at least 1.
    shards_per_client : int, default=2
        At least 1.
    random_state : int, RandomState instance or None, default=None
        An integer gives the same clients at every call.

    Attributes
    ----------
    n_empty_ : int
        Clients without rows in the last `split` (possible with fewer rows than shards); they are not
        yielded.

    Notes
    -----
    Invariants, each one a test: test sets are disjoint, complete, ascending and never empty; the same
    integer `random_state` gives the same clients; neither X nor the names of the classes matter; sizes of
    clients differ by at most `shards_per_client`; if every class fills whole shards a client has at most
    `shards_per_client` classes.

    References
    ----------
    McMahan, Moore, Ramage, Hampson, Agüera y Arcas, "Communication-efficient learning of deep networks from
    decentralized data", AISTATS 2017, section 3.

    Examples
    --------
    >>> import numpy as np
    >>> from fedrela_sk.splitters import ShardSplit
    >>> y = np.repeat([0, 1, 2, 3], 10)
    >>> splitter = ShardSplit(n_splits=4, shards_per_client=2, random_state=0)
    >>> [len(np.unique(y[test])) <= 2 for _, test in splitter.split(y, y)]
    [True, True, True, True]
    """

    _parameter_constraints = {
        **ClientSplit._parameter_constraints,
        "shards_per_client": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self, n_splits: int = 10, shards_per_client: int = 2, *, random_state: RandomState = None
    ) -> None:
        self.n_splits = n_splits
        self.shards_per_client = shards_per_client
        self.random_state = random_state

    def _draw_owners(self, n_rows, y, generator):
        codes = class_codes(y, "ShardSplit")
        by_class = np.lexsort((generator.random(n_rows), codes))
        n_shards = self.n_splits * self.shards_per_client
        owner_of_shard = generator.permutation(n_shards) % self.n_splits
        owners = np.empty(n_rows, dtype=np.intp)
        owners[by_class] = owner_of_shard[np.arange(n_rows) * n_shards // n_rows]
        return owners
