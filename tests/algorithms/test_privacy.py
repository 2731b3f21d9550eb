"""Nothing leaves a client but its update and its report, for every method: proof by poisoned neighbors."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.algorithms.simulations import CODES, NAMES, OWNER, SPECS, X, conductor_of

ROUND = 3


def sent(simulation, state, chosen, round):
    """(updates, reports) of some clients in one round."""
    algorithm, tasks = simulation.plan.algorithm, simulation.tasks_of(state, chosen, round)
    instructions = simulation.server.instructions(state.server, round)
    updates = simulation.engine.train(tasks, replace(instructions, progress=0.0))
    updates = [single for update in updates for single in update.singles()]
    query = algorithm.server_query(round) or algorithm.server_query(0)
    if query is None:
        return updates, {}
    asked = replace(instructions, server=algorithm.server_broadcast(state.server.method).every_round)
    numbers, data = simulation.tasks.numbers, simulation.tasks.data
    return updates, {
        numbers[task.client.position]: simulation.reporter.report(query, data, task, asked) for task in tasks
    }


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
        later.clients.codes[others] = permuted[others]
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
    trees = (
        [update.tensors for update in updates]
        + list(reports.values())
        + [state.server.method, state.server.params]
    )
    assert all(tensor.untyped_storage().data_ptr() != rows for tree in trees for tensor in tree.values())
