"""A linear net small enough for rounds by hand in NumPy, and short federations of nets with a head."""

import numpy as np
import torch
from torch import nn

from fedrela_sk.algorithms import Local
from fedrela_sk.training import Batch, ClientData, Model
from tests.algorithms.helpers import TwoLayers, fit, three_classes

# three classes on two clients: client 1 has no row of class 2
X = np.array([[1.0, 0.5], [2.0, -1.0], [-1.0, 0.3], [0.5, 1.5], [-0.7, -0.2], [3.0, 0.1], [-2.0, 1.0]])
Y = np.array([0, 0, 1, 2, 0, 1, 0])
GROUPS = np.array([0, 0, 0, 0, 0, 1, 1])
W = np.array([[0.1, -0.2], [0.3, 0.0], [-0.1, 0.4]])
B = np.array([0.05, -0.1, 0.0])


class OneLayer(nn.Linear):
    """Logits W x + b: the features are the input itself."""

    def __init__(self):
        super().__init__(2, 3, dtype=torch.float64)
        with torch.no_grad():
            self.weight.copy_(torch.from_numpy(W))
            self.bias.copy_(torch.from_numpy(B))


class TwoHeads(nn.Module):
    """Two layers of three outputs on one body; the first makes the output."""

    def __init__(self):
        super().__init__()
        self.body = nn.Linear(3, 4, dtype=torch.float64)
        self.first = nn.Linear(4, 3, dtype=torch.float64)
        self.second = nn.Linear(4, 3, dtype=torch.float64)

    def forward(self, x):
        return self.first(torch.tanh(self.body(x)))


class WithBatchNorm(nn.Sequential):
    """`TwoLayers` with BatchNorm in between."""

    def __init__(self):
        super().__init__(
            nn.Linear(3, 4, dtype=torch.float64),
            nn.BatchNorm1d(4, dtype=torch.float64),
            nn.ReLU(),
            nn.Linear(4, 3, dtype=torch.float64),
        )


class Probabilities(TwoLayers):
    """`TwoLayers` that ends in a softmax, for `NLLLoss`."""

    def forward(self, x):
        return torch.softmax(super().forward(x), dim=1)


def softmax(z):
    e = np.exp(z - z.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def cross_entropy_gradients(z, y, x):
    """(of W, of b) of the mean cross-entropy of logits z = W x + b + anything."""
    r = (softmax(z) - np.eye(z.shape[1])[y]) / len(y)
    return r.T @ x, r.sum(0)


def fit_small(algorithm, **params):
    """One round by default on `OneLayer` and the data above: full batches, two local steps, lr 0.5."""
    return fit(algorithm, OneLayer, (X, Y, GROUPS), **params)


def model_of(module, algorithm, n_classes=3):
    """A `Model` of a module as the method prepares it."""
    return Model(algorithm.prepare_module(module, n_classes), nn.CrossEntropyLoss(), n_classes)


def batch_of(x, y):
    """A `Batch` of equal rows."""
    y = torch.as_tensor(y)
    return Batch(
        torch.as_tensor(x), y, torch.full((len(y),), 1 / len(y), dtype=torch.float64), nn.CrossEntropyLoss()
    )


def data_of(x, y, weights=None):
    """`ClientData` of rows without class weights."""
    weights = torch.ones(len(y), dtype=x.dtype) if weights is None else weights
    return ClientData(x, y, weights, weights)


def local_of(counts=None, **parts):
    """A `Local` with some of its parts."""
    counts = None if counts is None else torch.tensor(counts, dtype=torch.float64)
    return Local(**({"anchor": {}, "state": {}, "server": {}, "counts": counts} | parts))


def run(algorithm, engine="loop", module=TwoLayers, n_rounds=3, data=None, net=None, **params):
    """A federation of four ragged clients in small batches with momentum, three of them in a round."""
    settings = {"batch_size": 7, "iterator_train__shuffle": True, "optimizer__momentum": 0.9} | (net or {})
    data = three_classes(n_clients=4) if data is None else data
    params = {"participation": 0.75, "lr": 0.2, "epochs": 2} | params
    return fit(algorithm, module, data, engine=engine, n_rounds=n_rounds, net=settings, **params)
