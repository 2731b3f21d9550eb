"""Promises that every row of `ALGORITHMS` keeps."""

import inspect
from contextlib import nullcontext

import pytest

from fedrela_sk.algorithms import ALGORITHMS, Algorithm, FedAvg, LocalOnly
from fedrela_sk.participation import ClusteredSampling
from tests.algorithms.helpers import TwoLayers, fit, three_classes
from tests.algorithms.test_base import HOOKS

EVERY = pytest.mark.parametrize("kind", list(ALGORITHMS.values()), ids=list(ALGORITHMS))


@EVERY
def test_every_method_but_fedavg_has_something_of_its_own(kind):
    own = [hook for hook in HOOKS if kind().uses(hook)]
    assert own == ["check", "server_step"] if kind is FedAvg else own  # its server rate


@EVERY
def test_it_is_documented(kind):
    assert inspect.getdoc(kind) != inspect.getdoc(Algorithm)


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_rules_that_weigh_or_chain_models_are_refused_where_no_model_is_averaged(name):
    """CLIMB and FedNova send no model; FedDyn and SCAFFOLD count who takes part; alone there is nobody."""
    method, rule = ALGORITHMS[name], ClusteredSampling(share=0.7)
    refused, kind = not (method.averages and method.sends_model), method.__name__
    wanted = pytest.raises(ValueError, match=f"does not go with {kind}") if refused else nullcontext()
    with wanted:
        fit(name, TwoLayers, three_classes(60), participation=rule)


def test_fedavg_is_the_default_of_every_hook():
    assert ALGORITHMS["fedavg"] is FedAvg
    assert FedAvg.neutral == {}
    assert FedAvg.averages is True


def test_local_only_sends_nothing():
    assert ALGORITHMS["local_only"] is LocalOnly
    assert LocalOnly().shared(["a", "b"]) == ()
    assert LocalOnly.averages is False
    assert LocalOnly.neutral is None


def test_those_that_send_no_model():
    refused = {name for name, kind in ALGORITHMS.items() if not (kind.averages and kind.sends_model)}
    assert refused >= {"climb", "feddyn", "fednova", "local_only", "scaffold"}
    assert not refused & {"fedavg", "fedprox", "fedrod", "moon"}
