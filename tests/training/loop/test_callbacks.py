"""The user's skorch callbacks around local training: events, stops, schedules, clipping, what they may see."""

import _thread
import signal
import threading

import numpy as np
import pytest
import torch
from skorch import NeuralNetClassifier
from skorch.callbacks import Callback, EarlyStopping, GradientNormClipping, LRScheduler
from torch import nn
from torch.optim.lr_scheduler import OneCycleLR, StepLR

from fedrela_sk.exceptions import ClientError
from fedrela_sk.training.loop._callbacks import Notifier
from fedrela_sk.training.loop._step import Listener, LocalTrainingStopped
from tests.training.helpers import OneWeight, Squared, make_loop, make_net, make_task, train, train_one


class Recorder(Callback):
    """Every event with what can be compared between skorch's training and ours."""

    def initialize(self):
        self.events = []
        return self

    def _note(self, event, net, *facts):
        batches = len(net.history[-1]["batches"]) if len(net.history) else None
        self.events.append((event, len(net.history), batches, *facts))

    def on_train_begin(self, net, X=None, y=None, **kwargs):
        self._note("train_begin", net, len(X), len(y))

    def on_train_end(self, net, X=None, y=None, **kwargs):
        self._note("train_end", net, len(X), len(y))

    def on_epoch_begin(self, net, dataset_train=None, dataset_valid=None, **kwargs):
        self._note("epoch_begin", net, net.history[-1, "epoch"])

    def on_epoch_end(self, net, dataset_train=None, dataset_valid=None, **kwargs):
        row = net.history[-1]
        self._note("epoch_end", net, row["train_loss"], row["train_batch_count"])

    def on_batch_begin(self, net, batch=None, training=None, **kwargs):
        self._note("batch_begin", net, len(batch[0]), len(batch[1]), training)

    def on_batch_end(self, net, batch=None, training=None, loss=None, y_pred=None, **kwargs):
        row = net.history[-1, "batches", -1]
        facts = row["train_loss"], row["train_batch_size"], loss.item(), tuple(y_pred.shape)
        self._note("batch_end", net, len(batch[0]), training, *facts)

    def on_grad_computed(self, net, named_parameters, batch=None, training=None, **kwargs):
        grads = [(name, p.grad.item()) for name, p in named_parameters]
        self._note("grad_computed", net, len(batch[0]), training, *grads)


def test_events_are_those_of_skorch():
    X, y = np.array([[1.0], [2.0], [0.5], [1.5], [1.0]]), np.array([0, 1, 0, 1, 1])
    settings = {"lr": 0.1, "batch_size": 2, "max_epochs": 2, "callbacks": [("own", Recorder())]}
    loop = make_loop(X, **settings)
    ours = dict(loop.net.callbacks_)["own"]
    ours.events.clear()
    train_one(loop, [0, 1, 2, 3, 4], y)

    net = NeuralNetClassifier(OneWeight, criterion=Squared, train_split=None, verbose=0, **settings)
    net.initialize().partial_fit(X, y)
    theirs = dict(net.callbacks_)["own"]
    assert len(ours.events) == 2 + 2 * (2 + 3 * 3)
    assert ours.events == theirs.events


def test_no_callbacks_no_history():
    loop = make_loop([1.0, 2.0])
    train_one(loop, [0, 1], [0, 1])
    assert len(loop.net.history) == 0


def test_a_listener_knows_every_event_of_a_notifier():
    def events(kind):
        return {name for name in vars(kind) if not name.startswith("_")}

    assert events(Notifier) == events(Listener)


class Silent(Callback):
    """Changes no event."""


def test_events_that_a_callback_does_not_change_are_not_called(monkeypatch):
    called = []
    loop = make_loop([1.0], callbacks=[Silent()])

    def noting(self, name):
        called.append(name)
        return object.__getattribute__(self, name)

    monkeypatch.setattr(Callback, "__getattribute__", noting)
    train_one(loop, [0], [0])
    assert not [name for name in called if name.startswith("on_")]


def test_callbacks_see_the_rows_of_their_client_alone():
    seen = {}

    class Sees(Callback):
        def on_train_begin(self, net, X=None, y=None, **kwargs):
            seen["begin"] = X.squeeze().tolist(), y.tolist()

        def on_train_end(self, net, X=None, y=None, **kwargs):
            seen["end"] = X.squeeze().tolist(), y.tolist()

    loop = make_loop([1.0, 2.0, 3.0, 4.0], callbacks=[Sees()])
    train_one(loop, [1, 3], [0, 1])
    assert seen == {"begin": ([2.0, 4.0], [0, 1]), "end": ([2.0, 4.0], [0, 1])}


