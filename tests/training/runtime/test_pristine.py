"""A client starts from what was sent and nothing else: every place where a net could keep something."""

import copy
import random
import threading

import numpy as np
import pytest
import torch
from skorch import NeuralNetClassifier
from skorch.callbacks import Callback
from torch import nn

from fedrela_sk.exceptions import NetError
from fedrela_sk.training.runtime._pristine import Pristine, pristine_of
from fedrela_sk.training.runtime._replica import forgets
from fedrela_sk.training.runtime._same import same
from tests.training.helpers import OneWeight, make_loop, make_net, make_task, train


class Keeps(OneWeight):
    """A module whose output depends on what it saw before, kept in one way or another by a child."""

    def forward(self, X):
        return super().forward(X) * (1.0 + self.remember(X))


class Counter(Keeps):
    n = 0

    def remember(self, X):
        self.n += 1
        return self.n


class Listed(Keeps):
    def __init__(self):
        super().__init__()
        self.seen = {"rows": []}

    def remember(self, X):
        self.seen["rows"].append(float(X.sum()))
        return sum(self.seen["rows"])


class Hidden(Keeps):
    def __init__(self):
        super().__init__()
        self.h = None

    def remember(self, X):
        self.h = X.detach().mean() if self.h is None else self.h + X.detach().mean()
        return self.h


class OutsideBuffer(Keeps):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros((), dtype=torch.float64), persistent=False)

    def remember(self, X):
        self.total += X.sum()
        return self.total


class ReplacedOutsideBuffer(OutsideBuffer):
    def remember(self, X):
        self.total = self.total + X.sum()
        return self.total


class LateBuffer(Keeps):
    def remember(self, X):
        if not hasattr(self, "late"):
            self.register_buffer("late", X.detach().mean(), persistent=False)
        return self.late


class LateModule(Keeps):
    def remember(self, X):
        if not hasattr(self, "late"):
            self.late = nn.Softplus(beta=float(X.sum()))
        return self.late(torch.ones(1, dtype=torch.float64))


