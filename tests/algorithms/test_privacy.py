"""Nothing leaves a client but its update and its report, for every method: proof by poisoned neighbours."""

import copy

import numpy as np
import pytest
import torch

from fedrela_sk import FedReLaRelabeler
from fedrela_sk.algorithms import ALGORITHMS, CLIMB, SCAFFOLD, FedMix
from fedrela_sk.federation._asking import ask_clients
from tests.algorithms.helpers import TwoLayers, three_classes
from tests.federation.helpers import make_conductor, make_net, make_spec

X, CODES, OWNER = three_classes(60)
SPECS = [make_spec(f"client {k}", np.flatnonzero(k == OWNER), k) for k in range(3)]
# rows of the server's own, for methods that ask for them
HELD = torch.from_numpy(X[:3] + 0.5), torch.from_numpy(CODES[:3])
ROUND = 3
OTHERS = {
    "climb, in motion": CLIMB(epsilon=0.0, dual_lr=50.0, dual_every=1),
    "fedmix, small means": FedMix(mean_size=3),
    "scaffold, I": SCAFFOLD("I"),
}


def conductor_of(name, X, codes):
    algorithm = OTHERS.get(name) or ALGORITHMS[name]()
    net = make_net(TwoLayers, batch_size=8, iterator_train__shuffle=True, lr=0.05)
    settings = {"relabeler": FedReLaRelabeler(0.3), "first_relabel": 1, "auxiliary": HELD}
    return make_conductor(X, codes, SPECS, net=net, algorithm=algorithm, **settings)


def sent(conductor, state, chosen, round):
    """(updates, reports) of some clients in one round."""
    algorithm, server = conductor.plan.algorithm, state.server
    tasks = conductor.tasks.make(state, chosen, round)
    broadcast = algorithm.broadcast(server) | algorithm.once(server)
    updates = conductor.engine.train(round, tasks, broadcast)
    updates = [single for update in updates for single in update.singles()]
    data, numbers = conductor.tasks.data, conductor.tasks.numbers
    broadcast, n_classes = algorithm.broadcast(server), len(conductor.plan.classes)
    answers = ask_clients(
        algorithm, conductor.net, data, tasks, numbers, broadcast, round, conductor.plan.seed, n_classes
    )
    return updates, answers.reports


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("name", [*sorted(ALGORITHMS), *OTHERS])
def test_updates_and_reports_see_no_other_client(name):
    """In a round that follows three others, so that servers and clients hold all the state they ever hold."""
    conductor, state = conductor_of(name, X, CODES)
    for round in range(ROUND):
        conductor.run_round(state, round)
    updates, reports = sent(conductor, copy.deepcopy(state), SPECS, ROUND)
    for spec, expected in zip(SPECS, updates, strict=True):
        others = spec.position != OWNER
        poisoned, permuted, later = X.copy(), CODES.copy(), copy.deepcopy(state)
        poisoned[others] = np.nan
        permuted[others] = np.random.default_rng(2).permutation(CODES[others])
        later.codes[others] = permuted[others]
        assert not np.array_equal(permuted, CODES)
        alone, _ = conductor_of(name, poisoned, permuted)
        (update,), report = sent(alone, later, [spec], ROUND)
        assert same(update.tensors, expected.tensors)
        assert same(update.kept, expected.kept)
        assert same(update.state, expected.state)
        assert (update.weight, update.loss) == (expected.weight, expected.loss)
        assert same(report[spec.position], reports[spec.position])


@pytest.mark.parametrize("name", [*sorted(ALGORITHMS), *OTHERS])
def test_what_is_sent_holds_no_memory_of_the_rows(name):
    conductor, state = conductor_of(name, X, CODES)
    conductor.run_round(state, 0)
    updates, reports = sent(conductor, state, SPECS, 1)
    rows = conductor.plan.data.X.untyped_storage().data_ptr()
    trees = [update.tensors for update in updates] + list(reports.values()) + [state.server, state.params]
    assert all(tensor.untyped_storage().data_ptr() != rows for tree in trees for tensor in tree.values())
