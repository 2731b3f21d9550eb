"""What the loop engine draws depends on seed, round and client alone, and no client sees another's rows."""

import numpy as np
import pytest
import torch
from skorch import NeuralNetClassifier
from skorch.callbacks import Callback
from torch import nn

from fedrela_sk.algorithms import FedAvg
from fedrela_sk.algorithms._base import Algorithm
from fedrela_sk.training._net import tensors_of
from tests.training.helpers import make_loop, make_task, same, train, train_one


def messy_loop(**changed):
    """Shuffled batches, Dropout, BatchNorm and momentum, on twelve rows."""
    stream = np.random.default_rng(0)
    module = nn.Sequential(
        nn.Linear(3, 8).double(), nn.BatchNorm1d(8).double(), nn.Dropout(0.5), nn.Linear(8, 2).double()
    )
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(torch.from_numpy(stream.normal(size=p.shape)))
    settings = {
        "criterion": nn.CrossEntropyLoss,
        "batch_size": 2,
        "iterator_train__shuffle": True,
        "max_epochs": 2,
    }
    settings |= {"optimizer__momentum": 0.9, "lr": 0.05}
    return make_loop(stream.normal(size=(12, 3)), module=module, **(settings | changed))


def messy_tasks(loop, params):
    parts = {"a": [0, 1, 2, 3, 4], "b": [5, 6, 7], "c": [8], "d": [9, 10, 11]}
    return [make_task(loop, rows, np.array(rows) % 2, key=key, params=params) for key, rows in parts.items()]


@pytest.mark.parametrize("order", [[3, 2, 1, 0], [1, 3, 0, 2]])
def test_the_order_of_clients_changes_no_update(order):
    loop = messy_loop()
    tasks = messy_tasks(loop, tensors_of(messy_loop().net.module_))
    straight = train(loop, tasks)
    turned = train(loop, [tasks[i] for i in order])
    assert list(turned) == [tasks[i].client.key for i in order]
    for key, update in straight.items():
        assert same(turned[key], update)


def test_what_is_drawn_is_a_function_of_seed_round_and_client():
    # Dropout alone: without shuffling nothing else is drawn
    settings = {"iterator_train__shuffle": False}
    loop = messy_loop(**settings)
    params = tensors_of(messy_loop().net.module_)
    rows, y = [0, 1, 2, 3], [0, 1, 0, 1]
    first = train_one(loop, rows, y, 3, key="a", params=params)
    torch.manual_seed(123)
    assert same(train_one(loop, rows, y, 3, key="a", params=params), first)
    assert not same(train_one(loop, rows, y, 4, key="a", params=params), first)
    assert not same(train_one(loop, rows, y, 3, key="b", params=params), first)
    assert not same(train_one(messy_loop(seed=1, **settings), rows, y, 3, key="a", params=params), first)


def test_batches_are_shuffled_by_seed_round_and_client():
    X = np.linspace(0.1, 1.0, 9)
    loop = make_loop(X, batch_size=2, iterator_train__shuffle=True)
    params = {"w": torch.ones(1, dtype=torch.float64)}

    def w(loop, round, key):
        return (
            train_one(loop, np.arange(9), np.arange(9) % 2, round, key=key, params=params).tensors["w"].item()
        )

    assert w(loop, 0, "a") == w(loop, 0, "a")
    other_seed = make_loop(X, batch_size=2, iterator_train__shuffle=True, seed=1)
    assert len({w(loop, 0, "a"), w(loop, 1, "a"), w(loop, 0, "b"), w(other_seed, 0, "a")}) == 4


def test_training_leaves_torchs_generator_as_it_was():
    loop = messy_loop()
    before = torch.get_rng_state()
    train(loop, messy_tasks(loop, tensors_of(loop.net.module_)))
    assert torch.equal(torch.get_rng_state(), before)


class NoisyLoss(nn.CrossEntropyLoss):
    def forward(self, output, y):
        return super().forward(output + torch.randn_like(output), y)


class NoisyStep(torch.optim.SGD):
    def step(self, closure=None):
        loss = super().step(closure)
        for p in self.param_groups[0]["params"]:
            p.data.add_(torch.randn_like(p))
        return loss


class NoisyNet(NeuralNetClassifier):
    def infer(self, x, **fit_params):
        return super().infer(x + torch.randn_like(x), **fit_params)


class NoisyCallback(Callback):
    def on_grad_computed(self, net, named_parameters, **kwargs):
        for _, p in named_parameters:
            p.grad.add_(torch.randn_like(p))


class NoisyGradient(Algorithm):
    def client_correct(self, grads, params, local):
        return {name: grad + torch.randn_like(grad) for name, grad in grads.items()}


@pytest.mark.parametrize(
    ("settings", "algorithm"),
    [
        ({"criterion": NoisyLoss}, FedAvg()),
        ({"optimizer": NoisyStep}, FedAvg()),
        ({"kind": NoisyNet}, FedAvg()),
        ({"callbacks": [NoisyCallback()]}, FedAvg()),
        ({}, NoisyGradient()),
    ],
    ids=["criterion", "optimizer", "net", "callback", "algorithm"],
)
def test_whatever_draws_draws_from_the_clients_stream(settings, algorithm):
    # the module is a plain layer, which draws nothing
    module = nn.Linear(1, 2).double()
    loop = make_loop([0.5, 1.0], algorithm, module=module, **({"criterion": nn.CrossEntropyLoss} | settings))
    params, before = tensors_of(module), torch.get_rng_state()
    first = train_one(loop, [0, 1], [0, 1], params=params)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(5)
    assert same(train_one(loop, [0, 1], [0, 1], params=params), first)
    assert not same(train_one(loop, [0, 1], [0, 1], params=params, key="b"), first)


def test_nothing_of_other_clients_enters_an_update():
    loop = messy_loop()
    params = {name: tensor.clone() for name, tensor in tensors_of(loop.net.module_).items()}
    expected = train(loop, messy_tasks(loop, params))["b"]
    alone = messy_loop()
    others = torch.ones(12, dtype=torch.bool)
    others[[5, 6, 7]] = False
    alone.data.X[others] = float("nan")
    assert same(train(alone, messy_tasks(alone, params)[1:2])["b"], expected)
