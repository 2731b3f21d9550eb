"""Every parameter and method of the installed skorch is honored by local training or refused by its name."""

import inspect

import numpy as np
import pytest
import torch
from skorch import NeuralNetClassifier
from skorch.callbacks import (
    BatchScoring,
    Callback,
    Checkpoint,
    EarlyStopping,
    EpochScoring,
    LRScheduler,
    PassthroughScoring,
)
from torch import nn

from fedrela_sk import FederatedClassifier
from fedrela_sk.exceptions import NetError
from fedrela_sk.training._net import build_net
from fedrela_sk.training._skorch_settings import LOADER, METHODS, PARAMETERS, PREFIXES
from tests.training.helpers import make_loop, train_one

X = np.zeros((4, 2), dtype=np.float32)
Y = np.array([0, 1, 0, 1])
DEFAULTS = {
    name: value
    for name, value in NeuralNetClassifier(nn.Identity).get_params(deep=False).items()
    if not name.startswith("_")
}


def build(kind=NeuralNetClassifier, **settings):
    base = {
        "module": nn.Linear,
        "module__in_features": 2,
        "module__out_features": 2,
        "criterion": nn.CrossEntropyLoss,
    }
    return build_net(kind(**(base | settings)), X, Y, 2, seed=0)


class Other:
    """Nothing that skorch knows, equal to itself only."""


REFUSED = {
    "iterator_train": Other, "dataset": Other, "warm_start": True, "compile": True, "predict_nonlinearity": None,
    "use_caching": False,
}  # fmt: skip


def test_every_parameter_of_skorch_stands_on_one_side():
    assert not REFUSED.keys() & PARAMETERS.keys()
    assert REFUSED.keys() | PARAMETERS.keys() == DEFAULTS.keys()
    assert all(reason for table in (PARAMETERS, PREFIXES, LOADER, METHODS) for reason in table.values())


@pytest.mark.parametrize("name", REFUSED)
def test_parameters_that_are_not_read_are_refused_by_name(name):
    with pytest.raises(NetError, match=rf"^{name}=.* would not be used"):
        build(**{name: REFUSED[name]})
    build(**{name: DEFAULTS[name]})


@pytest.mark.parametrize(
    "name", ["dataset__length", "iterator_train__drop_last", "compile__mode", "train_split__cv"]
)
def test_parameters_of_parts_that_are_not_read_are_refused_by_name(name):
    with pytest.raises(NetError, match=f"^{name}"):
        build(**{name: 1})


class Extended(NeuralNetClassifier):
    """With a part and a parameter of its own."""

    def __init__(self, *args, strength=1.0, **kwargs):
        super().__init__(*args, **kwargs)
        self.strength = strength


def test_parameters_of_a_subclass_are_its_own_business():
    assert build(Extended, strength=2.0).strength == 2.0


ALL_METHODS = sorted(
    name
    for name, thing in inspect.getmembers(NeuralNetClassifier)
    if not name.startswith("__")
    and (callable(thing) or isinstance(thing, property))
    and not inspect.isclass(thing)
)


def overriding(name):
    """A subclass whose method of that name does what skorch's does."""
    skorchs = inspect.getattr_static(NeuralNetClassifier, name)
    if isinstance(skorchs, property):
        own = property(lambda self: skorchs.fget(self))
    elif isinstance(skorchs, staticmethod | classmethod):
        own = type(skorchs)(lambda *args, **kwargs: skorchs.__func__(*args, **kwargs))
    else:
        own = lambda self, *args, **kwargs: getattr(NeuralNetClassifier, name).__get__(self)(*args, **kwargs)  # noqa: E731
    return type("Overriding", (NeuralNetClassifier,), {name: own})


@pytest.mark.parametrize("name", ALL_METHODS)
def test_every_method_of_skorch_may_be_overridden_or_is_refused_by_name(name):
    if name in METHODS:
        build(overriding(name))
        return
    with pytest.raises(
        NetError, match=f"Overriding has a {name} of its own, which local training would not call"
    ):
        build(overriding(name))


def test_the_table_names_methods_that_skorch_has():
    assert set(METHODS) <= set(ALL_METHODS)


