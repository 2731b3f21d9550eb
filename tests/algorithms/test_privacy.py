"""Nothing leaves a client but its update and its report, for every method: proof by poisoned neighbours."""

import copy

import numpy as np
import pytest
import torch

from fedrela_sk.federation.clients._reports import ask_clients
from fedrela_sk.training import Instructions
from tests.algorithms.simulations import CODES, NAMES, OWNER, SPECS, X, conductor_of

ROUND = 3


def sent(simulation, state, chosen, round):
    """(updates, reports) of some clients in one round."""
    algorithm, server = simulation.plan.algorithm, state.server
    tasks = simulation.tasks.make(state, chosen, round)
    broadcast = algorithm.server_broadcast(server)
    broadcast = broadcast.every_round | broadcast.first_time
    updates = simulation.engine.train(tasks, Instructions(round, broadcast))
    updates = [single for update in updates for single in update.singles()]
    data, numbers = simulation.tasks.data, simulation.tasks.numbers
    broadcast, n_classes = algorithm.server_broadcast(server).every_round, len(simulation.plan.classes)
    query = algorithm.server_query(round) or algorithm.server_query(0)
    if query is None:
        return updates, {}
    answers = ask_clients(
        algorithm,
        query,
        simulation.net,
        data,
        tasks,
        numbers,
        broadcast,
        round,
        simulation.plan.seed,
        n_classes,
    )
    return updates, answers.reports


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("name", NAMES)
def test_updates_and_reports_see_no_other_client(name):
    """In a round that follows three others, so that servers and clients hold all the state they ever hold."""
    simulation, state = conductor_of(name)
    for round in range(ROUND):
        simulation.run_round(state, round)
    updates, reports = sent(simulation, copy.deepcopy(state), SPECS, ROUND)
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
        assert report.keys() == reports.keys() & {spec.position}
        assert same(report.get(spec.position, {}), reports.get(spec.position, {}))


@pytest.mark.parametrize("name", NAMES)
def test_what_is_sent_holds_no_memory_of_the_rows(name):
    simulation, state = conductor_of(name)
    simulation.run_round(state, 0)
    updates, reports = sent(simulation, state, SPECS, 1)
    rows = simulation.plan.data.X.untyped_storage().data_ptr()
    trees = [update.tensors for update in updates] + list(reports.values()) + [state.server, state.params]
    assert all(tensor.untyped_storage().data_ptr() != rows for tree in trees for tensor in tree.values())
