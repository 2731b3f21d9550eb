"""Tiny nets, tiny data and short federations that the tests of this room share."""

import numpy as np
import torch
from skorch import NeuralNetClassifier
from torch import nn

from fedrela_sk import FederatedClassifier
from fedrela_sk._random import client_stream_id
from fedrela_sk._update import ClientSpec
from fedrela_sk.algorithms import FedAvg, RoundFacts
from fedrela_sk.federation._round import Simulation
from fedrela_sk.federation.relabeling._one_client import RelabelStep
from fedrela_sk.federation.relabeling._settings import check_relabel_posteriors
from fedrela_sk.federation.setup._plan import Plan
from fedrela_sk.training import LocalData, Loop
from fedrela_sk.training._net import build_net, tensors_of


class Logits(nn.Linear):
    """Multinomial logistic regression."""

    def __init__(self, n_features=3, n_classes=3, dtype=torch.float64):
        super().__init__(n_features, n_classes, dtype=dtype)


class Probabilities(Logits):
    """The same with a softmax, as skorch's default criterion expects."""

    def forward(self, X):
        return torch.softmax(super().forward(X), dim=1)


class WithBatchNorm(nn.Sequential):
    """A hidden layer with BatchNorm."""

    def __init__(self, n_features=3, n_classes=3, units=4, dtype=torch.float64):
        super().__init__(
            nn.Linear(n_features, units, dtype=dtype),
            nn.BatchNorm1d(units, dtype=dtype),
            nn.ReLU(),
            nn.Linear(units, n_classes, dtype=dtype),
        )


class WithDropout(nn.Sequential):
    """A hidden layer with Dropout."""

    def __init__(self, n_features=3, n_classes=3, units=8):
        super().__init__(
            nn.Linear(n_features, units), nn.ReLU(), nn.Dropout(0.5), nn.Linear(units, n_classes)
        )


class Conv(nn.Sequential):
    """A convolution over images of one channel."""

    def __init__(self, n_classes=3):
        super().__init__(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8, n_classes))


def make_net(module=Logits, **params):
    """A skorch net on full batches, without shuffling; `params` change anything."""
    defaults = {"criterion": nn.CrossEntropyLoss, "lr": 0.1, "batch_size": -1, "max_epochs": 1}
    return NeuralNetClassifier(module, **(defaults | params))


def make_rows(n_rows=60, n_features=3, n_classes=3, seed=0):
    """Overlapping classes, each rarer than the one before; every class has rows."""
    rng = np.random.default_rng(seed)
    share = 0.5 ** np.arange(n_classes)
    y = rng.choice(n_classes, n_rows, p=share / share.sum())
    y[:n_classes] = np.arange(n_classes)
    X = rng.normal(size=(n_rows, n_features))
    X[:, 0] += y
    return X, y


def make_fed(net=None, **params):
    """A short federation of three clients in the loop engine."""
    defaults = {"clients": 3, "n_rounds": 3, "engine": "loop", "random_state": 0}
    return FederatedClassifier(make_net() if net is None else net, **(defaults | params))


def make_spec(key, rows, position=0, train_rows=None):
    """A client."""
    rows = np.asarray(rows, dtype=np.int64)
    return ClientSpec(key, client_stream_id(key), position, rows, rows if train_rows is None else train_rows)


def weights_of(fed):
    """The global model as NumPy arrays by name."""
    return {name: tensor.numpy().copy() for name, tensor in fed.net_.module_.state_dict().items()}


def assert_same_weights(one, other):
    """Two fitted federations hold bit for bit the same model."""
    one, other = weights_of(one), weights_of(other)
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)


def assert_close_weights(one, other, atol):
    """Two dictionaries of arrays agree to an absolute tolerance."""
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_allclose(one[name], other[name], rtol=0, atol=atol, err_msg=name)


def relabel_client(relabeler, net, X, y, classes, spec, round, seed, settings, batch_size, weights=None):
    """Relabel one client's rows `X`, with labels `y`, by the model that `net` holds."""
    step = RelabelStep(relabeler, classes, seed, settings, batch_size)
    Q = step.posteriors(net, X, spec, round)
    return step.relabel(Q.cpu().numpy(), y, spec, round, weights)


def facts(n_updates):
    """`RoundFacts` of round 0 of three clients."""
    return RoundFacts(round=0, n_participants=n_updates, n_clients=3, lr=0.1)


def make_conductor(
    X, codes, specs, *, net=None, algorithm=None, weights=None, seed=0, engine=None, **settings
):
    """A simulation in the loop engine or another, below all input checks, and its state before round 0.

    `settings` are fields of `Plan`; rows of `X` may hold anything.
    """
    classes = np.arange(int(codes.max()) + 1)
    algorithm = FedAvg() if algorithm is None else algorithm
    net = build_net(
        make_net() if net is None else net, X, codes, len(classes), seed, prepare=algorithm.prepare_module
    )
    X = torch.from_numpy(X).to(next(net.module_.parameters()).dtype)
    data = LocalData(X, None if weights is None else torch.from_numpy(weights).to(X.dtype))
    defaults = {
        "validation": None,
        "relabeler": None,
        "first_relabel": None,
        "relabel_every": None,
        "relabel_posteriors": check_relabel_posteriors(None),
        "n_rounds": 5,
        "participation": 1.0,
        "client_weight": "size",
        "class_weight": None,
        "lr_schedule": None,
        "select": "last",
    }
    plan = Plan(
        specs=specs,
        data=data,
        labels=codes,
        codes=codes,
        classes=classes,
        weights=weights,
        algorithm=algorithm,
        seed=seed,
        **(defaults | settings),
    )
    engine = Loop() if engine is None else engine
    simulation = Simulation(plan, net, engine.start(net, data, algorithm, len(classes), seed))
    return simulation, simulation.start(tensors_of(net.module_))
