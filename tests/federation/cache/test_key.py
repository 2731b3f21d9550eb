"""The key of a stored state: every entry of it counts, and no other thing does."""

import threading
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from fedrela_sk import FederatedClassifier, FedReLaRelabeler, losses
from fedrela_sk.algorithms import FedProx
from fedrela_sk.exceptions import MemoryWarning
from fedrela_sk.federation.cache import _key as room
from fedrela_sk.federation.cache._key import PARAMS_NOT_IN_KEY, PLAN_NOT_IN_KEY, key_entries
from fedrela_sk.federation.setup._plan import Plan, make_plan
from fedrela_sk.local_data import Mixup
from fedrela_sk.losses import FocalLoss, LDAMLoss, PriorLoss
from fedrela_sk.participation import Participation
from fedrela_sk.participation._base import Choice
from fedrela_sk.training import LocalData, Loop, Stacked
from fedrela_sk.training._engine import start_engine
from tests.federation.cache.test_rounds import X, Y, assert_same, entries, fit, make
from tests.federation.helpers import WithBatchNorm, make_net


@dataclass
class Job:
    """What a key is made of."""

    params: dict
    plan: Plan
    net: Any
    engine: Any
    n_threads: int = 1

    def entries(self):
        return key_entries(self.params, self.plan, self.net, self.engine, self.n_threads)


def job(**params):
    fed = make(**params)
    plan, net = make_plan(fed, X, Y)
    engine, _ = start_engine(
        fed.engine, net, plan.data, plan.algorithm, 3, plan.seed, n_clients=len(plan.specs)
    )
    return Job(fed.get_params(deep=False), plan, net, engine)


def with_plan(**changes):
    return lambda one, patch: setattr(one, "plan", replace(one.plan, **changes))


def with_params(**changes):
    return lambda one, patch: one.params.update(changes)


def patched(place, name, value):
    return lambda one, patch: patch.setattr(place, name, value)


def other_weights(one, patch):
    with torch.no_grad():
        one.net.module_.bias[1] += 1


def images(one, patch):
    """Rows in another order in memory: sums over channels then run in another order."""
    one.plan = replace(one.plan, data=LocalData(one.plan.data.X.t().contiguous().t()))


def other_rows(one, patch):
    X = one.plan.data.X.clone()
    X[3, 1] += 1
    one.plan = replace(one.plan, data=LocalData(X))


def stacked(one, patch):
    one.engine = Stacked(2).start(one.net, one.plan.data, one.plan.algorithm, 3, 0)


def doubled(module, inputs, output):
    return 2 * output


def hooked(one, patch):
    patch.setitem(nn.modules.module._global_forward_hooks, 0, doubled)


def no_denormals(one, patch):
    torch.set_flush_denormal(True)


CHANGES = {
    "python": patched(room.platform, "python_version", lambda: "3.0"),
    "fedrela_sk": patched(room, "edition", lambda: "another"),
    "torch": patched(torch, "__version__", "0.0"),
    "numpy": patched(np, "__version__", "0.0"),
    "scipy": patched(room.scipy, "__version__", "0.0"),
    "sklearn": patched(room.sklearn, "__version__", "0.0"),
    "skorch": patched(room.skorch, "__version__", "0.0"),
    "machine": patched(room, "machine", lambda device: "another"),
    "torch settings": no_denormals,
    "scikit-learn settings": patched(room, "sklearn_settings", lambda: "others"),
    "global hooks": hooked,
    "torch threads": lambda one, patch: setattr(one, "n_threads", 2),
    "engine": stacked,
    "module": other_weights,
    "criterion": lambda one, patch: setattr(one.net, "criterion_", nn.CrossEntropyLoss(label_smoothing=0.1)),
    "progress": lambda one, patch: setattr(one.net, "criterion_", LDAMLoss(defer=0.5, counts=[3, 2, 1])),
    "recorded": with_plan(relabel_posteriors={"passes": "training"}),
    "memory layout": images,
    "parameter estimator": with_params(estimator=make_net(lr=0.2)),
    "parameter algorithm": with_params(algorithm="fedprox"),
    "parameter participation": with_params(participation=0.5),
    "parameter client_weight": with_params(client_weight="uniform"),
    "parameter class_weight": with_params(class_weight="balanced"),
    "parameter local_data": with_params(local_data=Mixup()),
    "parameter lr_schedule": with_params(lr_schedule=0.5),
    "parameter validation": with_params(validation=0.5),
    "parameter select": with_params(select="best_validation"),
    "parameter warm_start": with_params(warm_start=True),
    "parameter classes": with_params(classes=[0, 1, 2]),
    "plan specs": lambda one, patch: setattr(one, "plan", replace(one.plan, specs=one.plan.specs[1:])),
    "plan data": other_rows,
    "plan codes": with_plan(codes=np.zeros(90, dtype=np.int64)),
    "plan classes": with_plan(classes=np.array(["a", "b", "c"])),
    "plan weights": with_plan(weights=np.full(90, 2.0)),
    "plan validation": with_plan(validation="some rows"),
    "plan algorithm": with_plan(algorithm=FedProx()),
    "plan first_relabel": with_plan(first_relabel=3),
    "plan participation": with_plan(participation=0.5),
    "plan client_weight": with_plan(client_weight="uniform"),
    "plan class_weight": with_plan(class_weight={0: 2.0}),
    "plan lr_schedule": with_plan(lr_schedule=0.5),
    "plan select": with_plan(select="best_validation"),
    "plan seed": with_plan(seed=1),
    "plan notes": with_plan(notes=("another",)),
    "plan auxiliary": with_plan(auxiliary=(torch.ones(1, 3), torch.zeros(1))),
    "plan local_data": with_plan(local_data=Mixup()),
}  # fmt: skip