def test_history_starts_afresh_at_every_client():
    loop = make_loop([1.0, 1.0], batch_size=1, max_epochs=3, callbacks=[Silent()])
    for round in range(4):
        train_one(loop, [0, 1], [0, 1], round=round)
    assert len(loop.net.history) == 3
    assert len(loop.net.history[-1, "batches"]) == 2


# ------------------------------------------------------------------------------------------ stops


class StopAt(Callback):
    """skorch's way to stop: a KeyboardInterrupt, in the n-th call of one event since training began."""

    def __init__(self, event, n):
        self.event = event
        self.n = n

    def on_train_begin(self, net, **kwargs):
        self.count_ = 0
        self._tick("on_train_begin")

    def _tick(self, event):
        self.count_ += event == self.event
        if self.count_ == self.n and event == self.event:
            raise KeyboardInterrupt

    def on_grad_computed(self, net, named_parameters, **kwargs):
        self._tick("on_grad_computed")

    def on_batch_end(self, net, **kwargs):
        self._tick("on_batch_end")

    def on_epoch_end(self, net, **kwargs):
        self._tick("on_epoch_end")


@pytest.mark.parametrize(
    ("event", "n", "w", "n_steps", "loss"),
    [
        # w goes 1, 1/2, 1/4, 1/8, 1/16 in batches of one row; the loss is w^2 / 2
        ("on_grad_computed", 1, 1.0, 0, 0.0),
        ("on_grad_computed", 3, 0.25, 2, (1 / 2 + 1 / 8) / 2),
        ("on_epoch_end", 1, 0.25, 2, (1 / 2 + 1 / 8) / 2),
        ("on_epoch_end", 9, 0.0625, 4, (1 / 2 + 1 / 8 + 1 / 32 + 1 / 128) / 4),
    ],
)
def test_a_callback_stops_its_client_and_no_other(event, n, w, n_steps, loss):
    loop = make_loop([1.0, 1.0, 1.0], batch_size=1, max_epochs=2, callbacks=[StopAt(event, n)])
    tasks = [make_task(loop, [0, 1], [0, 0], key="a"), make_task(loop, [0, 1], [0, 0], key="b")]
    for update in train(loop, tasks).values():
        assert update.tensors["w"].item() == w
        assert update.n_steps == n_steps
        assert update.loss == pytest.approx(loss)


def test_the_step_at_whose_end_a_callback_stops_is_taken():
    loop = make_loop([1.0, 1.0], batch_size=1, max_epochs=2, callbacks=[StopAt("on_batch_end", 1)])
    assert train_one(loop, [0, 1], [0, 0]).tensors["w"].item() == 0.5


def test_a_stop_names_the_callback():
    notify = Notifier(make_net(), [StopAt("on_train_begin", 1)])
    with pytest.raises(LocalTrainingStopped, match="StopAt stopped training in on_train_begin"):
        notify("on_train_begin")


