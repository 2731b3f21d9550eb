"""Made rows, small nets and short federations that the checks fit; each fit takes some hundredths of a second."""

import warnings
from contextlib import contextmanager

import numpy as np
import torch
from skorch import NeuralNetClassifier
from torch import nn

from fedrela_sk import FederatedClassifier
from fedrela_sk.exceptions import FedReLaWarning

N_FEATURES, N_CLASSES = 3, 3
# clients of one row, of few rows, of one class (the second), and of many rows
SIZES = (1, 5, 13, 22, 31)


def made_rows(seed=0):
    """Overlapping classes on ragged clients.

    Returns
    -------
    X : ndarray of shape (n_rows, 3), float64
    y : ndarray of shape (n_rows,), int64
        Three classes, each rarer than the one before; client 1 has one of them only.
    groups : ndarray of shape (n_rows,), int64
    """
    stream = np.random.default_rng(seed)
    groups = np.repeat(np.arange(len(SIZES)), SIZES)
    y = stream.choice(N_CLASSES, len(groups), p=[0.6, 0.3, 0.1])
    y[groups == 1] = 1
    y[-N_CLASSES:] = np.arange(N_CLASSES)
    X = stream.normal(size=(len(y), N_FEATURES))
    X[:, 0] += y
    return X, y, groups


class Dense(nn.Sequential):
    """Four features and a linear head, in float64."""

    def __init__(self):
        super().__init__(nn.Linear(N_FEATURES, 4), nn.Tanh(), nn.Linear(4, N_CLASSES))
        self.double()


class Normed(nn.Sequential):
    """The same with BatchNorm in between."""

    def __init__(self):
        super().__init__(nn.Linear(N_FEATURES, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, N_CLASSES))
        self.double()


def net(module=Dense, **params):
    """A skorch net of small shuffled batches with momentum."""
    settings = {
        "criterion": nn.CrossEntropyLoss,
        "optimizer": torch.optim.SGD,
        "optimizer__momentum": 0.5,
        "lr": 0.1,
        "batch_size": 8,
        "max_epochs": 2,
        "iterator_train__shuffle": True,
    }
    return NeuralNetClassifier(module, **(settings | params))


def fit(algorithm="fedavg", *, module=Dense, net_params=None, sample_weight=None, by_groups=False, **params):
    """A fitted federation of three rounds; what is not given is alike in all fits of the checks.

    `by_groups` says that a splitter needs the groups; without one they are the clients.
    """
    X, y, groups = made_rows()
    settings = {"clients": None, "n_rounds": 3, "engine": "loop", "random_state": 0} | params
    groups = groups if by_groups or settings["clients"] is None else None
    fed = FederatedClassifier(net(module, **(net_params or {})), algorithm=algorithm, **settings)
    with _quiet():
        return fed.fit(X, y, groups=groups, sample_weight=sample_weight)


@contextmanager
def _quiet():
    """A block without the package's own warnings, which are not about the promise that is checked."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FedReLaWarning)
        yield


def answers(fed):
    """Posteriors of all rows as the federation predicts them, for strangers and for its own clients.

    Returns
    -------
    Q : ndarray of shape (2, n_rows, n_classes)
    """
    X, _, groups = made_rows()
    with _quiet():
        plain = fed.predict_proba(X)
        own = fed.predict_proba(X, groups=groups) if len(fed.client_names_) == len(SIZES) else plain
    return np.stack([plain, own])


def furthest(one, other):
    """Largest absolute difference of the answers of two federations."""
    return float(np.abs(answers(one) - answers(other)).max())
