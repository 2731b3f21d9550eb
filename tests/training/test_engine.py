"""Which engine runs: what was asked for, or a table of facts that are the same in every run."""

import time
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch import nn

from fedrela_sk import FederatedClassifier
from fedrela_sk.algorithms import FedAvg
from fedrela_sk.exceptions import NetError
from fedrela_sk.training import Engine, Loop, Stacked
from fedrela_sk.training import _engine as room
from fedrela_sk.training._engine import ENGINES, start_engine
from fedrela_sk.training._workers import WorkerPool
from fedrela_sk.training.loop._engine import LoopEngine
from fedrela_sk.training.stacked._engine import StackedEngine
from tests.training import nets

N_CLIENTS = 10


def start(engine, module=nets.Dense, n_clients=N_CLIENTS, n_jobs=None, n_rows=40, seed=0, **settings):
    net = nets.make_net(module, **settings)
    data, _ = nets.make_job((n_rows,), seed=seed)
    return start_engine(engine, net, data, FedAvg(), nets.N_CLASSES, seed, n_clients=n_clients, n_jobs=n_jobs)


class Wide(nn.Sequential):
    """9 x units + 3 parameters."""

    def __init__(self, units):
        super().__init__(nn.Linear(nets.N_FEATURES, units), nn.ReLU(), nn.Linear(units, nets.N_CLASSES))


# --- asked for ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["loop", Loop()])
def test_loop_is_what_was_asked_for(engine):
    running, why = start(engine)
    assert type(running) is LoopEngine
    assert why == "asked for"


@pytest.mark.parametrize(("engine", "chunk_size"), [("stacked", 64), (Stacked(7), 7)])
def test_stacked_is_what_was_asked_for(engine, chunk_size):
    running, why = start(engine, n_clients=1)
    assert type(running) is StackedEngine
    assert (running.chunk_size, running.precision, running.kind, why) == (
        chunk_size,
        None,
        "direct",
        "asked for",
    )


def test_settings_of_the_engine_reach_it():
    running, _ = start(Stacked(chunk_size=3, precision="bf16"))
    assert (running.chunk_size, running.precision) == (3, "bf16")


@pytest.mark.parametrize("engine", ["stacked", Stacked(3)])
def test_a_net_that_cannot_be_stacked_is_an_error_with_the_layer_and_the_way_out(engine):
    class Unstackable(nn.Sequential):
        def __init__(self):
            super().__init__(nn.BatchNorm1d(nets.N_FEATURES), nn.Softmax(dim=1), nn.Linear(5, nets.N_CLASSES))

    message = r"engine=.*tacked.* cannot train this net: layer '1' \(Softmax\) has no known stacked form\. "
    way_out = "Use engine='loop', or 'auto' to let such nets go to the loop by themselves"
    with pytest.raises(NetError, match=message + way_out):
        start(engine, Unstackable)
    assert start("auto", Unstackable)[0].name == "loop"


class Backwards(Engine):
    """An engine of the user's own."""

    name = "backwards"

    def __init__(self, twice=False):
        self.twice = twice

    def start(self, net, data, algorithm, n_classes, seed):
        return SimpleNamespace(name=self.name, twice=self.twice)


def test_an_engine_of_the_users_own():
    running, why = start(Backwards(twice=True))
    assert (running.name, running.twice, why) == ("backwards", True, "asked for")


# --- chosen ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("module", "settings", "name", "why"),
    [
        (nets.Dense, {}, "stacked", "direct, a small net"),
        (nets.Normed, {}, "stacked", "direct, a small net"),
        (nets.Attention, {}, "stacked", "vmap, a small net"),
        (nets.Dense, {"n_clients": 2}, "loop", "2 clients are too few to stack"),
        (nets.Convolution, {}, "loop", "convolutions on a CPU are faster one client after the other"),
        (nets.LooksAcross, {}, "loop", "depends on the other rows of the batch"),
        (nets.Dense, {"optimizer": torch.optim.LBFGS}, "loop", "optimizer LBFGS is not elementwise"),
    ],
)
def test_auto(module, settings, name, why):
    running, reason = start("auto", module, **settings)
    assert running.name == name
    assert why in reason


