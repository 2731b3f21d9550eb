"""The public names: each loads on first use, and nothing else is there."""

import importlib

import pytest

import fedrela_sk
from fedrela_sk._version import __version__


def test_version():
    assert fedrela_sk.__version__ == __version__
    assert all(part.isdigit() for part in __version__.split(".")[:2])


@pytest.mark.parametrize("name", fedrela_sk._NAMES)
def test_a_public_name_is_what_its_room_defines(name):
    room = importlib.import_module(f"fedrela_sk.{fedrela_sk._NAMES[name]}")
    thing = getattr(fedrela_sk, name)
    assert thing is getattr(room, name)
    assert thing.__name__ == name
    assert name in room.__all__


@pytest.mark.parametrize("name", fedrela_sk._ROOMS)
def test_a_room_is_an_attribute(name):
    assert getattr(fedrela_sk, name) is importlib.import_module(f"fedrela_sk.{name}")


def test_everything_is_listed_once():
    assert len(set(fedrela_sk.__all__)) == len(fedrela_sk.__all__)
    assert set(fedrela_sk.__all__) == {"__version__", *fedrela_sk._NAMES, *fedrela_sk._ROOMS}
    assert dir(fedrela_sk) == sorted(fedrela_sk.__all__)
    namespace = {}
    exec("from fedrela_sk import *", namespace)
    assert set(fedrela_sk.__all__) <= set(namespace)


@pytest.mark.parametrize("name", ["FedReLa", "_nothing", "sklearn"])
def test_other_names_are_not_there(name):
    with pytest.raises(AttributeError, match=f"module 'fedrela_sk' has no attribute '{name}'"):
        getattr(fedrela_sk, name)
