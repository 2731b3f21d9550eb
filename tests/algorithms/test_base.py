"""Hooks and their defaults: an algorithm without hooks of its own is FedAvg."""

import dataclasses

import numpy as np
import pytest
import torch
from sklearn.base import clone

from fedrela_sk.aggregation import WeightedMean
from fedrela_sk.algorithms import Algorithm, Broadcast, Job, Local, LocalRun, RoundFacts

MODULE = torch.nn.Identity()
PARAMS = {"w": torch.tensor([1.0]), "n": torch.tensor(2)}
HOOKS = [
    "check", "caution", "prepare_module", "shared", "server_init", "client_init", "server_query",
    "server_broadcast", "server_weights", "client_begin", "client_order", "client_row_losses", "client_loss",
    "client_penalty", "client_correct", "client_decoupled", "client_finish", "server_aggregator", "server_step",
    "server_train", "predict_params", "personal_params", "unused_hooks",
]  # fmt: skip


class Prox(Algorithm):
    def __init__(self, mu=0.5):
        self.mu = mu

    def client_penalty(self, params, local):
        return self.mu


class Child(Prox):
    pass


def test_defaults_change_nothing():
    algorithm, anchor, grads, state = Algorithm(), {"w": torch.zeros(1)}, {"w": torch.ones(1)}, {"c": 1}
    local = Local(anchor=anchor, state=state, server={}, counts=None)
    run = LocalRun(n_steps=1, lr=0.1, n_rows=2, weight=3.0)
    facts = RoundFacts(round=0, n_participants=1, n_clients=2, lr=0.1)
    job = Job(n_clients=2, n_classes=3, classes=np.arange(3), seed=0, like=torch.empty(0))
    weights = np.array([1.0, 2.0])
    assert algorithm.check() is None
    assert algorithm.prepare_module(MODULE, 3) is MODULE
    assert algorithm.shared(PARAMS) == ("w", "n")
    assert algorithm.server_init(PARAMS, job) == {}
    assert algorithm.client_init(PARAMS) == {}
    assert algorithm.server_query(0) is None
    assert algorithm.server_broadcast(state) == Broadcast({}, {}, {})
    assert algorithm.server_weights(weights, np.arange(2), state) is weights
    assert algorithm.client_begin(None, None, local) == {}
    assert algorithm.client_order(np.zeros(2), 1, 3, None) is None
    assert algorithm.client_penalty(PARAMS, local) == 0.0
    assert algorithm.client_correct(grads, PARAMS, local) is grads
    assert algorithm.client_decoupled(PARAMS, local) == {}
    sent, kept = algorithm.client_finish(PARAMS, local, run)
    assert sent is PARAMS
    assert kept is state
    params, server = algorithm.server_step(PARAMS, anchor | {"extra": torch.ones(1)}, state, facts)
    assert params == PARAMS | anchor
    assert server is state
    assert algorithm.server_train(None, PARAMS, state, facts) == (PARAMS, state)
    assert algorithm.predict_params(PARAMS, state, None) is PARAMS
    assert algorithm.predict_params(PARAMS, state, None, relabeling=True) is PARAMS
    assert algorithm.unused_hooks() == ()
    assert algorithm.personal_params(PARAMS, anchor | {"gone": torch.ones(1)}) == PARAMS | anchor


@pytest.mark.parametrize("hook", ["client_row_losses", "client_loss"])
def test_a_loss_is_the_criterions_unless_a_method_has_one(hook):
    said = rf'Prox has no {hook} of its own. Call it where uses\("{hook}"\) is true, .* the net\'s criterion'
    with pytest.raises(NotImplementedError, match=said):
        getattr(Prox(), hook)(None, None, None)


def test_every_round_has_an_aggregator_of_its_own():
    algorithm = Algorithm()
    first, second = algorithm.server_aggregator(), algorithm.server_aggregator()
    assert type(first) is WeightedMean
    assert first is not second


def test_an_algorithm_knows_its_own_hooks():
    assert [hook for hook in HOOKS if Algorithm().uses(hook)] == []
    assert [hook for hook in HOOKS if Prox().uses(hook)] == ["client_penalty"]
    assert [hook for hook in HOOKS if Child().uses(hook)] == ["client_penalty"]


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


def test_a_job_names_the_parameters_that_learn():
    module = torch.nn.Sequential(torch.nn.Linear(2, 2, bias=False), torch.nn.BatchNorm1d(2))
    module[1].bias.requires_grad_(False)
    job = Job(n_clients=1, n_classes=2, classes=np.arange(2), seed=0, like=torch.empty(0), module=module)
    assert job.trainable == ("0.weight", "1.weight")


def test_facts_about_a_run_cannot_be_changed():
    run = LocalRun(n_steps=1, lr=0.1, n_rows=2, weight=3.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        run.lr = 1.0
