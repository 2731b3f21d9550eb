"""A simulation of three small clients for every method, with methods at further settings."""

import numpy as np
import torch

from fedrela_sk import FedReLaRelabeler
from fedrela_sk.algorithms import ALGORITHMS, CLIMB, SCAFFOLD, FedMix
from tests.algorithms.helpers import TwoLayers, three_classes
from tests.federation.helpers import make_conductor, make_net, make_spec

X, CODES, OWNER = three_classes(60)
SPECS = [make_spec(f"client {k}", np.flatnonzero(k == OWNER), k) for k in range(3)]
# rows of the server's own, for methods that ask for them
HELD = torch.from_numpy(X[:3] + 0.5), torch.from_numpy(CODES[:3])
OTHERS = {
    "climb, in motion": CLIMB(epsilon=0.0, dual_lr=50.0, dual_every=1),
    "fedmix, small means": FedMix(mean_size=3),
    "scaffold, I": SCAFFOLD("I"),
}


NAMES = [*sorted(ALGORITHMS), *OTHERS]


def conductor_of(name, X=X, codes=CODES, module=TwoLayers):
    """(simulation, its state before round 0) of one method; clients relabel in round 1."""
    algorithm = OTHERS.get(name) or ALGORITHMS[name]()
    net = make_net(module, batch_size=8, iterator_train__shuffle=True, lr=0.05)
    settings = {"relabeler": FedReLaRelabeler(0.3), "first_relabel": 1, "auxiliary": HELD}
    return make_conductor(X, codes, SPECS, net=net, algorithm=algorithm, **settings)
