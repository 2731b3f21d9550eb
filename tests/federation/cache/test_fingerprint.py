"""Descriptions: the same in every process, another one wherever a result could differ."""

import enum
import functools
import math
import operator
import sys
import threading
from collections import defaultdict
from fractions import Fraction

import numpy as np
import pytest
import torch
from sklearn.model_selection import KFold
from skorch import NeuralNetClassifier
from skorch.callbacks import GradientNormClipping
from torch import nn

from fedrela_sk import FedReLaRelabeler
from fedrela_sk.federation.cache._fingerprint import describe, fingerprint
from fedrela_sk.federation.cache._source import NotKeyable
from tests.federation.cache.test_source import Schedule

# --- values ---------------------------------------------------------------------------------------------

ALL_DIFFERENT = {
    "none": None,
    "text none": "None",
    "true": True,
    "one": 1,
    "one as float": 1.0,
    "text one": "1",
    "text of a float": "1.0",
    "bytes": b"1",
    "list": [1],
    "tuple": (1,),
    "nested": [[1]],
    "set": {1},
    "dict": {1: 1},
    "dict of text": {"1": 1},
    "float64": np.float64(1),
    "float32": np.float32(1),
    "array": np.array([1.0]),
    "matrix": np.array([[1.0]]),
    "ints": np.array([1]),
    "empty": np.zeros((3, 0)),
    "empty the other way": np.zeros((0, 3)),
    "texts": np.array(["1"]),
    "objects": np.array(["1", None], dtype=object),
    "tensor": torch.ones(1),
    "double tensor": torch.ones(1, dtype=torch.float64),
    "short tensor": torch.ones(1, dtype=torch.bfloat16),
    "scalar tensor": torch.tensor(1.0),
    "parameter": nn.Parameter(torch.ones(1)),
    "dtype": torch.float64,
    "device": torch.device("cpu"),
    "fraction": Fraction(1),
    "complex": 1 + 0j,
    "slice": slice(1),
    "range": range(1),
    "dots": ...,
    "partial": functools.partial(max, 1),
    "other partial": functools.partial(min, 1),
    "builtin": len,
    "method of a list": [1].__getitem__,
    "method of another list": [2].__getitem__,
    "operator of a number": (1).__add__,
    "operator of another number": (2).__add__,
    "function of a package": np.mean,
    "ufunc": np.exp,
    "other ufunc": np.log,
    "function of C": math.exp,
    "torch function": torch.tanh,
    "other torch function": torch.relu,
    "compiled function": operator.add,
    "generator": np.random.default_rng(0),
    "generator elsewhere": np.random.default_rng(1),
    "old generator": np.random.RandomState(0),
    "estimator": FedReLaRelabeler(0.1),
    "estimator set otherwise": FedReLaRelabeler(0.2),
    "splitter": KFold(2),
    "splitter set otherwise": KFold(3),
    "splitter with a generator": KFold(3, shuffle=True, random_state=np.random.RandomState(0)),
    "splitter with another one": KFold(3, shuffle=True, random_state=np.random.RandomState(1)),
    "compiled function without a module": str.upper,
}


def test_values_that_differ_are_described_differently():
    texts = {name: describe(thing) for name, thing in ALL_DIFFERENT.items()}
    assert len(set(texts.values())) == len(texts), [
        (a, b) for a in texts for b in texts if a < b and texts[a] == texts[b]
    ]


def test_equal_values_are_described_alike_whatever_their_order_in_memory():
    assert describe({"x", "y", "z"}) == describe({"z", "y", "x"})
    array = np.arange(6.0).reshape(2, 3)
    assert describe(array) == describe(np.asfortranarray(array))
    assert describe(torch.from_numpy(array)) == describe(torch.from_numpy(array.T.copy()).T)
    assert describe(array[:, 1:]) == describe(array[:, 1:].copy())
    assert describe(np.random.RandomState(3)) == describe(np.random.RandomState(3))
    assert describe(float("nan")) == describe(float("nan"))


def test_one_changed_number_of_an_array_is_seen():
    array = np.arange(1000.0).reshape(100, 10)
    other = array.copy()
    other[57, 3] = np.nextafter(other[57, 3], np.inf)
    assert fingerprint(array) != fingerprint(other)
    assert fingerprint(torch.from_numpy(array)) != fingerprint(torch.from_numpy(other))


def test_the_fingerprint_is_a_digest_of_the_description():
    assert fingerprint([1, 2]) == fingerprint([1, 2]) != fingerprint([2, 1])
    assert len(fingerprint(None)) == 64


# --- modules and nets -----------------------------------------------------------------------------------


class Scaled(nn.Module):
    """What it computes depends on a plain attribute, on a buffer that is not saved, and on a hook."""

    def __init__(self, scale=1.0, shift=0.0):
        super().__init__()
        self.scale = scale
        self.register_buffer("shift", torch.tensor(shift), persistent=False)
        self.last = nn.Linear(2, 2)
        nn.init.ones_(self.last.weight)
        nn.init.ones_(self.last.bias)

    def forward(self, x):
        return self.last(x) * self.scale + self.shift


