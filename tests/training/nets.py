"""Modules and jobs that the engines are compared on."""

from itertools import pairwise

import numpy as np
import torch
from skorch import NeuralNetClassifier
from torch import nn

from fedrela_sk._update import ClientSpec
from fedrela_sk.algorithms import FedAvg, RoundFacts
from fedrela_sk.federation._server import Aggregation
from fedrela_sk.training import Instructions, LocalData, LocalTask
from fedrela_sk.training._net import build_net, tensors_of

N_FEATURES, N_CLASSES = 5, 3


class Dense(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(N_FEATURES, 8), nn.ReLU(), nn.Linear(8, N_CLASSES))


class NoBias(nn.Sequential):
    def __init__(self):
        super().__init__(
            nn.Linear(N_FEATURES, 8, bias=False), nn.GELU(), nn.Identity(), nn.Linear(8, N_CLASSES)
        )


class Normed(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(N_FEATURES, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, N_CLASSES))


class CumulativeNorm(nn.Sequential):
    def __init__(self):
        super().__init__(
            nn.Linear(N_FEATURES, 8), nn.BatchNorm1d(8, momentum=None, affine=False), nn.Linear(8, N_CLASSES)
        )


class UntrackedNorm(nn.Sequential):
    def __init__(self):
        super().__init__(
            nn.Linear(N_FEATURES, 8), nn.BatchNorm1d(8, track_running_stats=False), nn.Linear(8, N_CLASSES)
        )


class Residual(nn.Module):
    """LayerNorm, a residual sum, and functions beside layers; returns a tuple."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Linear(N_FEATURES, 8), nn.LayerNorm(8)
        self.second, self.last = nn.Linear(8, 8), nn.Linear(8, N_CLASSES)

    def forward(self, x):
        h = torch.relu(self.norm(self.first(x)))
        return self.last(h + 0.5 * torch.tanh(self.second(h))), h


class Flattened(nn.Module):
    """Takes rows of shape (5, 1)."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(1, elementwise_affine=False)
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(N_FEATURES, N_CLASSES))

    def forward(self, x):
        return self.body(x.unsqueeze(-1)) if x.ndim == 2 else self.body(x)


class Attention(nn.Module):
    """A softmax over units: nothing for the direct path, vmap takes it."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(N_FEATURES, 8), nn.Linear(8, N_CLASSES)
        self.register_buffer("scale", torch.tensor(2.0))

    def forward(self, x):
        h = self.first(x)
        return self.last(h * torch.softmax(h * self.scale, dim=-1))


class Convolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.last = nn.Conv1d(1, 4, 3), nn.Linear(12, N_CLASSES)

    def forward(self, x):
        return self.last(torch.relu(self.conv(x.unsqueeze(1))).flatten(1))


class LooksAcross(nn.Module):
    """Its output for a row depends on the batch."""

    def __init__(self):
        super().__init__()
        self.last = nn.Linear(N_FEATURES, N_CLASSES)

    def forward(self, x):
        return self.last(x - x.mean(0))


def make_net(module, dtype=torch.float64, **params):
    settings = {
        "criterion": nn.CrossEntropyLoss,
        "lr": 0.1,
        "batch_size": 32,
        "max_epochs": 2,
        "iterator_train__shuffle": True,
    } | params
    net = build_net(
        NeuralNetClassifier(module, **settings),
        np.zeros((4, N_FEATURES)),
        np.arange(4) % N_CLASSES,
        N_CLASSES,
        seed=0,
    )
    net.module_.to(dtype)
    net.criterion_.to(dtype)
    return net.initialize_optimizer()


def make_job(sizes, dtype=torch.float64, weighted=False, seed=0):
    """(data, [(spec, rows, labels, class weights)]) of clients with the given numbers of rows."""
    stream = np.random.default_rng(seed)
    n = sum(sizes)
    X = torch.from_numpy(stream.normal(size=(n, N_FEATURES))).to(dtype)
    y = torch.from_numpy(stream.integers(0, N_CLASSES, n))
    weights = torch.from_numpy(stream.integers(0, 4, n)).to(dtype) if weighted else None
    factors = torch.tensor([1.0, 2.0, 0.5], dtype=dtype) if weighted else None
    cuts = np.cumsum([0, *sizes])
    clients = []
    for i, (start, stop) in enumerate(pairwise(cuts)):
        rows = np.arange(start, stop)
        clients.append(
            (ClientSpec(i, 1000 + i, i, rows, rows), torch.from_numpy(rows), y[start:stop], factors)
        )
    return LocalData(X, weights), clients


def make_tasks(clients, params, states=None):
    states = states or {}
    return [
        LocalTask(spec, rows, y, factors, float(len(rows)), params, states.get(spec.position, {}))
        for spec, rows, y, factors in clients
    ]


def facts_of(round, n_clients):
    """What gives the facts of a round once its updates are counted."""
    return lambda n_updates: RoundFacts(round, n_updates, n_clients, lr=0.1)


def server_round(algorithm, updates, params, server_state, facts):
    """(global tensors, state of the server) after a round whose updates come in this order."""
    aggregation = Aggregation(algorithm)
    for update in updates:
        aggregation.add(update)
    return algorithm.server_step(params, aggregation.result(), server_state, facts(aggregation.n_updates))


def run_rounds(engine, net, clients, rounds=3, algorithm=None, skip=(), decay=0.9):
    """(global tensors, losses by round and client) after some rounds; clients in `skip` miss odd rounds."""
    algorithm = FedAvg() if algorithm is None else algorithm
    params = {name: tensor.clone() for name, tensor in tensors_of(net.module_).items()}
    server, states, losses = algorithm.server_init(params, None), {}, []
    for round in range(rounds):
        here = [c for c in clients if not (round % 2 and c[0].position in skip)]
        tasks, sent = make_tasks(here, params, states), algorithm.server_broadcast(server).every_round
        updates = list(engine.train(tasks, Instructions(round, sent, decay**round)))
        singles = sorted((s for u in updates for s in u.singles()), key=lambda s: s.client.position)
        states |= {s.client.position: s.state for s in singles if s.state}
        losses.append([s.loss for s in singles])
        params, server = server_round(algorithm, updates, params, server, facts_of(round, len(clients)))
    return params, losses
