"""Hooks and their defaults: an algorithm without hooks of its own is FedAvg."""

import dataclasses

import pytest
import torch
from sklearn.base import clone

from fedrela_sk.aggregation import WeightedMean
from fedrela_sk.algorithms import Algorithm, LocalRun

PARAMS = {"w": torch.tensor([1.0]), "n": torch.tensor(2)}
HOOKS = ["shared", "init_server", "init_client", "penalty", "correct", "finish", "aggregate", "step"]


class Prox(Algorithm):
    def __init__(self, mu=0.5):
        self.mu = mu

    def penalty(self, params, anchor, client_state, server_state):
        return self.mu


class Child(Prox):
    pass


def test_defaults_change_nothing():
    algorithm, anchor, grads, state = Algorithm(), {"w": torch.zeros(1)}, {"w": torch.ones(1)}, {"c": 1}
    run = LocalRun(n_steps=1, lr=0.1, n_rows=2, weight=3.0)
    assert algorithm.shared(PARAMS) == ("w", "n")
    assert algorithm.init_server(PARAMS) == {}
    assert algorithm.init_client(PARAMS) == {}
    assert algorithm.penalty(PARAMS, anchor, state, state) == 0.0
    assert algorithm.correct(grads, PARAMS, anchor, state, state) is grads
    sent, kept = algorithm.finish(PARAMS, anchor, state, state, run)
    assert sent is PARAMS
    assert kept is state
    params, server = algorithm.step(PARAMS, anchor, state)
    assert params is anchor
    assert server is state


def test_every_round_has_an_aggregator_of_its_own():
    algorithm = Algorithm()
    first, second = algorithm.aggregate(), algorithm.aggregate()
    assert type(first) is WeightedMean
    assert first is not second


def test_an_algorithm_knows_its_own_hooks():
    assert [hook for hook in HOOKS if Algorithm().overrides(hook)] == []
    assert [hook for hook in HOOKS if Prox().overrides(hook)] == ["penalty"]
    assert [hook for hook in HOOKS if Child().overrides(hook)] == ["penalty"]


def test_an_algorithm_is_an_estimator():
    algorithm = Prox(mu=0.1)
    assert algorithm.get_params() == {"mu": 0.1}
    assert repr(algorithm) == "Prox(mu=0.1)"
    assert clone(algorithm).set_params(mu=2).mu == 2
    assert algorithm.mu == 0.1


def test_a_method_averages_and_says_so_when_it_has_no_neutral_setting():
    assert Algorithm.averages is True
    assert Algorithm.neutral is None
    assert Algorithm.neutral_reason == "not stated"


def test_facts_about_a_run_cannot_be_changed():
    run = LocalRun(n_steps=1, lr=0.1, n_rows=2, weight=3.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        run.lr = 1.0
