"""Hooks write to nothing that they are given, and to nothing of their own."""

import copy

import pytest
import torch

from tests.algorithms.heads import WithBatchNorm
from tests.algorithms.helpers import TwoLayers
from tests.algorithms.simulations import NAMES, conductor_of


def trees_of(state):
    """Every dictionary of tensors that lives from round to round."""
    return [
        state.server.params,
        state.server.method,
        *state.clients.method.values(),
        *state.clients.kept.values(),
    ]


@pytest.mark.parametrize("module", [TwoLayers, WithBatchNorm])
@pytest.mark.parametrize("name", NAMES)
def test_a_round_changes_no_tensor_of_the_rounds_before(name, module):
    simulation, state = conductor_of(name, module=module)
    held, copies, stored = [], [], copy.deepcopy(vars(simulation.plan.algorithm))
    for round in range(3):
        held += [tensor for tree in trees_of(state) for tensor in tree.values()]
        copies += [tensor.clone() for tensor in held[len(copies) :]]
        simulation.run_round(state, round)
    assert all(torch.equal(tensor, before) for tensor, before in zip(held, copies, strict=True))
    assert not any(tensor.requires_grad for tree in trees_of(state) for tensor in tree.values())
    assert repr(vars(simulation.plan.algorithm)) == repr(stored)
