"""Descriptions of code: by its source and all that it refers to, of packages by name and version."""

import enum
import importlib
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch
from torch import nn

from fedrela_sk.federation.cache._fingerprint import describe, fingerprint
from fedrela_sk.federation.cache._source import NotKeyable, release

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


@dataclass
class Rates:
    rate: float = 0.5
    others: list = field(default_factory=list)

    def __call__(self, t):
        return self.rate**t


@dataclass(frozen=True, order=True)
class Frozen:
    rate: float = 0.5


@dataclass(slots=True)
class Tight:
    rate: float = 0.5


def test_dataclasses_count_by_class_and_state():
    things = [kind(rate) for kind in (Rates, Frozen, Tight) for rate in (0.5, 0.25)]
    things += [Rates(0.5, [1]), Rates, Frozen, Tight]
    assert len({describe(thing) for thing in things}) == len(things)
    assert describe(Rates(0.5)) == describe(Rates())


def test_what_dataclass_adds_counts():
    def make(default, **options):
        @dataclass(**options)
        class Made:
            rate: float = default

        return Made

    kinds = [make(0.5), make(0.25), make(0.5, frozen=True), make(0.5, order=True), make(0.5, repr=False)]
    assert len({describe(kind) for kind in kinds}) == len(kinds)
    assert describe(make(0.5)) == describe(make(0.5))

    with pytest.raises(NotKeyable, match="a lambda has no stable description"):
        describe(make(field(default_factory=lambda: 0.5)))


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
