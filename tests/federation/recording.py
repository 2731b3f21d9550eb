"""A federation whose clients record posteriors in training, and what its tests ask of it."""

import numpy as np

from tests.federation.flips import Flip
from tests.federation.helpers import Logits, make_fed, make_net, make_rows

X, Y = make_rows(60)
GROUPS = np.array(["a", "b", "c", "d"])[np.arange(60) % 4]
TRAINING = {"passes": "training"}


def fit(net=None, sample_weight=None, X=X, y=Y, **params):
    """Four clients, six rounds, new labels before the fourth; full batches unless `net` says otherwise."""
    defaults = {
        "clients": None,
        "n_rounds": 6,
        "relabeler": Flip(),
        "relabel_at": 3,
        "relabel_posteriors": TRAINING,
    }
    groups = GROUPS if len(y) == len(GROUPS) else GROUPS[: len(y)]
    return make_fed(net, **(defaults | params)).fit(X, y, groups=groups, sample_weight=sample_weight)


def batches(module=Logits, **params):
    return make_net(module, **({"batch_size": 4, "iterator_train__shuffle": True} | params))


def rounds_of(fed):
    """Round to the clients that relabeled in it."""
    return {record.round: record.relabeled_clients for record in fed.history_ if record.relabeled_clients}


def posteriors_seen():
    """What the relabelers were given, in order."""
    return [Q for Q, _, _ in Flip.log]