class TwoModules(NeuralNetClassifier):
    def initialize_module(self):
        super().initialize_module()
        self.second_ = nn.Linear(2, 2)
        return self


class TwoCriteria(NeuralNetClassifier):
    def initialize_criterion(self):
        super().initialize_criterion()
        self.second_ = nn.CrossEntropyLoss()
        return self


class TwoOptimizers(NeuralNetClassifier):
    def initialize_optimizer(self):
        super().initialize_optimizer()
        self.second_ = torch.optim.SGD(self.module_.parameters(), 0.1)
        return self


@pytest.mark.parametrize(
    ("kind", "word"), [(TwoModules, "module"), (TwoCriteria, "criterion"), (TwoOptimizers, "optimizer")]
)
def test_a_second_part_is_refused(kind, word):
    with pytest.raises(NetError, match=f"has the further {word} 'second_?'"):
        build(kind)


@pytest.mark.parametrize("name", ["max_epochs", "batch_size", "iterator_train__batch_size"])
@pytest.mark.parametrize("value", [0, -2, 1.5, "all", True])
def test_sizes_that_are_none_are_refused(name, value):
    with pytest.raises(NetError, match=rf"^{name}.* must be .*whole number >= 1, got {value!r}"):
        build(**{name: value})


# ------------------------------------------------------------------------------------------ callbacks


@pytest.mark.parametrize(
    "callback",
    [EarlyStopping(), EarlyStopping(monitor="valid_acc"), Checkpoint(), LRScheduler(monitor="valid_loss")],
)
def test_callbacks_that_wait_for_validation_rows_say_which_monitor_to_use(callback):
    with pytest.raises(NetError, match=r"waits for validation rows.* Set monitor='train_"):
        build(callbacks=[callback])


@pytest.mark.parametrize(
    "callback", [EpochScoring("accuracy"), BatchScoring("accuracy"), PassthroughScoring("valid_loss")]
)
def test_scores_of_validation_rows_are_refused(callback):
    with pytest.raises(NetError, match=r"on_train=False\) scores validation rows.* Set on_train=True"):
        build(callbacks=[callback])


class Reads(Callback):
    seen = []

    def on_train_end(self, net, **kwargs):
        self.seen.append([row.get("train_acc") for row in net.history])


@pytest.mark.parametrize("use_caching", [True, False])
def test_scores_of_a_clients_own_rows_are_recorded(use_caching):
    score = EpochScoring(
        "accuracy", name="train_acc", on_train=True, lower_is_better=False, use_caching=use_caching
    )
    Reads.seen.clear()
    loop = make_loop([1.0, 2.0, -1.0, 1.0], max_epochs=2, callbacks=[score, Reads()])
    train_one(loop, [0, 1], [1, 1])
    train_one(loop, [2, 3], [1, 1])
    assert Reads.seen == [[1.0, 1.0], [0.5, 0.5]]


def test_a_batch_score_is_recorded():
    score = BatchScoring("accuracy", name="train_acc", on_train=True)
    Reads.seen.clear()
    train_one(make_loop([1.0, 2.0, -1.0, 1.0], max_epochs=1, callbacks=[score, Reads()]), [0, 1], [1, 1])
    assert Reads.seen == [[1.0]]


def test_early_stopping_may_follow_such_a_score():
    score = EpochScoring("accuracy", name="train_acc", on_train=True, lower_is_better=False)
    stop = EarlyStopping(monitor="train_acc", patience=1, lower_is_better=False)
    update = train_one(
        make_loop([1.0, 2.0], max_epochs=20, callbacks=[score, stop], verbose=0), [0, 1], [1, 1]
    )
    assert update.n_steps == 2


def test_the_federation_names_the_setting():
    net = NeuralNetClassifier(nn.Linear, module__in_features=2, module__out_features=2,
                              criterion=nn.CrossEntropyLoss, dataset=Other)  # fmt: skip
    with pytest.raises(NetError, match=r"^dataset="):
        FederatedClassifier(net, clients=2, n_rounds=1).fit(
            np.random.default_rng(0).normal(size=(8, 2)), [0, 1] * 4
        )
