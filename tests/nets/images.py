"""Small pictures for nets of images, and whether a net trains on them in an engine."""

import numpy as np
from skorch import NeuralNetClassifier
from torch import nn

from fedrela_sk import FederatedClassifier, FedReLaRelabeler

N_CLASSES = 3


def bright_rows(shape, n=96, seed=0):
    """Pictures (n, *shape) of noise; class k is bright in the k-th of three bands of rows."""
    stream = np.random.default_rng(seed)
    y = stream.choice(N_CLASSES, n, p=[0.6, 0.3, 0.1])
    X = stream.normal(0, 0.3, (n, *shape)).astype(np.float32)
    band = shape[1] // N_CLASSES
    for i, k in enumerate(y):
        X[i, :, k * band : (k + 1) * band] += 1
    return X, y


def fit_federation(module, shape, engine="loop", algorithm="fedavg", **params):
    """A federation of three clients, with re-labeling, after a few rounds; (federation, X, y)."""
    X, y = bright_rows(shape)
    net = {
        "criterion": nn.CrossEntropyLoss,
        "lr": 0.1,
        "batch_size": 8,
        "max_epochs": 4,
        "iterator_train__shuffle": True,
    }
    net |= {key: params.pop(key) for key in list(params) if key.startswith("module__")}
    settings = {
        "clients": 3,
        "relabeler": FedReLaRelabeler(0.1),
        "n_rounds": 3,
        "random_state": 0,
        "engine": engine,
        "algorithm": algorithm,
    } | params
    federation = FederatedClassifier(NeuralNetClassifier(module, **net), **settings)
    return federation.fit(X, y), X, y
