"""A model of one weight, small enough to compute rounds by hand, and short federations around it."""

import numpy as np
import torch
from skorch import NeuralNetClassifier
from torch import nn

from fedrela_sk import FederatedClassifier, FedReLaRelabeler
from fedrela_sk.algorithms import ALGORITHMS

X = np.array([[1.0], [2.0], [-1.0], [0.5], [3.0], [-2.0]])
Y = np.array([1, 1, 0, 0, 1, 0])
GROUPS = np.array([0, 0, 0, 0, 1, 1])  # clients of 4 and of 2 rows


class OneWeight(nn.Module):
    """Logits (0, w x): logistic regression without an intercept."""

    def __init__(self, start=0.5):
        super().__init__()
        self.w = nn.Parameter(torch.tensor(start, dtype=torch.float64))

    def forward(self, x):
        score = self.w * x[:, 0]
        return torch.stack([torch.zeros_like(score), score], dim=1)


class TwoLayers(nn.Sequential):
    """Features of 4 units and a linear head, in float64."""

    def __init__(self, n_features=3, n_classes=3, units=4):
        super().__init__(
            nn.Linear(n_features, units, dtype=torch.float64),
            nn.Tanh(),
            nn.Linear(units, n_classes, dtype=torch.float64),
        )


def gradient(w, x, y):
    """Of the mean cross-entropy of `OneWeight` on rows x with labels y, in plain NumPy."""
    x = np.asarray(x, dtype=float).ravel()
    return np.mean((1 / (1 + np.exp(-w * x)) - y) * x)


def local_sgd(w, x, y, lr, n_steps, extra=lambda w: 0.0, momentum=0.0):
    """The weight after full-batch steps on ``gradient + extra(w)``."""
    buffer = 0.0
    for _ in range(n_steps):
        buffer = momentum * buffer + gradient(w, x, y) + extra(w)
        w = w - lr * buffer
    return w


def fit(algorithm, module=OneWeight, data=(X, Y, GROUPS), lr=0.5, epochs=2, n_rounds=1, net=None, **params):
    """A fitted federation of clients given by groups: full batches, no shuffling, no relabeling."""
    settings = {"criterion": nn.CrossEntropyLoss, "batch_size": -1, "lr": lr, "max_epochs": epochs}
    fed = {"clients": None, "engine": "loop", "relabeler": None, "random_state": 0} | params
    fed = FederatedClassifier(
        NeuralNetClassifier(module, **(settings | (net or {}))),
        algorithm=algorithm,
        n_rounds=n_rounds,
        **fed,
    )
    X, y, groups = data
    return fed.fit(X, y, groups=groups)


def weight(fed):
    """The global weight of a fitted `OneWeight`."""
    return fed.net_.module_.w.item()


def fedavg_weight(start=0.5, lr=0.5, n_steps=2, weights=(4, 2)):
    """What one round of FedAvg makes of `OneWeight`, by hand."""
    ends = [local_sgd(start, X[k == GROUPS], Y[k == GROUPS], lr, n_steps) for k in (0, 1)]
    return np.average(ends, weights=weights)


def three_classes(n_rows=90, n_clients=3, seed=0):
    """(X, y, groups) of three overlapping classes, each rarer than the one before; client 0 lacks class 2."""
    rng = np.random.default_rng(seed)
    y = rng.choice(3, n_rows, p=[0.6, 0.3, 0.1])
    groups = rng.integers(n_clients, size=n_rows)
    y[(groups == 0) & (y == 2)] = 0
    y[:3], groups[:3] = np.arange(3), n_clients - 1
    X = rng.normal(size=(n_rows, 3))
    X[:, 0] += y
    return X, y, groups


def ragged_classes():
    """`three_classes` of five clients: client 3 has one row, client 4 rows of one class."""
    X, y, groups = three_classes()
    groups[5] = 3
    groups[(groups == 2) & (y == 0)] = 4
    return X, y, groups


def fit_ragged(algorithm, module=TwoLayers, n_rounds=4, engine="loop"):
    """A federation of `ragged_classes` in small batches with momentum, some of them in a round, with new labels."""
    net = {"optimizer__momentum": 0.9, "batch_size": 8, "iterator_train__shuffle": True}
    relabeling = {"relabeler": FedReLaRelabeler(0.2), "relabel_at": 2}
    settings = {"lr": 0.1, "n_rounds": n_rounds, "engine": engine, "participation": 0.6, "net": net}
    fed = fit(algorithm, module, ragged_classes(), **settings, **relabeling)
    assert fed.relabeled_mask_.any()
    return fed


def engines_of(name):
    """Engines that a row of `ALGORITHMS` runs in."""
    return ["loop"] if ALGORITHMS[name]().loop_only is not None else ["loop", "stacked"]