@pytest.mark.parametrize("batch", [1, 32, 5000, -1])
def test_auto_leaves_large_nets_to_the_loop(batch):
    units = (room._STACKED_UP_TO - 3) // 9
    assert start("auto", Wide, module__units=units, batch_size=batch)[0].name == "stacked"
    running, why = start("auto", Wide, module__units=units + 1, batch_size=batch)
    assert running.name == "loop"
    assert why == f"{9 * (units + 1) + 3} parameters fill the CPU one client at a time"


def test_auto_stacks_convolutions_and_large_nets_where_they_are_not_on_a_cpu(monkeypatch):
    monkeypatch.setattr(room, "_on_cpu", lambda data: False)
    assert start("auto", nets.Convolution)[1] == "vmap"
    assert start("auto", Wide, module__units=100_000)[1] == "direct"
    assert start("auto", n_clients=2)[0].name == "loop"


def test_auto_measures_nothing_and_does_not_look_at_values(monkeypatch):
    def clock(*args):
        raise AssertionError("a clock was read")

    for name in ("time", "perf_counter", "monotonic", "process_time", "perf_counter_ns", "time_ns"):
        monkeypatch.setattr(time, name, clock)
    choices = {
        (type(running), why)
        for module in (nets.Dense,)
        for seed in range(4)
        for running, why in [start("auto", module, seed=seed)]
    }
    assert choices == {(StackedEngine, "direct, a small net")}


# --- n_jobs ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_jobs", [None, 1])
def test_one_worker_is_this_process(n_jobs):
    assert type(start("auto", n_jobs=n_jobs)[0]) is StackedEngine


def test_more_workers_are_a_crew_of_the_same_kind():
    running, why = start(Stacked(5), n_jobs=2)
    running.close()
    assert type(running) is WorkerPool
    assert (running.name, running.kind, running.chunk_size, why) == ("stacked", "direct", 5, "asked for")
    running, why = start("auto", nets.Convolution, n_jobs=2)
    running.close()
    assert (running.name, why) == ("loop", "convolutions on a CPU are faster one client after the other")


def test_more_workers_on_one_device_are_refused(monkeypatch):
    monkeypatch.setattr(room, "_on_cpu", lambda data: False)
    with pytest.raises(
        ValueError, match=r"n_jobs=2 would start several fits on one device, cpu\. Leave n_jobs at None"
    ):
        start("stacked", n_jobs=2)


# --- settings as parameters -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("engine", "message"),
    [
        (Stacked(chunk_size=0), "'chunk_size' parameter of Stacked must be an int in the range"),
        (Stacked(chunk_size=2.5), r"'chunk_size' parameter of Stacked .* Got 2\.5"),
        (Stacked(precision="fp16"), r"'precision' parameter of Stacked .* Got 'fp16'"),
    ],
)
def test_settings_are_checked_when_training_starts(engine, message):
    X, y = np.zeros((9, nets.N_FEATURES)), np.arange(9) % nets.N_CLASSES
    for begin in (lambda: start(engine), lambda: FederatedClassifier(engine=engine, n_rounds=1).fit(X, y)):
        with pytest.raises(ValueError, match=message):
            begin()


def test_engines_are_parameters_of_the_classifier():
    fed = FederatedClassifier(engine=Stacked(chunk_size=5))
    assert fed.get_params()["engine__chunk_size"] == 5
    copy = clone(fed).set_params(engine__chunk_size=9, engine__precision="bf16")
    assert (copy.engine.chunk_size, copy.engine.precision, fed.engine.chunk_size) == (9, "bf16", 5)
    assert repr(Stacked()) == "Stacked()"
    assert {name: kind().name for name, kind in ENGINES.items()} == {name: name for name in ENGINES}


def test_an_engine_that_does_not_exist_is_refused():
    X, y = np.zeros((9, nets.N_FEATURES)), np.arange(9) % nets.N_CLASSES
    with pytest.raises(ValueError, match=r"'engine' parameter .*'auto'.* Got 'turbo'"):
        FederatedClassifier(engine="turbo").fit(X, y)