class Nested(Keeps):
    """The counter is on a layer of torch's own, two levels down."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Identity())

    def remember(self, X):
        self.body[0].n = getattr(self.body[0], "n", 0) + 1
        return self.body[0].n


class Box:
    def __init__(self):
        self.n = 0


class OwnObject(Keeps):
    def __init__(self):
        super().__init__()
        self.box = Box()

    def remember(self, X):
        self.box.n += 1
        return self.box.n


class OwnRandom(Keeps):
    def __init__(self):
        super().__init__()
        self.draw = random.Random(0)

    def remember(self, X):
        return self.draw.random()


class OwnGenerator(Keeps):
    def __init__(self):
        super().__init__()
        self.draw = np.random.default_rng(0)

    def remember(self, X):
        return self.draw.normal()


class OwnArray(Keeps):
    def __init__(self):
        super().__init__()
        self.seen = np.zeros(1)

    def remember(self, X):
        self.seen += 1
        return float(self.seen[0])


class Freezes(Keeps):
    """Learns in its first two steps only."""

    n = 0

    def remember(self, X):
        self.w.requires_grad_(self.n < 2)
        self.n += 1
        return 0 * self.w.sum() + 0 * self.other

    def __init__(self):
        super().__init__()
        self.other = nn.Parameter(torch.zeros(1, dtype=torch.float64))


class Hooks(Keeps):
    """Every call adds a hook, each of which doubles the output."""

    def remember(self, X):
        self.register_forward_hook(lambda module, inputs, output: 2 * output)
        return 0.0


class RememberingLoss(nn.CrossEntropyLoss):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))
        self.n = 0

    def forward(self, output, y):
        self.calls += 1
        self.n += 1
        return (self.n + self.calls) * super().forward(output, y)


class RememberingCallback(Callback):
    def initialize(self):
        self.steps = 0
        return self

    def on_grad_computed(self, net, named_parameters, **kwargs):
        self.steps += 1
        for _, p in named_parameters:
            p.grad *= self.steps


class NamesLikeANet(Callback):
    """Keeps what it remembers under a name that a net has too."""

    def initialize(self):
        self.history_ = []
        return self

    def on_grad_computed(self, net, named_parameters, **kwargs):
        self.history_.append(1)
        for _, p in named_parameters:
            p.grad *= len(self.history_)


class TouchesTheNet(Callback):
    """Changes settings of the net and of its module as training goes on."""

    def on_grad_computed(self, net, named_parameters, **kwargs):
        net.scale = getattr(net, "scale", 1) + 1
        net.module_.scale = getattr(net.module_, "scale", 1) + net.scale
        for _, p in named_parameters:
            p.grad *= net.module_.scale


class RememberingNet(NeuralNetClassifier):
    def infer(self, x, **fit_params):
        self.n_inferred = getattr(self, "n_inferred", 0) + 1
        return self.n_inferred * super().infer(x, **fit_params)


class RememberingSGD(torch.optim.SGD):
    def step(self, closure=None):
        self.n = getattr(self, "n", 0) + 1
        for group in self.param_groups:
            group["lr"] *= self.n
        return super().step(closure)


MODULES = [Counter, Listed, Hidden, OutsideBuffer, ReplacedOutsideBuffer, LateBuffer, LateModule, Nested, OwnObject,
           OwnRandom, OwnGenerator, OwnArray, Freezes, Hooks]  # fmt: skip
SETTINGS = [
    *(pytest.param({"module": module}, id=module.__name__) for module in MODULES),
    pytest.param({"criterion": RememberingLoss}, id="criterion"),
    pytest.param({"callbacks": [RememberingCallback()]}, id="callback"),
    pytest.param({"callbacks": [RememberingCallback(), RememberingCallback()]}, id="two callbacks of a kind"),
    pytest.param({"callbacks": [NamesLikeANet()]}, id="callback with names of a net"),
    pytest.param({"callbacks": [TouchesTheNet()]}, id="callback on the net"),
    pytest.param({"kind": RememberingNet}, id="net"),
    pytest.param({"optimizer": RememberingSGD}, id="optimizer"),
]
X = [1.0, 2.0, -1.0, 0.5, 3.0, -2.0]
ROWS = {"a": [0, 1], "b": [2, 3], "c": [4, 5]}


def loop_with(settings):
    return make_loop(X, batch_size=1, max_epochs=2, lr=0.01, **settings)


def updates_of(settings, keys):
    """Every client's weight after one round of the clients `keys`, and after a second one."""
    loop = loop_with(settings)
    start = {name: p.detach().clone() for name, p in loop.net.module_.named_parameters()}
    tasks = [make_task(loop, ROWS[key], [0, 1], key=key, params=start) for key in keys]
    rounds = [train(loop, tasks, round) for round in range(2)]
    return {key: [round[key].tensors["w"].item() for round in rounds] for key in keys}


@pytest.mark.parametrize("settings", SETTINGS)
def test_what_a_net_keeps_does_not_reach_the_next_client(settings):
    together, turned = updates_of(settings, "abc"), updates_of(settings, "cba")
    for key in "abc":
        assert together[key] == turned[key] == updates_of(settings, key)[key]


@pytest.mark.parametrize("settings", SETTINGS)
def test_it_does_reach_the_next_batch_of_the_same_client(settings):
    """Otherwise the test above would hold for nets that keep nothing."""
    plain = {"criterion": nn.CrossEntropyLoss} if "criterion" in settings else {}
    assert updates_of(settings, "a") != updates_of(plain, "a")


@pytest.mark.parametrize("settings", SETTINGS[:-1])
def test_after_training_the_net_is_as_it_was(settings):
    loop = loop_with(settings)
    reference = Pristine(loop.net.module_, loop.net.criterion_, loop.net, dict(loop.net.callbacks_))
    train(loop, [make_task(loop, ROWS["a"], [0, 1])])
    assert reference.moved()
    loop.forget()
    assert reference.moved() == []


class Uncopyable(OneWeight):
    def __init__(self):
        super().__init__()
        self.source = (n for n in range(10))