def test_the_table_names_every_entry():
    assert job().entries().keys() == CHANGES.keys()


@pytest.mark.parametrize("name", CHANGES)
def test_every_entry_counts(name, monkeypatch):
    before, one = job().entries(), job()
    assert one.entries() == before
    try:
        CHANGES[name](one, monkeypatch)
        after = one.entries()
    finally:
        torch.set_flush_denormal(False)
    assert after[name] != before[name]


@pytest.mark.parametrize("kind", ["parameter", "field"])
def test_whatever_is_new_counts(kind):
    """Parameters and fields that a later edition adds are in the key unless somebody says why not."""
    names = FederatedClassifier().get_params() if kind == "parameter" else [f.name for f in fields(Plan)]
    word, left_out = ("parameter", PARAMS_NOT_IN_KEY) if kind == "parameter" else ("plan", PLAN_NOT_IN_KEY)
    found = {name.removeprefix(f"{word} ") for name in CHANGES if name.startswith(f"{word} ")}
    assert found == set(names) - left_out
    assert left_out <= set(names)


# --- progress: the rounds before the relabel round are told how many there are ---------------------------


class ByLosses(PriorLoss):
    """The extension that docs/losses.md names, without a word of what it reads."""

    needs_counts = False

    def _losses(self, logits, y, counts, progress):
        return super()._losses(logits, y, counts, progress) * (1 + progress)


class ByUse(nn.CrossEntropyLoss):
    """Is told of progress, and scales the logits by it."""

    def use(self, counts, progress):
        self.factor = 1 + progress

    def forward(self, logits, y):
        return super().forward(logits * self.factor, y)


class ByRowLosses(nn.CrossEntropyLoss):
    """What the stacked engine hands to every row."""

    def row_losses(self, logits, y, counts, progress):
        return nn.functional.cross_entropy(logits, y, reduction="none") * (1 + progress)


class Focal(FocalLoss):
    """A child of ours that reads what its parent does not."""

    def _losses(self, logits, y, counts, progress):
        return super()._losses(logits, y, counts, progress) * (1 + progress)


class Patient(LDAMLoss):
    """`defer` is None, and progress is read all the same."""

    def _losses(self, logits, y, counts, progress):
        return super()._losses(logits, y, counts, progress) * (1 + progress)


class Deaf(nn.CrossEntropyLoss):
    """The user's own, without the methods that are told of progress."""

    def forward(self, logits, y):
        return super().forward(2 * logits, y)


def loss_net(criterion, **params):
    return make_net(WithBatchNorm, batch_size=10, iterator_train__shuffle=True, criterion=criterion, **params)


READ = {
    "_losses": loss_net(ByLosses),
    "use": loss_net(ByUse),
    "row_losses": loss_net(ByRowLosses),
    "child of a loss without progress": loss_net(Focal),
    "child of one that need not defer": loss_net(Patient, criterion__scale=3.0),
    "defer": loss_net(LDAMLoss, criterion__scale=3.0, criterion__defer=0.3),
}
DEAF = {
    "cross-entropy": loss_net(nn.CrossEntropyLoss),
    "of the user's own": loss_net(Deaf),
    **{
        name: loss_net(getattr(losses, name))
        for name in losses.__all__
        if name.endswith("Loss") and name != "LDAMLoss"
    },
    "LDAMLoss": loss_net(LDAMLoss, criterion__scale=3.0),
}


