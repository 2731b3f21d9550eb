"""Old public names: every row of the table works with a warning, and the helpers do what they promise."""

import copy
import pickle
import warnings
from dataclasses import dataclass, fields, replace
from importlib import import_module
from inspect import signature

import pytest
from sklearn.base import BaseEstimator, clone

from fedrela_sk import _deprecation
from fedrela_sk._deprecation import (
    PRIVATE,
    REMOVED_IN,
    RENAMED,
    old_attributes,
    old_keywords,
    old_members,
    with_new_names,
)
from fedrela_sk._version import __version__

ROWS = [(place, old, new) for place, names in RENAMED.items() for old, new in names.items()]


def public(place):
    """The room, or the class or function of a room, that a row of the table names."""
    if place.count(".") == 1:
        return import_module(place)
    room, _, name = place.rpartition(".")
    return getattr(import_module(room), name)


def silent(call):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return call()


def warned(call, match):
    """The result of a call that warns exactly once, at a line of this file."""
    with pytest.warns(FutureWarning, match=match) as caught:
        result = call()
    assert [warning.filename for warning in caught] == [__file__]
    return result


@pytest.mark.parametrize(("place", "old", "new"), ROWS)
def test_every_row_of_the_table_works(place, old, new):
    thing, owner = public(place), place.rpartition(".")[2]
    match = f"`{old}` of .*{owner} is now `{new}`.*removed in fedrela_sk {REMOVED_IN}"
    if place.count(".") == 1:
        assert warned(lambda: getattr(thing, old), match) is silent(lambda: getattr(thing, new))
        assert old not in thing.__all__
        return
    assert new in signature(thing).parameters
    assert old not in signature(thing).parameters
    with pytest.warns(FutureWarning, match=match), pytest.raises(TypeError, match="no_such"):
        thing(**{old: 1, "no_such": 2})
    with pytest.raises(TypeError, match=f"got both `{new}` and its old name `{old}`"):
        thing(**{old: 1, new: 1})
    if isinstance(thing, type):
        assert isinstance(getattr(thing, old), property)


@pytest.mark.parametrize(
    ("room", "name"), [(room, name) for room, names in PRIVATE.items() for name in names]
)
def test_what_was_public_by_accident_can_still_be_had(room, name):
    module, home = import_module(room), import_module(f"{room}.{PRIVATE[room][name]}")
    match = f"`{name}` of {room} is not part of its public names.*fedrela_sk {REMOVED_IN}"
    assert warned(lambda: getattr(module, name), match) is getattr(home, name)
    assert name not in module.__all__


def test_what_was_never_there_is_an_attribute_error():
    for room in PRIVATE:
        with pytest.raises(AttributeError, match="no attribute 'no_such'"):
            _ = import_module(room).no_such


def test_old_names_are_gone_in_time():
    """When this fails, empty the table and take away the decorators it names."""
    parts = ([int(part) for part in version.split(".")[:2]] for version in (__version__, REMOVED_IN))
    assert next(parts) < next(parts)


class Estimator(BaseEstimator):
    def __init__(self, size=1, *, other=None):
        self.size = size
        self.other = other


@dataclass(frozen=True)
class Record:
    size: int
    other: int = 0


def function(size=1, *, other=None):
    """What it does."""
    return size, other


@pytest.fixture
def decorated(monkeypatch):
    """The three above, whose `size` was called `length` and `n`."""
    names = {"length": "size", "n": "size"}
    things = [Estimator, Record, function]
    monkeypatch.setattr(
        _deprecation,
        "RENAMED",
        {"tests.test_deprecation": {"Old": "Record"}}
        | {f"tests.test_deprecation.{thing.__name__}": names for thing in things},
    )
    for cls in (Estimator, Record):  # what the decorator writes is taken back
        monkeypatch.setattr(cls, "__init__", cls.__init__)
        for name in ("set_params", "__setstate__", *names):
            monkeypatch.setattr(cls, name, getattr(cls, name, None), raising=False)
        if cls is Record:
            for name in ("set_params", "__setstate__"):
                monkeypatch.delattr(cls, name)
        old_attributes(cls)
    return old_keywords(function)


def test_a_keyword_of_a_function(decorated):
    assert silent(lambda: decorated(2, other=3)) == (2, 3)
    assert warned(lambda: decorated(length=2, other=3), "`length` of function is now `size`") == (2, 3)
    with pytest.raises(TypeError, match="got both `size` and its old name `n`"):
        decorated(size=1, n=1)
    assert decorated.__doc__ == "What it does."


@pytest.mark.usefixtures("decorated")
def test_a_keyword_of_an_estimator():
    assert silent(lambda: Estimator(5)).size == 5
    old = warned(lambda: Estimator(n=5), "`n` of Estimator is now `size`")
    assert old.get_params() == {"size": 5, "other": None}
    assert silent(lambda: repr(old)) == "Estimator(size=5)"
    assert silent(lambda: clone(old)).size == 5
    assert warned(lambda: old.set_params(length=7, other=2), "`length`") is old
    assert (old.size, old.other) == (7, 2)
    outer = Estimator(other=old)
    warned(lambda: outer.set_params(other__n=9), "`n`")
    assert old.size == 9
    with pytest.raises(ValueError, match="Invalid parameter 'none'"):
        old.set_params(none=1)


@pytest.mark.usefixtures("decorated")
def test_a_child_of_an_estimator():
    class Child(Estimator):
        pass

    child = warned(lambda: Child(length=4), "`length` of Estimator is now `size`")
    assert silent(lambda: clone(child)).get_params() == {"size": 4, "other": None}


@pytest.mark.usefixtures("decorated")
def test_an_attribute():
    record = warned(lambda: Record(length=3), "`length` of Record is now `size`")
    assert silent(lambda: record.size) == 3
    assert warned(lambda: record.n, "`n` of Record is now `size`") == 3
    assert [field.name for field in fields(record)] == ["size", "other"]
    assert silent(lambda: replace(record, other=1)) == Record(3, 1)
    estimator = Estimator()
    warned(lambda: setattr(estimator, "n", 4), "`n`")
    assert estimator.size == 4


@pytest.mark.usefixtures("decorated")
@pytest.mark.parametrize("make", [Estimator, Record])
def test_what_was_stored_is_read_without_a_warning(make):
    thing = make(size=3)
    thing.__dict__["length"] = thing.__dict__.pop("size")
    for copied in (pickle.loads(pickle.dumps(thing)), copy.copy(thing)):
        assert vars(copied)["size"] == 3
        assert "length" not in vars(copied)
    assert silent(lambda: with_new_names(make, {"n": 1, "other": 2})) == {"size": 1, "other": 2}


@pytest.mark.usefixtures("decorated")
def test_a_name_of_a_module():
    ask = old_members("tests.test_deprecation")
    assert warned(lambda: ask("Old"), "`Old` of tests.test_deprecation is now `Record`") is Record
    with pytest.raises(AttributeError, match=r"module 'tests.test_deprecation' has no attribute 'New'"):
        ask("New")
