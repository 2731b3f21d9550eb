"""FedNPC: the classifier that predicts has seen noise with random labels; training never sees it."""

import numpy as np
import pytest
import torch
from torch import nn

from fedrela_sk._random import Purpose
from fedrela_sk.algorithms import FedAvg, FedNPC
from fedrela_sk.training.runtime._generator import forked_generators, seed_generators
from tests.algorithms.heads import X, fit_small, model_of, run, softmax


def by_hand(W, b, n_steps=5, n_rows=10_000, lr=0.1, momentum=0.9):
    """(W, b) after SGD on noise, the gradient of the cross-entropy written out; draws as (seed, SERVER) has them."""
    speed_W, speed_b = np.zeros_like(W), np.zeros_like(b)
    with forked_generators("cpu"):
        seed_generators("cpu", 0, Purpose.SERVER)
        for _ in range(n_steps):
            labels = torch.randint(len(W), (n_rows,)).numpy()
            h = torch.randn(n_rows, W.shape[1]).double().numpy()
            residual = (softmax(h @ W.T + b) - np.eye(len(W))[labels]) / n_rows
            speed_W, speed_b = momentum * speed_W + residual.T @ h, momentum * speed_b + residual.sum(0)
            W, b = W - lr * speed_W, b - lr * speed_b
    return W, b


@pytest.mark.parametrize("params", [{}, {"n_steps": 3, "n_rows": 50, "lr": 0.5, "momentum": 0.2}])
def test_a_round_by_hand(params):
    fed = fit_small(FedNPC(**params) if params else "fednpc")
    average = fit_small(FedAvg()).net_.module_
    W, b = by_hand(average.weight.detach().numpy(), average.bias.detach().numpy(), **params)
    np.testing.assert_allclose(fed.net_.module_.weight.detach(), W, atol=1e-12)
    np.testing.assert_allclose(fed.net_.module_.bias.detach(), b, atol=1e-12)
    np.testing.assert_allclose(fed.predict_proba(X), softmax(X @ W.T + b), atol=1e-12)
    assert np.abs(W - average.weight.detach().numpy()).max() > 0.01


@pytest.mark.parametrize("engine", ["loop", "stacked"])
def test_only_the_classifier_changes_and_training_goes_on_without_it(engine):
    fed, average = (run(algorithm, engine).net_.module_ for algorithm in ("fednpc", FedAvg()))
    for name in ("0.weight", "0.bias"):  # after three rounds: the classifier that trained is FedAvg's
        assert torch.equal(fed.get_parameter(name), average.get_parameter(name))
    assert not torch.allclose(fed[2].weight, average[2].weight, atol=0.01)


def test_no_steps_are_fedavg():
    fed, average = (run(algorithm).predict_proba(X[:, [0, 1, 1]]) for algorithm in (FedNPC(0), FedAvg()))
    np.testing.assert_array_equal(fed, average)


def test_a_head_without_bias():
    algorithm, layer = FedNPC(n_steps=2, n_rows=20), nn.Linear(4, 3, bias=False)
    model = model_of(layer, algorithm)
    before = layer.weight.detach().clone()
    new = algorithm.predict_params(dict(layer.state_dict()), {}, model)
    assert list(new) == ["weight"]
    assert not new["weight"].requires_grad
    assert not torch.equal(new["weight"], before)
    assert torch.equal(layer.weight, before)


@pytest.mark.parametrize(("n_classes", "step"), [(2, 8), (3, 10), (10, 24)])
def test_small_logits_turn_their_sign_after_so_many_steps(n_classes, step):
    small = torch.randn(n_classes, 2, generator=torch.Generator().manual_seed(0)).double() * 0.05
    small -= small.mean(0)

    def along(n_steps):
        torch.manual_seed(0)
        algorithm = FedNPC(n_steps, n_rows=40_000)
        model = model_of(nn.Linear(2, n_classes, bias=False), algorithm, n_classes)
        return (algorithm.predict_params({"weight": small}, {}, model)["weight"] * small).sum() / (
            small**2
        ).sum()

    assert along(5) > 0.35
    assert along(step + 1) < 0 < along(step - 2)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_steps": -1}, "n_steps must be a whole number >= 0"),
        ({"n_rows": 0}, "n_rows must be a whole number >= 1"),
        ({"lr": 0}, "lr must be a finite number > 0"),
        ({"momentum": -0.5}, "momentum must be a finite number >= 0"),
    ],
)
def test_bad_values(params, message):
    with pytest.raises(ValueError, match=message):
        fit_small(FedNPC(**params))