def double(module, inputs, output):
    return 2 * output


def test_module_instances_count_by_all_that_they_compute_with():
    hooked, frozen, evaluated, lazy, other = (Scaled() for _ in range(5))
    hooked.register_forward_hook(double)
    frozen.last.weight.requires_grad_(False)
    evaluated.eval()
    lazy.last = nn.Linear(2, 2, bias=False)
    nn.init.ones_(lazy.last.weight)
    with torch.no_grad():
        other.last.bias[1] = 2.0
    things = [Scaled(), Scaled(2.0), Scaled(shift=1.0), hooked, frozen, evaluated, lazy, other]
    assert len({describe(thing) for thing in things}) == len(things)
    assert describe(Scaled()) == describe(Scaled())


def test_settings_of_torchs_own_layers_count():
    things = [nn.Dropout(0.1), nn.Dropout(0.2), nn.LeakyReLU(0.1), nn.LeakyReLU(0.2), nn.CrossEntropyLoss()]
    things += [nn.CrossEntropyLoss(label_smoothing=0.1), nn.LSTM(2, 2), nn.LSTM(2, 2, num_layers=2)]
    assert len({describe(thing) for thing in things}) == len(things)


def test_nets_count_by_their_settings():
    def net(**changes):
        settings = {"module": Scaled, "module__scale": 1.0, "criterion": nn.CrossEntropyLoss, "lr": 0.1}
        return NeuralNetClassifier(**(settings | changes))

    things = [
        net(),
        net(module=nn.Linear),
        net(module=Scaled()),
        net(module__scale=2.0),
        net(lr=0.2),
        net(optimizer=torch.optim.Adam),
        net(optimizer__momentum=0.9),
        net(optimizer__weight_decay=0.9),
        net(batch_size=7),
        net(max_epochs=7),
        net(iterator_train__shuffle=True),
        net(criterion__weight=torch.ones(2)),
        net(criterion__weight=torch.tensor([1.0, 2.0])),
        net(callbacks=[GradientNormClipping(1.0)]),
        net(callbacks=[GradientNormClipping(2.0)]),
    ]
    assert len({describe(thing) for thing in things}) == len(things)
    assert describe(net()) == describe(net())


# --- what has no description ----------------------------------------------------------------------------


def test_what_has_no_description_says_so():
    circle = []
    circle.append(circle)
    for thing, message in (
        (lambda t: 1.0, "a lambda has no stable description: define a named function"),
        ({"a": [lambda t: 1.0]}, "a lambda has no stable description"),
        (threading.Lock(), r"lock.* has no stable description"),
        (Schedule(threading.Lock()), r"lock.* has no stable description"),
        (circle, "it holds something that holds itself"),
    ):
        with pytest.raises(NotKeyable, match=message):
            fingerprint(thing)


# --- what looks the same and is not --------------------------------------------------------------------------


def closure(rate):
    def factor(t):
        return rate**t

    return factor


def with_attribute(rate):
    def factor(t):
        return factor.rate**t

    factor.rate = rate
    return factor


class Plain:
    """Holds whatever it is given."""

    def __init__(self, **held):
        vars(self).update(held)


class Forgetful(Plain):
    def __getstate__(self):
        return {}


class ByName(Plain):
    def __reduce__(self):
        return "ByName"


class Ordered(dict):
    def __init__(self, pairs, note):
        super().__init__(pairs)
        self.note = note


class Int(int):
    def __new__(cls, value, note):
        self = super().__new__(cls, value)
        self.note = note
        return self


class Kind(enum.IntEnum):
    ONE = 1


class Private(nn.Module):
    """A layer that keeps what it computes with under a leading underscore."""

    def __init__(self, scale):
        super().__init__()
        self._scale = scale

    def forward(self, x):
        return x * self._scale


class Twice(nn.Module):
    def forward(self, x):
        return 2 * x


class Thrice(nn.Module):
    def forward(self, x):
        return 3 * x


def estimator(**held):
    found = KFold(3)
    vars(found).update(held)
    return found


def tied(tie):
    module = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    for layer in module:
        nn.init.ones_(layer.weight)
        nn.init.ones_(layer.bias)
    if tie:
        module[1].weight = module[0].weight
    return module


def hooked(hook, name):
    layer = nn.Linear(1, 1)
    nn.init.ones_(layer.weight)
    nn.init.ones_(layer.bias)
    if hook is not None:
        getattr(layer.weight, name)(hook)
    return layer


def negated(gradient):
    return -gradient


def zeroed(parameter):
    parameter.grad.zero_()


def installed(layer):
    """The same layer of a package that is not torch's."""
    layer.__class__ = type(layer.__class__.__name__, (layer.__class__,), {"__module__": "skorch.own"})
    return layer


def constant(module):
    for parameter in module.parameters():
        nn.init.ones_(parameter)
    return module


def in_layout(memory_format):
    return constant(nn.Conv2d(2, 2, 3)).to(memory_format=memory_format)


def unsaved(persistent):
    module = nn.Identity()
    module.register_buffer("scale", torch.ones(1), persistent=persistent)
    return module