@pytest.mark.parametrize("engine", ["loop", "auto"])  # auto: stacked but for "use"
@pytest.mark.parametrize("name", READ)
def test_who_reads_progress_does_not_share_between_numbers_of_rounds(tmp_path, name, engine):
    """And gets the same results as without memory, whatever was stored before."""
    common = {"net": READ[name], "engine": engine, "relabel_at": 2}
    fit(tmp_path, n_rounds=4, **common)
    plain, warm = (fit(memory, n_rounds=8, **common) for memory in (None, tmp_path))
    assert_same(plain, warm)
    assert len(entries(tmp_path)) == 2
    assert_same(fit(tmp_path, n_rounds=8, **common), plain)
    assert len(entries(tmp_path)) == 2


@pytest.mark.parametrize("name", DEAF)
def test_who_does_not_read_it_shares(tmp_path, name):
    common = {"net": DEAF[name], "relabel_at": 2}
    fit(tmp_path, n_rounds=4, **common)
    assert_same(fit(tmp_path, n_rounds=8, **common), fit(n_rounds=8, **common))
    assert len(entries(tmp_path)) == 1


# --- hooks on every module or optimizer ---------------------------------------------------------------------


def slower(optimizer, args, kwargs):
    for group in optimizer.param_groups:
        group["lr"] *= 0.5


GLOBAL_HOOKS = {
    "modules": lambda: nn.modules.module.register_module_forward_hook(doubled),
    "optimizers": lambda: register_optimizer_step_pre_hook(slower),
}


@pytest.mark.parametrize("name", GLOBAL_HOOKS)
def test_a_hook_on_all_of_them_counts(tmp_path, name):
    fit(tmp_path)
    handle = GLOBAL_HOOKS[name]()
    try:
        plain, cold, warm = (fit(memory) for memory in (None, tmp_path, tmp_path))
    finally:
        handle.remove()
    assert_same(plain, cold)
    assert_same(plain, warm)
    assert len(entries(tmp_path)) == 2


# --- objects that training changes -------------------------------------------------------------------------


class Counting:
    """A schedule that counts its calls: what a state from memory would not bring back."""

    def __init__(self):
        self.calls = 0

    def __call__(self, t):
        self.calls += 1
        return 0.5**self.calls


class Opens(Counting):
    """Gets something that has no description."""

    def __call__(self, t):
        self.lock = threading.Lock()
        return super().__call__(t)


LOG = []


def logged(t):
    """A schedule that writes into a list of its module, and reads it."""
    LOG.append(t)
    return 0.5 ** len(LOG)


def drawing():
    """A rule of participation with a generator of its own."""
    return Drawing(np.random.default_rng(0))


class Drawing(Participation):
    def __init__(self, generator=None):
        self.generator = generator

    def _choose(self, round, stream, sizes, counts):
        return Choice(((int(self.generator.integers(len(sizes))),),))


def fresh_log():
    LOG.clear()
    return logged


class Tired(Loop):
    """An engine whose settings change with every round."""

    def __init__(self, rounds=0):
        self.rounds = rounds

    def start(self, net, data, algorithm, n_classes, seed):
        running = super().start(net, data, algorithm, n_classes, seed)
        train = running.train

        def slower(tasks, given):
            self.rounds += 1
            return train(tasks, replace(given, lr_factor=given.lr_factor / self.rounds))

        running.train = slower
        return running


CHANGED = {
    "an engine": ("engine", Tired),
    "a counter": ("lr_schedule", Counting),
    "something without a description": ("lr_schedule", Opens),
    "a list of the module": ("lr_schedule", fresh_log),
    "a generator": ("participation", drawing),
}


@pytest.mark.parametrize("name", CHANGED)
def test_what_training_changes_is_not_stored(tmp_path, name):
    parameter, new = CHANGED[name]
    plain = fit(**{parameter: new()})
    for _ in range(2):
        with pytest.warns(MemoryWarning, match=f"training changed what {parameter} holds"):
            found = fit(tmp_path, **{parameter: new()})
        assert_same(found, plain)
    assert entries(tmp_path) == []


def test_weights_of_clients_that_a_relabeler_changes_are_none_of_it(tmp_path):
    """A relabeler is used after the state was stored, so it may change as it likes."""

    class Own(FedReLaRelabeler):
        def fit(self, Q, y, sample_weight=None):
            self.seen = getattr(self, "seen", 0) + 1
            return super().fit(Q, y, sample_weight)

    for _ in range(2):
        assert_same(fit(tmp_path, relabeler=Own(0.2)), fit(relabeler=Own(0.2)))
    assert len(entries(tmp_path)) == 1
