"""torch's generators under our streams."""

import numpy as np
import pytest
import torch
from skorch.callbacks import EarlyStopping, GradientNormClipping
from torch import nn
from torch.nn.utils import parametrize

from fedrela_sk._random import Purpose, integer_seed
from fedrela_sk.algorithms import Algorithm, FedAvg
from fedrela_sk.nets import MLP, Augmentation
from fedrela_sk.training import Instructions, Loop, Stacked
from fedrela_sk.training.runtime._generator import (
    forked_generators,
    module_draws,
    seed_generators,
    training_draws,
)
from tests.training import nets
from tests.training.helpers import Squared, make_net


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


# ------------------------------------------------------------------------------- what may draw


class OwnForward(nn.Sequential):
    def forward(self, X):
        return super().forward(X)


QUIET = [
    nn.Linear(2, 2),
    MLP(2, 2),
    nn.Sequential(nn.Conv1d(1, 1, 1), nn.BatchNorm1d(1), nn.ReLU(), nn.Flatten()),
    nn.ModuleList([nn.Linear(1, 1)]),
    nn.ModuleDict({"a": nn.GELU()}),
]
DRAWING = [
    nn.Dropout(0.5),
    MLP(2, 2, dropout=0.1),
    nn.Sequential(nn.Sequential(nn.AlphaDropout())),
    nn.Dropout2d(),
    nn.RReLU(),
    nn.LSTM(1, 1),
    nn.TransformerEncoderLayer(2, 1),
    nn.MultiheadAttention(2, 1),
    nn.FractionalMaxPool2d(2, output_size=1),
    nn.Sequential(nn.Linear(1, 1), OwnForward()),
    Augmentation(),
    type("OwnLinear", (nn.Linear,), {})(1, 1),
    parametrize.register_parametrization(nn.Linear(1, 1), "weight", nn.Identity()),
]


@pytest.mark.parametrize("module", QUIET, ids=lambda module: type(module).__name__)
def test_modules_that_draw_nothing(module):
    assert not module_draws(module)


@pytest.mark.parametrize("module", DRAWING, ids=lambda module: type(module).__name__)
def test_modules_that_draw_or_of_which_we_cannot_know(module):
    assert module_draws(module)


class OwnAlgorithm(Algorithm):
    pass


@pytest.mark.parametrize(
    ("changed", "callbacks", "algorithm", "draws"),
    [
        ({}, [], FedAvg(), False),
        ({}, [GradientNormClipping(1.0)], FedAvg(), False),
        ({"module": DRAWING[1]}, [], FedAvg(), True),
        ({"criterion": Squared}, [], FedAvg(), True),
        ({}, [GradientNormClipping(1.0), EarlyStopping()], FedAvg(), True),
        ({}, [], OwnAlgorithm(), True),
    ],
)
def test_training_may_draw_where_code_of_the_users_takes_part(changed, callbacks, algorithm, draws):
    net = make_net(**({"module": QUIET[1], "criterion": nn.CrossEntropyLoss} | changed))
    assert training_draws(net, callbacks, algorithm) is draws


@pytest.mark.parametrize("engine", [Loop(), Stacked()])
@pytest.mark.parametrize(("algorithm", "n_forks"), [(FedAvg(), 0), (OwnAlgorithm(), 1)])
def test_generators_are_kept_only_where_something_may_draw(engine, algorithm, n_forks, monkeypatch):
    net, (data, clients) = nets.make_net(nets.Dense), nets.make_job([4, 4])
    running = engine.start(net, data, algorithm, nets.N_CLASSES, 0)
    forks, fork = [], torch.random.fork_rng
    monkeypatch.setattr(torch.random, "fork_rng", lambda **options: forks.append(options) or fork(**options))
    list(running.train(nets.make_tasks(clients, nets.tensors_of(net.module_)), Instructions(0)))
    turns = n_forks * (2 if running.name == "loop" else 1)  # each client, or the chunk
    assert forks == [{"devices": []}] * turns
