"""Descriptions: the same in every process, another one wherever a result could differ."""

import enum
import functools
import importlib
import math
import operator
import sys
import threading
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.model_selection import KFold
from skorch import NeuralNetClassifier
from skorch.callbacks import GradientNormClipping
from torch import nn

from fedrela_sk import FedReLaRelabeler
from fedrela_sk.federation._code import NotKeyable, release
from fedrela_sk.federation._fingerprint import describe, fingerprint

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
    assert describe({"a": 1, "b": 2}) == describe({"b": 2, "a": 1})
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


# --- code -----------------------------------------------------------------------------------------------

RATE = 0.5


def halve(t):
    return RATE**t


def count_down(t, *, step=1):
    return 0 if t <= 0 else count_up(t - step)


def count_up(t):
    return count_down(t - 1)


class Schedule:
    """A callable object."""

    def __init__(self, rate):
        self.rate = rate

    def __call__(self, t):
        return self.rate**t

    def factor(self, t):
        return self.rate**t


class Slotted:
    __slots__ = ("rate",)

    def __init__(self, rate):
        self.rate = rate


class Kind(enum.Enum):
    FIRST = 1
    SECOND = 2


def test_a_function_is_described_by_what_it_names(monkeypatch):
    before = describe(halve)
    assert before == describe(halve)
    monkeypatch.setitem(halve.__globals__, "RATE", 0.25)
    assert describe(halve) != before


def test_functions_that_call_each_other_are_described(monkeypatch):
    before = describe(count_down)
    monkeypatch.setattr(count_down, "__kwdefaults__", {"step": 2})
    assert describe(count_down) != before
    assert describe(count_up) != before


def test_objects_count_by_class_and_state():
    things = [
        Schedule(0.5),
        Schedule(0.25),
        Schedule(0.5).factor,
        Schedule(0.25).factor,
        Schedule(0.5).__call__,
    ]
    things += [Slotted(1), Slotted(2), Kind.FIRST, Kind.SECOND, Kind, Schedule]
    assert len({describe(thing) for thing in things}) == len(things)
    assert describe(Schedule(0.5).factor) == describe(Schedule(0.5).factor)
    assert describe(Slotted(1)) == describe(Slotted(1))


def test_closures_count_by_what_they_hold():
    def make(rate):
        def factor(t):
            return rate**t

        class Inner:
            def __init__(self):
                super().__init__()
                self.rate = rate

        return factor, Inner

    assert describe(make(0.5)) == describe(make(0.5))
    assert describe(make(0.5)[0]) != describe(make(0.25)[0])
    assert describe(make(0.5)[1]) != describe(make(0.25)[1])


def test_a_variable_that_is_not_set_yet_is_no_obstacle():
    def outer():
        def inner():
            return later

        text = describe(inner)
        later = 1
        return text, describe(inner)

    first, second = outer()
    assert first != second


NET = """
import functools
import logging
import torch
from torch import nn
import companion

RATE = 0.5
logger = logging.getLogger("edited")

def act(x):
    logger.info("called")
    return torch.relu(x)

class Block(nn.Module):
    scale = 3.0

    def forward(self, x):
        return [act(x) for _ in range(1)][0]

class Base(nn.Module):
    @property
    def rate(self):
        return RATE

    @staticmethod
    def shift(x):
        return x + 1.5

    @functools.cached_property
    def power(self):
        return 7

class Net(Base):
    def __init__(self, units=4):
        super().__init__()
        self.first, self.last, self.block = nn.Linear(3, units), nn.Linear(units, 3), Block()

    def forward(self, x):
        return self.last(companion.twice(self.block(self.first(self.shift(x)))) * self.rate)

def unused(x):
    return 123
"""
COMPANION = """
def twice(x):
    return 2 * x
"""


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Write a module of the user's own, and what it imports, and import both."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def write_and_import(text=NET, companion=COMPANION):
        for name, content in (("edited_net", text), ("companion", companion)):
            Path(tmp_path, f"{name}.py").write_text(content)
            monkeypatch.delitem(sys.modules, name, raising=False)
        importlib.invalidate_caches()
        return importlib.import_module("edited_net")

    return write_and_import


EDITS = {
    "a default": ("units=4", "units=5"),
    "a function it calls": ("torch.relu(x)", "torch.tanh(x)"),
    "a constant": ("RATE = 0.5", "RATE = 0.25"),
    "a property": ("return RATE", "return 2 * RATE"),
    "a static method of its base": ("x + 1.5", "x + 2.5"),
    "a cached property": ("return 7", "return 8"),
    "a setting of another class": ("scale = 3.0", "scale = 3.5"),
    "code inside an expression": ("range(1)", "range(2)"),
}


def test_edited_source_is_another_thing_wherever_it_is_used(load):
    before = describe(load().Net)
    assert describe(load().Net) == before
    assert describe(load(NET.replace("123", "124")).Net) == before  # nothing of it is used
    seen = {before, describe(load(companion=COMPANION.replace("2", "3")).Net)}
    for old, new in EDITS.values():
        assert NET.count(old) == 1
        seen.add(describe(load(NET.replace(old, new)).Net))
    assert len(seen) == len(EDITS) + 2


def test_source_edited_under_running_code_is_not_taken_for_it(load, tmp_path):
    """The file has changed, the old code still runs: neither the old nor the new description fits."""
    old = load().act
    first = describe(old)
    Path(tmp_path, "edited_net.py").write_text(NET.replace("torch.relu(x)", "torch.tanh(x)"))
    between = describe(old)
    new = describe(load(NET.replace("torch.relu(x)", "torch.tanh(x)")).act)
    assert len({first, between, new}) == 3


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
    namespace = {}
    exec("def typed(t): return t", namespace | {"__name__": "typed_in"}, namespace)
    circle = []
    circle.append(circle)
    for thing, message in (
        (lambda t: 1.0, "a lambda has no stable description: define a named function"),
        ({"a": [lambda t: 1.0]}, "a lambda has no stable description"),
        (namespace["typed"], r"\.typed has no source text that could be compared"),
        (threading.Lock(), r"lock.* has no stable description"),
        (Schedule(threading.Lock()), r"lock.* has no stable description"),
        (circle, "it holds something that holds itself"),
    ):
        with pytest.raises(NotKeyable, match=message):
            fingerprint(thing)


def test_code_of_packages_goes_by_name_and_version(monkeypatch):
    assert release(None) == release("math") == release("os.path") == f"python {sys.version.split()[0]}"
    assert release("torch.nn.functional") == f"torch {torch.__version__}"
    assert release("fedrela_sk.federation") == release("fedrela_sk")
    assert release("joblib").startswith("joblib ")
    assert release(__name__) is release("__main__") is None
    before = fingerprint(nn.Linear)
    monkeypatch.setattr(torch, "__version__", "0.0")
    assert fingerprint(nn.Linear) != before


def test_a_file_of_the_users_named_like_one_of_pythons_is_the_users(tmp_path, monkeypatch):
    code = importlib.import_module("code")
    assert release("code") is not None
    monkeypatch.setattr(code, "__file__", str(tmp_path / "code.py"))
    assert release("code") is None
    assert release("never_imported") is None
