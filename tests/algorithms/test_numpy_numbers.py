"""Hyper-parameters of every method and loss may be numbers of NumPy, as a grid over `np.linspace` gives them."""

import inspect

import numpy as np
import pytest
import torch
from torch import nn

from fedrela_sk import FederatedClassifier, losses
from fedrela_sk.algorithms import ALGORITHMS

X = np.random.default_rng(0).normal(size=(60, 3))
Y = np.arange(60) % 3


def numbers_of(kind):
    """Names and defaults of the parameters that are numbers."""
    defaults = {name: p.default for name, p in inspect.signature(kind).parameters.items()}
    return {
        name: value
        for name, value in defaults.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }


METHODS = {kind for kind in ALGORITHMS.values() if numbers_of(kind)}
PUBLIC = [getattr(losses, name) for name in losses.__all__]
LOSSES = [
    kind for kind in PUBLIC if inspect.isclass(kind) and issubclass(kind, nn.Module) and numbers_of(kind)
]


def as_numpy(value, real):
    return np.int64(value) if isinstance(value, int) else real(value)


@pytest.mark.parametrize("real", [np.float32, np.float64])
@pytest.mark.parametrize(
    "kind", sorted(METHODS, key=lambda kind: kind.__name__), ids=lambda kind: kind.__name__
)
def test_a_method_takes_them(kind, real):
    plain = numbers_of(kind)
    methods = kind(), kind(**{name: as_numpy(value, real) for name, value in plain.items()})
    for method in methods:
        method.check()
    posteriors = [
        FederatedClassifier(clients=3, algorithm=method, n_rounds=2, random_state=0)
        .fit(X, Y)
        .predict_proba(X)
        for method in methods
    ]
    np.testing.assert_allclose(*posteriors, rtol=1e-4, atol=1e-6)  # 0.1 of float32 is another number than 0.1


@pytest.mark.parametrize("real", [np.float32, np.float64])
@pytest.mark.parametrize("kind", LOSSES, ids=lambda kind: kind.__name__)
def test_a_loss_takes_them(kind, real):
    plain = numbers_of(kind)
    logits, y = torch.from_numpy(X), torch.from_numpy(Y)
    values = []
    for loss in (kind(), kind(**{name: as_numpy(value, real) for name, value in plain.items()})):
        if hasattr(loss, "use"):
            loss.use(torch.tensor([5.0, 3.0, 1.0]), 0.5)
        values.append(float(loss(logits, y)))
    assert values[0] == pytest.approx(values[1], rel=1e-5)