def test_what_cannot_be_put_back_is_refused_by_name():
    with pytest.raises(NetError, match=r"attribute 'source' of the module cannot be copied \(TypeError"):
        make_loop(X, module=Uncopyable)


def test_a_lock_holds_nothing_of_a_client():
    net = make_net()
    net.module_.turn = threading.Lock()
    assert Pristine(net.module_).moved() == []


def test_nets_of_known_parts_are_not_looked_at():
    known = NeuralNetClassifier(
        nn.Linear, module__in_features=1, module__out_features=2, criterion=nn.CrossEntropyLoss
    )
    net = known.initialize()
    assert forgets(net)
    assert pristine_of(net, ()) is None
    assert pristine_of(net, (RememberingCallback(),)) is not None
    net.module_.register_forward_hook(lambda *args: None)
    assert not forgets(net)


def test_weights_that_torch_computes_before_each_pass():
    """torch's older `weight_norm` keeps a computed tensor, which cannot be copied as such."""

    class Normed(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.utils.weight_norm(nn.Linear(1, 2).double())

        def forward(self, X):
            return self.layer(X)

    loop = make_loop(X, module=Normed, criterion=nn.CrossEntropyLoss)
    updates = [
        train(loop, [make_task(loop, ROWS["a"], [0, 1], params=None)], round)["a"] for round in range(2)
    ]
    assert all(torch.isfinite(t).all() for update in updates for t in update.tensors.values())


# ---------------------------------------------------------------------------------- what is the same


class Own:
    def __init__(self, value):
        self.value = value


@pytest.mark.parametrize(
    "value",
    [1, 1.5, float("nan"), "a", b"a", None, True, (1, [2.0, {"a": {3}}]), np.arange(3), np.array(["a", None]),
     torch.ones(2), torch.tensor([float("nan")]), Own(1), np.float32(1), torch.float32, random.Random(0),
     np.random.default_rng(0), nn.ReLU],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_copies_are_the_same(value):
    assert same(value, copy.deepcopy(value))


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (1, 1.0), (True, 1), ([1], (1,)), ({"a": 1}, {"a": 2}), ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (np.arange(2), np.arange(2.0)), (np.zeros(2), np.zeros((2, 1))),
        (torch.ones(1), torch.ones(1, requires_grad=True)),
        (torch.zeros(1), torch.zeros(1).double()), (Own(1), Own(2)), (Own([1]), Own([1, 2])),
        (np.array(["a", None]), np.array(["a", 1], dtype=object)), (random.Random(0), random.Random(1)),
        ((n for n in ()), (n for n in ())),
    ],
)  # fmt: skip
def test_what_differs_is_seen(a, b):
    assert not same(a, b)


def test_things_that_hold_themselves_can_be_compared():
    a, b = [1], [1]
    a.append(a)
    b.append(b)
    assert same(a, b)


# ----------------------------------------------------------------------- draws from global generators


class DrawsFromNumPy(OneWeight):
    def forward(self, X):
        return super().forward(X) * np.random.rand()  # noqa: NPY002 - what users write


class DrawsFromPython(OneWeight):
    def forward(self, X):
        return super().forward(X) * random.random()


class DrawsFromTorch(OneWeight):
    def forward(self, X):
        return super().forward(X) * torch.rand(()).item()


@pytest.mark.parametrize("module", [DrawsFromNumPy, DrawsFromPython, DrawsFromTorch])
def test_global_generators_are_the_clients_own_and_come_back(module):
    states = np.random.get_state()[1].copy(), random.getstate(), torch.get_rng_state()  # noqa: NPY002
    settings = {"module": module}
    together, turned = updates_of(settings, "abc"), updates_of(settings, "cba")
    for key in "abc":
        assert together[key] == turned[key] == updates_of(settings, key)[key]
        assert together[key][0] != together[key][1], "rounds draw anew"
    np.testing.assert_array_equal(np.random.get_state()[1], states[0])  # noqa: NPY002
    assert random.getstate() == states[1]
    assert torch.equal(torch.get_rng_state(), states[2])
