"""One-weight models whose training can be worked out by hand, and short ways to a loop and its tasks."""

import numpy as np
import torch
from skorch import NeuralNetClassifier
from torch import nn

from fedrela_sk._random import client_stream_id
from fedrela_sk._update import ClientSpec
from fedrela_sk.algorithms import FedAvg
from fedrela_sk.algorithms._base import Algorithm
from fedrela_sk.training import Instructions, LocalData, LocalTask
from fedrela_sk.training._net import build_net, tensors_of
from fedrela_sk.training.loop._engine import LoopEngine


class OneWeight(nn.Module):
    """Output (0, w x) for the first column x."""

    def __init__(self, w=1.0):
        super().__init__()
        self.w = nn.Parameter(torch.tensor([w], dtype=torch.float64))

    def forward(self, X):
        z = self.w * X[:, 0]
        return torch.stack([torch.zeros_like(z), z], dim=1)


class TwoWeights(nn.Module):
    """Output (0, (w + v) x)."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.tensor([1.0], dtype=torch.float64))
        self.v = nn.Parameter(torch.tensor([-1.0], dtype=torch.float64))

    def forward(self, X):
        z = (self.w + self.v) * X[:, 0]
        return torch.stack([torch.zeros_like(z), z], dim=1)


class Squared(nn.CrossEntropyLoss):
    """1/2 (second output - label)^2: for `OneWeight` the gradient of a row is x (w x - y)."""

    def forward(self, output, y):
        losses = 0.5 * (output[:, 1] - y) ** 2
        return {"none": losses, "mean": losses.mean(), "sum": losses.sum()}[self.reduction]


class Prox(Algorithm):
    """FedProx: mu / 2 (w - anchor)^2 is added to the loss."""

    def __init__(self, mu=1.0):
        self.mu = mu

    def client_penalty(self, params, local):
        return 0.5 * self.mu * sum(((p - local.anchor[name]) ** 2).sum() for name, p in params.items())


def make_net(module=OneWeight, *, kind=NeuralNetClassifier, n_classes=2, seed=0, X=None, **settings):
    """An initialized net; full batches, rate 1/2 and the squared loss where nothing else is said."""
    defaults = {"criterion": Squared, "lr": 0.5, "batch_size": -1, "max_epochs": 1, "train_split": None}
    estimator = kind(module, **(defaults | settings))
    X = np.ones((2, 1)) if X is None else np.asarray(X)
    return build_net(estimator, X, np.arange(len(X)) % n_classes, n_classes, seed)


def make_loop(X, algorithm=None, *, module=OneWeight, n_classes=2, seed=0, weights=None, **settings):
    """A loop over rows `X` (a list of numbers is one column)."""
    X = torch.as_tensor(np.asarray(X, dtype=np.float64))
    X = X.unsqueeze(1) if X.ndim == 1 else X
    net = make_net(module, n_classes=n_classes, seed=seed, X=X.numpy(), **settings)
    weights = None if weights is None else torch.tensor(weights, dtype=torch.float64)
    return LoopEngine(
        net, LocalData(X, weights), FedAvg() if algorithm is None else algorithm, n_classes, seed
    )


def make_task(loop, rows, y, *, key="a", params=None, state=None, weight=None, class_weights=None):
    """Local training of one client; it receives the net's present tensors where no `params` are given."""
    rows = np.asarray(rows, dtype=np.int64)
    params = tensors_of(loop.net.module_) if params is None else params
    return LocalTask(
        client=ClientSpec(key, client_stream_id(key), 0, rows, rows),
        rows=torch.from_numpy(rows),
        y=torch.as_tensor(y),
        class_weights=None if class_weights is None else torch.tensor(class_weights, dtype=torch.float64),
        weight=float(len(rows)) if weight is None else weight,
        params={name: tensor.clone() for name, tensor in params.items()},
        state={} if state is None else state,
    )


def train(loop, tasks, round=0, server_state=None, **options):
    """All updates of one round, by client key."""
    updates = loop.train(tasks, Instructions(round, server_state or {}, **options))
    return {update.client.key: update for update in updates}


def train_one(loop, rows, y, round=0, server_state=None, lr_factor=1.0, **task):
    """The update of one client."""
    tasks = [make_task(loop, rows, y, **task)]
    (update,) = loop.train(tasks, Instructions(round, server_state or {}, lr_factor))
    return update


def same(update, other):
    """Whether two updates are bit for bit the same."""
    tensors = {**update.tensors, **update.kept}
    others = {**other.tensors, **other.kept}
    return (
        tensors.keys() == others.keys()
        and all(torch.equal(tensors[name], others[name]) for name in tensors)
        and (update.loss, update.n_steps, update.notes) == (other.loss, other.n_steps, other.notes)
    )
