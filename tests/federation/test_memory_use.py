"""Memory is flat over rounds, whatever a round does."""

import gc
import tracemalloc
import weakref

import numpy as np
import pytest
import torch
from skorch.callbacks import GradientNormClipping

from fedrela_sk import FedReLaRelabeler
from fedrela_sk.algorithms import SCAFFOLD, FedAvg, LocalOnly
from fedrela_sk.federation.setup._validation import Validation
from fedrela_sk.training import Stacked
from tests.federation.helpers import WithDropout, make_conductor, make_fed, make_net, make_rows, make_spec

X, CODES = make_rows(30)


def run(simulation, state, rounds):
    for round in rounds:
        simulation.run_round(state, round)


def tensors_alive():
    gc.collect()
    return sum(issubclass(type(thing), torch.Tensor) for thing in gc.get_objects())


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"relabeler": FedReLaRelabeler(0.2), "first_relabel": 2, "relabel_every": 1},
        {"validation": Validation(torch.from_numpy(X), CODES), "select": "best_validation"},
        {"algorithm": LocalOnly(), "participation": 0.7},
        {"net": make_net(batch_size=8, callbacks=[GradientNormClipping(1.0)])},
    ],
    ids=["plain", "relabeling", "best", "local_only", "clipping"],
)
def test_nothing_piles_up(settings):
    specs = [make_spec(k, np.arange(k, 30, 2), k) for k in range(2)]
    simulation, state = make_conductor(X, CODES, specs, n_rounds=200, **settings)
    run(simulation, state, range(10))
    before = tensors_alive()
    tracemalloc.start()
    try:
        run(simulation, state, range(10, 15))
        start = tracemalloc.get_traced_memory()[0]
        run(simulation, state, range(15, 30))
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - start
    finally:
        tracemalloc.stop()
    assert abs(tensors_alive() - before) <= 8
    assert grown / 15 < 2_000  # bytes of a round's record, its keys and notes


@pytest.mark.parametrize("algorithm", [LocalOnly(), SCAFFOLD()], ids=["model", "state"])
def test_what_stays_at_a_client_holds_nothing_of_others(algorithm):
    specs = [make_spec(k, np.arange(k, 30, 5), k) for k in range(5)]
    simulation, state = make_conductor(X, CODES, specs, algorithm=algorithm, engine=Stacked())
    run(simulation, state, range(2))
    trees = [*state.clients.kept.values(), *state.clients.method.values()]
    assert len(trees) == 5
    for tensor in (tensor for tree in trees for tensor in tree.values()):
        assert tensor.untyped_storage().nbytes() == tensor.nbytes


def test_a_hundred_rounds_hold_no_more_than_their_records():
    simulation, state = make_conductor(X, CODES, [make_spec(0, np.arange(30))], n_rounds=300)
    run(simulation, state, range(20))
    gc.collect()
    before = len(gc.get_objects())
    run(simulation, state, range(20, 120))
    gc.collect()
    assert len(gc.get_objects()) - before < 100 * 4


def test_fits_leave_nothing_behind():
    net = make_net(WithDropout, batch_size=16)
    make_fed(net, n_rounds=2).fit(X, CODES)
    before = tensors_alive()
    for seed in range(5):
        make_fed(net, n_rounds=2, random_state=seed, relabeler=FedReLaRelabeler(0.2)).fit(X, CODES)
    assert tensors_alive() <= before + 8


def test_updates_are_folded_as_they_come():
    """At no time does the server hold the updates of more than two clients."""
    sent, held = [], []

    class Watcher:
        def __init__(self, inner):
            self.inner, self.result = inner, inner.result

        def add(self, tensors, weight):
            held.append(sum(reference() is not None for reference in sent))
            sent.extend(weakref.ref(tensor) for tensor in tensors.values())
            self.inner.add(tensors, weight)

    class Watching(FedAvg):
        def server_aggregator(self):
            return Watcher(super().server_aggregator())

    specs = [make_spec(k, np.arange(k, 30, 10), k) for k in range(10)]
    simulation, state = make_conductor(X, CODES, specs, algorithm=Watching())
    simulation.run_round(state, 0)
    assert len(held) == 10
    assert max(held) <= 2  # the weight and the bias of the client before
