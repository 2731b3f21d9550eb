"""Posteriors recorded in the last local epoch: by hand, in both engines, under any workers."""

from dataclasses import replace

import joblib
import numpy as np
import pytest
import torch
from skorch.callbacks import Callback
from torch import nn

from fedrela_sk.algorithms import Algorithm, FedAvg
from fedrela_sk.training import Instructions, Loop, Stacked
from fedrela_sk.training._posteriors import posteriors
from fedrela_sk.training._recorder import own_places
from fedrela_sk.training._workers import WorkerPool
from fedrela_sk.training.loop._engine import LoopEngine
from fedrela_sk.training.stacked._engine import StackedEngine
from tests.training import nets
from tests.training.helpers import make_loop, make_task, train_one

SIZES = (1, 2, 33, 70, 31, 32, 65, 5)


def sigmoid(z):
    """Posterior of the second class of outputs (0, z), and of the first before it."""
    p = 1 / (1 + np.exp(-np.asarray(z, dtype=np.float64)))
    return np.stack([1 - p, p], axis=1)


def recorded(loop, rows, y, own=None, **task):
    """What one client of a loop records; `own` are its training rows where they are not those of the task."""
    task = replace(make_task(loop, rows, y, **task), record=True)
    if own is not None:
        client = replace(task.client, rows=np.array(own), train_rows=np.array(own))
        task = replace(task, client=client)
    (update,) = loop.train([task], Instructions(0))
    (Q,) = update.recorded.values()
    assert Q.dtype == torch.float64
    return Q.numpy()


# --- by hand: output (0, w x), the gradient of a row is x (w x - y), rate 1/2 ----------------------------


def test_every_row_is_seen_before_the_step_of_its_batch():
    # w = 1; row 1 (x = 1, y = 0): w <- 1 - 1/2 * 1 * (1 - 0) = 1/2; so row 4 has w x = 2
    loop = make_loop([1.0, 4.0], batch_size=1)
    np.testing.assert_allclose(recorded(loop, [0, 1], [0, 1]), sigmoid([1, 2]), atol=1e-15)


def test_a_full_batch_is_that_of_the_received_model():
    loop = make_loop([1.0, 4.0, -2.0])
    np.testing.assert_array_equal(
        recorded(loop, [0, 1, 2], [0, 1, 1]), posteriors(make_loop([1.0]).net, loop.data.X, 2)
    )


def test_of_several_epochs_the_last_one_counts():
    # full batches of one row x = 1, y = 0: w = 1, 1/2, 1/4
    loop = make_loop([1.0], max_epochs=3)
    np.testing.assert_allclose(recorded(loop, [0], [0]), sigmoid([0.25]), atol=1e-15)


def test_rows_that_the_epoch_does_not_visit_meet_the_model_after_it():
    # rows 0 and 2 do not train; w = 1/2 after the step of row 1
    loop = make_loop([3.0, 1.0, 5.0])
    Q = recorded(loop, [1], [0], own=[0, 1, 2])
    np.testing.assert_allclose(Q, sigmoid([1.5, 1, 2.5]), atol=1e-15)


def test_rows_that_are_not_the_clients_own_are_left_out():
    # row 9 is a sampler's: it trains (w = 1/2 after it, batches of one) and is not recorded
    loop = make_loop([0.0, 0.0, 4.0, *[0.0] * 6, 1.0], batch_size=1)
    Q = recorded(loop, [9, 2], [0, 1], own=[2])
    np.testing.assert_allclose(Q, sigmoid([2]), atol=1e-15)


class Prior(nn.Module):
    """The same two logits for every row: its output is a view of its parameter."""

    def __init__(self):
        super().__init__()
        self.logits = nn.Parameter(torch.zeros(2, dtype=torch.float64))

    def forward(self, X):
        return self.logits.expand(len(X), 2)


def test_an_output_that_moves_with_the_step_is_seen_before_it():
    Q = recorded(make_loop([1.0, 2.0], module=Prior), [0, 1], [1, 1])
    np.testing.assert_array_equal(Q, np.full((2, 2), 0.5))


