"""torch's generators under our streams."""

import numpy as np
import pytest
import torch

from fedrela_sk._random import Purpose, integer_seed
from fedrela_sk.training._generator import forked_generators, seed_generators


def test_draws_inside_leave_the_generator_as_it_was():
    before = torch.get_rng_state()
    with forked_generators("cpu"):
        seed_generators("cpu", 3, Purpose.MODULE)
        torch.rand(5)
    assert torch.equal(torch.get_rng_state(), before)


def test_an_error_inside_leaves_the_generator_as_it_was():
    before = torch.get_rng_state()
    with pytest.raises(TypeError), forked_generators("cpu"):
        torch.rand(torch.rand(5))
    assert torch.equal(torch.get_rng_state(), before)


def _draws(seed, purpose, **stream):
    with forked_generators("cpu"):
        seed_generators("cpu", seed, purpose, **stream)
        return torch.rand(4)


def test_draws_are_a_function_of_the_stream():
    first = _draws(1, Purpose.MODULE, round=2, client=3)
    torch.manual_seed(0)
    assert torch.equal(_draws(1, Purpose.MODULE, round=2, client=3), first)
    expected = torch.rand(4, generator=torch.Generator().manual_seed(integer_seed(1, Purpose.MODULE, 2, 3)))
    assert torch.equal(first, expected)


@pytest.mark.parametrize("changed", [{"seed": 9}, {"purpose": Purpose.INIT}, {"round": 9}, {"client": 2**63}])
def test_every_part_of_the_stream_counts(changed):
    stream = {"seed": 1, "purpose": Purpose.MODULE, "round": 2, "client": 3}
    assert not torch.equal(_draws(**stream), _draws(**(stream | changed)))


def test_seeding_leaves_numpy_alone_and_queues_nothing_for_accelerators():
    state, queued = np.random.get_state()[1].copy(), len(torch.cuda._queued_calls)  # noqa: NPY002
    with forked_generators("cpu"):
        seed_generators("cpu", 0, Purpose.MODULE)
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002
    assert len(torch.cuda._queued_calls) == queued


@pytest.mark.parametrize("device", ["cuda", "cuda:1", torch.device("cuda", 1)])
def test_a_cuda_device_is_forked_and_seeded_too(device, monkeypatch):
    seen = []
    fork = torch.random.fork_rng

    def forked(devices):
        seen.append(("forked", *devices))
        return fork(devices=[])

    monkeypatch.setattr(torch.random, "fork_rng", forked)
    monkeypatch.setattr(torch.cuda, "manual_seed", lambda number: seen.append(("seeded", number)))
    with forked_generators(device):
        seed_generators(device, 1, Purpose.MODULE, 2, 3)
    assert seen == [("forked", device), ("seeded", integer_seed(1, Purpose.MODULE, 2, 3))]
