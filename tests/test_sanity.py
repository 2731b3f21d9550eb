"""No default does harm: every method and loss on balanced digits, beside FedAvg; slow."""

from functools import cache

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from skorch import NeuralNetClassifier
from torch import nn

from fedrela_sk import DirichletSplit, FederatedClassifier, losses
from fedrela_sk.algorithms import ALGORITHMS, FedDyn, FedLoGe
from fedrela_sk.exceptions import FedReLaWarning
from fedrela_sk.nets import MLP, CosineLinear

pytestmark = pytest.mark.slow

POINTS, NORMS = 0.10, 3.0  # a row may lie so far below FedAvg, and have so many times its norm
X, Y = load_digits(return_X_y=True)
X, X_TEST, Y, Y_TEST = train_test_split(
    (X / 16).astype(np.float32), Y, test_size=0.3, stratify=Y, random_state=0
)


class CosineMLP(nn.Sequential):
    """A hidden layer and a head of cosines, as LDAM needs it."""

    def __init__(self, n_features, n_classes):
        super().__init__(nn.Linear(n_features, 64), nn.ReLU(), CosineLinear(64, n_classes))


COSINES = {"criterion": losses.LDAMLoss, "module": CosineMLP}
# name -> (algorithm, parameters of the net)
ROWS = {name: (name, {}) for name in ALGORITHMS}
ROWS |= {
    name: ("fedavg", {"criterion": getattr(losses, name)})
    for name in losses.__all__
    if name.endswith("Loss") and name not in ("LDAMLoss", "PriorLoss")
}
ROWS |= {
    "LDAMLoss": ("fedavg", COSINES),
    "LDAMLoss, deferred": ("fedavg", COSINES | {"criterion__defer": 0.8}),
}
# rows that may lie 20 points below, and why
REASONS = {
    "ClassBalancedLoss": "beta=0.9999 is 1 / n at clients of 63 rows: a class with one row there weighs as much as "
    "one with thirty, so that single rows lead. Made for thousands of rows a class.",
    "fedlf": "At its alpha of 0.25 a class that a client lacks has a quarter of its score, and its logits have no "
    "biases: with 63 rows at a client most classes are such ones.",
}


@cache
def fitted(name):
    """(accuracy on the test rows, norm of the global model) of a row."""
    return measured(*ROWS[name])


def measured(algorithm, net):
    settings = {
        "module": MLP,
        "module__n_features": 64,
        "module__n_classes": 10,
        "criterion": nn.CrossEntropyLoss,
        "lr": 0.1,
        "batch_size": 16,
        "max_epochs": 3,
        "iterator_train__shuffle": True,
    }
    clients = DirichletSplit(20, alpha=0.3, random_state=0)
    fed = FederatedClassifier(
        NeuralNetClassifier(**settings | net),
        clients=clients,
        algorithm=algorithm,
        n_rounds=30,
        random_state=0,
    )
    fed.fit(X, Y)
    return float((fed.predict(X_TEST) == Y_TEST).mean()), norm(fed)


def norm(fed):
    """Of all parameters of the global model; of the mean of the clients' where there is none."""
    if fed.net_ is None:
        return float(np.mean([_norm(own.values()) for own in fed._own_models.kept.values()]))
    return _norm(fed.net_.module_.parameters())


def _norm(tensors):
    return float(torch.sqrt(sum((tensor.detach() ** 2).sum() for tensor in tensors)))


@pytest.mark.parametrize("name", ROWS)
def test_its_defaults_do_no_harm(name):
    (accuracy, size), (base, base_size) = fitted(name), fitted("fedavg")
    assert base > 0.9
    assert accuracy > base - (2 * POINTS if name in REASONS else POINTS)
    assert size < NORMS * base_size


def test_every_method_and_loss_is_looked_at():
    assert set(ALGORITHMS) <= set(ROWS)
    assert {name.split(",")[0] for name in ROWS} - set(ALGORITHMS) == {
        name for name in losses.__all__ if name.endswith("Loss") and name != "PriorLoss"
    }
    assert REASONS.keys() <= ROWS.keys()


def test_it_would_see_a_starved_backbone():
    assert measured(FedLoGe(etf_norm=1.0), {})[0] < fitted("fedavg")[0] - POINTS


def test_it_would_see_a_norm_that_grows():
    with pytest.warns(FedReLaWarning, match=r"FedDyn\(alpha=0.01\).*may grow without bound"):
        size = measured(FedDyn(alpha=0.01), {})[1]
    assert size > NORMS * fitted("fedavg")[1]