class StopsAfter(Callback):
    """Ends local training after a number of batches."""

    def __init__(self, n_batches=1):
        self.n_batches = n_batches

    def on_train_begin(self, net, **kwargs):
        self.left = self.n_batches

    def on_batch_end(self, net, **kwargs):
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("n_batches", "max_epochs", "expected"),
    [
        (1, 1, [1, 2]),  # row 0 before its step, w = 1; row 1 never: w = 1/2 at the end
        (1, 2, [0.5, 2]),  # the last epoch never began
    ],
)
def test_a_callback_may_end_the_epoch(n_batches, max_epochs, expected):
    loop = make_loop([1.0, 4.0], batch_size=1, max_epochs=max_epochs, callbacks=[StopsAfter(n_batches)])
    np.testing.assert_allclose(recorded(loop, [0, 1], [0, 1]), sigmoid(expected), atol=1e-15)


def test_who_is_not_asked_records_nothing():
    assert train_one(make_loop([1.0, 2.0]), [0, 1], [0, 1]).recorded == {}


def test_places_by_hand():
    task = make_task(make_loop(np.zeros(9)), [2, 5, 7, 8], [0, 0, 0, 0])
    task = replace(task, client=replace(task.client, train_rows=np.array([2, 4, 5, 7])))
    # rows 7, 2, 8, 5, 2: row 2 comes again, 8 is not its own, 4 never comes
    assert own_places(task, np.array([2, 0, 3, 1, 0])).tolist() == [3, -1, -1, 2, 0]
    assert own_places(task, np.array([3, 3])).tolist() == [-1, -1]


# --- both engines ---------------------------------------------------------------------------------------


class Balanced(Algorithm):
    """Visits rows in an order of its own: some often, some never."""

    def client_order(self, y, n_epochs, n_classes, stream):
        return stream.integers(0, len(y), (n_epochs, len(y)))


def run(start, module, *, weighted=False, algorithm=None, n_jobs=None, record=True, **params):
    """(singles by key, net) of one round in which clients of even keys record, or nobody does."""
    algorithm = FedAvg() if algorithm is None else algorithm
    net = nets.make_net(module, **params)
    data, clients = nets.make_job(SIZES, weighted=weighted)
    engine = start(net, data, algorithm, nets.N_CLASSES, 0)
    engine = engine if n_jobs is None else WorkerPool(engine, start, n_jobs, 1)
    tasks = nets.make_tasks(clients, {n: t.clone() for n, t in nets.tensors_of(net.module_).items()})
    tasks = [replace(task, record=record and task.client.key % 2 == 0) for task in tasks]
    updates = list(engine.train(tasks, Instructions(2)))
    engine.close()
    return {single.client.key: single for update in updates for single in update.singles()}


def small_chunks(*args):
    return StackedEngine(*args, chunk_size=3)


@pytest.mark.parametrize("module", [nets.Dense, nets.Normed, nets.Residual, nets.Attention, nets.Convolution])
@pytest.mark.parametrize(
    "settings",
    [{}, {"weighted": True, "max_epochs": 1}, {"algorithm": Balanced()}, {"batch_size": -1}],
    ids=["plain", "weighted", "order", "full"],
)
def test_engines_record_the_same(module, settings):
    loop, stacked = (run(start, module, **settings) for start in (LoopEngine, small_chunks))
    for key, size in enumerate(SIZES):
        one, other = loop[key].recorded, stacked[key].recorded
        assert one.keys() == other.keys() == ({key} if key % 2 == 0 else set())
        for Q in one.values():
            assert Q.shape == (size, nets.N_CLASSES)
            torch.testing.assert_close(other[key], Q, rtol=0, atol=1e-10)


@pytest.mark.parametrize("start", [LoopEngine, small_chunks])
@pytest.mark.parametrize("module", [nets.Dense, nets.Normed])
def test_recording_changes_no_update(start, module):
    settings = {"algorithm": Balanced()}  # some rows need a pass of their own
    plain, recording = (run(start, module, record=record, **settings) for record in (False, True))
    for key, update in plain.items():
        other = recording[key]
        assert all(torch.equal(update.tensors[name], other.tensors[name]) for name in update.tensors)
        assert (update.loss, update.nbytes) == (other.loss, other.nbytes)


@pytest.mark.parametrize("settings", [Loop(), Stacked(chunk_size=3)], ids=["loop", "stacked"])
def test_workers_record_the_same_bits(settings):
    alone = run(settings.start, nets.Normed)
    with joblib.parallel_config("threading"):
        spread = run(settings.start, nets.Normed, n_jobs=2)
    for key, update in alone.items():
        assert update.recorded.keys() == spread[key].recorded.keys()
        assert all(torch.equal(Q, spread[key].recorded[key]) for Q in update.recorded.values())
