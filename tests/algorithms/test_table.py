"""Promises that every row of `ALGORITHMS` keeps."""

import inspect
from contextlib import nullcontext

import pytest
from sklearn.base import clone

from fedrela_sk.algorithms import ALGORITHMS, Algorithm, FedAvg, LocalOnly
from fedrela_sk.participation import ClusteredSampling
from tests.algorithms.helpers import TwoLayers, fit, three_classes
from tests.algorithms.test_base import HOOKS

EVERY = pytest.mark.parametrize("kind", list(ALGORITHMS.values()), ids=list(ALGORITHMS))


@EVERY
def test_the_constructor_only_stores(kind):
    algorithm = kind()
    assert vars(algorithm) == algorithm.get_params(deep=False)
    assert type(clone(algorithm)) is kind
    assert vars(clone(algorithm)) == vars(algorithm)


@EVERY
def test_a_neutral_setting_or_the_reason_why_there_is_none(kind):
    assert issubclass(kind, Algorithm)
    assert kind.neutral_reason != "not stated" or kind.neutral is not None
    if kind.neutral is not None:
        kind(**kind.neutral)


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
    refused = name in {"climb", "feddyn", "fednova", "local_only", "scaffold"}
    rule = ClusteredSampling(share=0.7)
    kind = ALGORITHMS[name].__name__
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