class Interrupted(nn.Module):
    """A module in whose forward pass the user presses Ctrl-C."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(1))

    def forward(self, X):
        raise KeyboardInterrupt


def test_the_users_own_interrupt_goes_on_up():
    loop = make_loop([1.0], module=Interrupted, callbacks=[Silent()])
    with pytest.raises(KeyboardInterrupt):
        train_one(loop, [0], [0])


def test_skorchs_early_stopping_works_at_every_client():
    # labels 0 and 1 in turn, full batches: the loss of w = 1/2 cannot be bettered
    stopping = EarlyStopping(monitor="train_loss", patience=2)
    loop = make_loop([1.0, 1.0], max_epochs=50, lr=1.0, callbacks=[stopping], verbose=0)
    tasks = [make_task(loop, [0, 1], [0, 1], key=key) for key in "ab"]
    # losses 1/4, 1/8, 1/8, 1/8: two epochs without progress after the second
    assert [update.n_steps for update in train(loop, tasks).values()] == [4, 4]


def test_a_callback_that_fails_is_named_with_client_and_round():
    class Fails(Callback):
        def on_epoch_end(self, net, **kwargs):
            raise KeyError("valid_loss")

    loop = make_loop([1.0], callbacks=[Fails()])
    with pytest.raises(ClientError, match="Client 'a' failed in round 3: KeyError: 'valid_loss'"):
        train_one(loop, [0], [0], round=3)


# -------------------------------------------------------------------------- schedules and clipping


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adagrad])
def test_a_schedule_starts_afresh_at_every_client_and_in_every_round(optimizer):
    schedule = LRScheduler(StepLR, step_size=1, gamma=0.5)
    settings = {"optimizer": optimizer, "max_epochs": 2, "callbacks": [schedule]}
    loop = make_loop([1.0], **settings)
    for round, factor in enumerate((1.0, 0.1, 2.0)):
        tasks = [
            make_task(loop, [0], [0], key=key, params={"w": torch.ones(1, dtype=torch.float64)})
            for key in "ab"
        ]
        updates = train(loop, tasks, round, lr_factor=factor)
        alone = make_loop([1.0], **settings)
        expected = train_one(alone, [0], [0], lr_factor=factor).tensors["w"]
        for update in updates.values():
            assert torch.equal(update.tensors["w"], expected)
        if optimizer is torch.optim.SGD:
            # rates 1/2 f and 1/4 f
            assert expected.item() == pytest.approx((1 - factor / 2) * (1 - factor / 4))


def test_a_schedule_that_moves_momentum_leaves_nothing_behind():
    schedule = LRScheduler(OneCycleLR, max_lr=0.5, total_steps=4, step_every="batch")
    settings = {"optimizer__momentum": 0.9, "max_epochs": 3, "callbacks": [schedule]}
    loop = make_loop([1.0], **settings)
    params = {"w": torch.ones(1, dtype=torch.float64)}
    first, second = (train_one(loop, [0], [0], params=params).tensors["w"] for _ in range(2))
    assert torch.equal(first, second)
    assert first.item() != 1


def test_gradients_are_clipped_before_the_step():
    # the gradient is 1 for w = 1; clipped to 1/4 the step is 1/8
    loop = make_loop([1.0], callbacks=[GradientNormClipping(0.25)])
    assert train_one(loop, [0], [0]).tensors["w"].item() == pytest.approx(0.875, abs=1e-5)


# ------------------------------------------------------------------------------------------ Ctrl-C


class PressedIn(Callback):
    """The user presses Ctrl-C while one event of a callback runs."""

    def __init__(self, event, press):
        self.event = event
        self.press = press

    def _maybe(self, event):
        if event == self.event:
            self.press()
            for _ in range(1000):  # Python runs the handler between two of these
                pass

    def on_train_begin(self, net, **kwargs):
        self._maybe("on_train_begin")

    def on_epoch_begin(self, net, **kwargs):
        self._maybe("on_epoch_begin")

    def on_batch_begin(self, net, **kwargs):
        self._maybe("on_batch_begin")

    def on_grad_computed(self, net, named_parameters, **kwargs):
        self._maybe("on_grad_computed")

    def on_batch_end(self, net, **kwargs):
        self._maybe("on_batch_end")

    def on_epoch_end(self, net, **kwargs):
        self._maybe("on_epoch_end")

    def on_train_end(self, net, **kwargs):
        self._maybe("on_train_end")


EVENTS = [name for name in vars(PressedIn) if name.startswith("on_")]


def pressed():
    signal.raise_signal(signal.SIGINT)


@pytest.fixture
def ctrl_c():
    """Python's own handler of SIGINT: processes in the background ignore the signal."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("press", [pressed, _thread.interrupt_main])
def test_ctrl_c_while_a_callback_runs_goes_on_up(event, press):
    with pytest.raises(KeyboardInterrupt):
        train_one(make_loop([1.0], callbacks=[PressedIn(event, press)]), [0], [0])
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_stop_after_the_last_epoch_stops_nothing():
    class AtTheEnd(StopAt):
        def on_train_end(self, net, **kwargs):
            raise KeyboardInterrupt

    assert train_one(make_loop([1.0], callbacks=[AtTheEnd("none", 1)]), [0], [0]).n_steps == 1


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_before_a_callback_stops_is_not_its_stop():
    """A signal that came earlier, and was taken, does not make the user's interrupt of a later stop."""

    class Survives(StopAt):
        def on_batch_end(self, net, **kwargs):
            try:
                pressed()
            except KeyboardInterrupt:
                self.survived = True
            super().on_batch_end(net)

    loop = make_loop([1.0, 1.0], batch_size=1, max_epochs=2, callbacks=[Survives("on_epoch_end", 1)])
    assert train_one(loop, [0, 1], [0, 0]).n_steps == 2


def test_callbacks_stop_training_in_other_threads_too():
    loop = make_loop([1.0, 1.0], batch_size=1, callbacks=[StopAt("on_batch_end", 1)])
    steps = []
    thread = threading.Thread(target=lambda: steps.append(train_one(loop, [0, 1], [0, 0]).n_steps))
    thread.start()
    thread.join()
    assert steps == [1]


@pytest.mark.parametrize("event", ["on_epoch_end", "on_grad_computed"])
def test_an_early_stop_is_noted_with_client_callback_and_step(event):
    loop = make_loop([1.0, 1.0, 1.0], batch_size=1, max_epochs=2, callbacks=[StopAt(event, 1)])
    (note,) = train_one(loop, [0, 1], [0, 0], key="north").notes
    steps = {"on_epoch_end": 2, "on_grad_computed": 0}[event]
    assert note == f"client 'north': StopAt stopped training in {event} after {steps} steps"