def renamed(function):
    return functools.wraps(np.mean)(function)


def patched(forward):
    layer = constant(nn.Linear(1, 1))
    if forward is not None:
        layer.forward = forward
    return layer


LOOK_THE_SAME = {
    "two closures of one function": lambda: tuple(
        [closure(a), closure(b)] for a, b in ((1, 2), (2, 1), (1, 1), (2, 2))
    ),
    "attributes of a function": lambda: (with_attribute(1), with_attribute(2)),
    "order of a dictionary": lambda: ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    "order in a list": lambda: ([1, 2], [2, 1]),
    "a default dictionary": lambda: (defaultdict(int, a=1), defaultdict(float, a=1), {"a": 1}),
    "a child of dict": lambda: (Ordered({"a": 1}, "x"), Ordered({"a": 1}, "y"), {"a": 1}),
    "a child of int": lambda: (Int(1, "x"), Int(1, "y"), 1, Kind.ONE, True),
    "text of NumPy": lambda: (np.str_("a"), "a"),
    "a masked array": lambda: (np.ma.array([1, 2], mask=[0, 1]), np.ma.array([1, 2], mask=[1, 0]), np.array([1, 2])),
    "a frozen set": lambda: ({1, 2}, frozenset({1, 2})),
    "bytes": lambda: (b"1", bytearray(b"1")),
    "what an object hides from pickle": lambda: (Forgetful(rate=1), Forgetful(rate=2)),
    "attributes that are no parameters": lambda: (estimator(), estimator(rate=1), estimator(rate=2)),
    "cached functions": lambda: (functools.cache(closure(1)), functools.cache(closure(2)), closure(1)),
    "cached with other sizes": lambda: (functools.lru_cache(2)(closure(1)), functools.lru_cache(3)(closure(1))),
    "a function with the name of another": lambda: (renamed(closure(1)), renamed(closure(2)), np.mean),
    "an object with the name of a function": lambda: tuple(
        functools.update_wrapper(Schedule(rate), np.mean) for rate in (1, 2)
    ),
    "methods of a class": lambda: tuple(
        type("Own", (), {"f": kind(closure(1))}) for kind in (staticmethod, classmethod, property)
    ),
    "metaclasses": lambda: tuple(type(type)("Meta", (type,), {"rate": r})("Own", (), {}) for r in (1, 2)),
    "dunder attributes": lambda: (type("Own", (), {"__rate__": 1}), type("Own", (), {"__rate__": 2})),
    "private attributes of a package's layer": lambda: (installed(Private(1)), installed(Private(2))),
    "tied weights": lambda: (tied(True), tied(False)),
    "hooks on gradients": lambda: tuple(hooked(hook, "register_hook") for hook in (None, negated, closure(1))),
    "hooks on accumulated gradients": lambda: tuple(
        hooked(hook, "register_post_accumulate_grad_hook") for hook in (None, zeroed, closure(1))
    ),
    "layout of weights": lambda: (in_layout(torch.contiguous_format), in_layout(torch.channels_last)),
    "buffers that do not travel": lambda: (unsaved(True), unsaved(False)),
    "a forward of one layer alone": lambda: (patched(None), patched(closure(1)), patched(closure(2))),
    "a child of Tensor": lambda: (torch.ones(1), nn.Parameter(torch.ones(1), requires_grad=False)),
    "modules that torch rewrote": lambda: (torch.fx.symbolic_trace(Twice()), torch.fx.symbolic_trace(Thrice())),
}  # fmt: skip


def told(thing):
    """The description, or that there is none: nothing is stored then."""
    try:
        return describe(thing)
    except NotKeyable:
        return object()


@pytest.mark.parametrize("name", LOOK_THE_SAME)
def test_what_looks_the_same_is_told_apart(name):
    texts = [told(thing) for thing in LOOK_THE_SAME[name]()]
    assert len(set(texts)) == len(texts)


@pytest.mark.parametrize("name", [name for name in LOOK_THE_SAME if name != "modules that torch rewrote"])
def test_and_is_the_same_again(name):
    assert [describe(thing) for thing in LOOK_THE_SAME[name]()] == [
        describe(thing) for thing in LOOK_THE_SAME[name]()
    ]


REFUSED = {
    "stored by name": lambda: ByName(rate=1),
    "scripted": lambda: torch.jit.script(Twice()),
    "traced": lambda: torch.jit.trace(Twice(), torch.ones(1)),
    "sparse": lambda: torch.ones(2).to_sparse(),
    "a module of one's own": lambda: sys.modules[__name__],
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_told_apart_is_refused(name):
    with pytest.raises(NotKeyable):
        describe(REFUSED[name]())


class Raises:
    def __reduce_ex__(self, protocol):
        raise MemoryError("as it likes")


class RaisesLater:
    def get_params(self, deep=True):
        raise ZeroDivisionError("as it likes")


@pytest.mark.parametrize("kind", [Raises, RaisesLater])
def test_whatever_objects_raise_is_no_description(kind):
    with pytest.raises(NotKeyable):
        describe([kind()])
