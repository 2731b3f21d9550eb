"""FedProx: a squared distance to the round's start, pulled towards it by mu."""

import numpy as np
import pytest
import torch

from fedrela_sk import _tree
from fedrela_sk.algorithms import FedAvg, FedProx, Local
from tests.algorithms.helpers import (
    GROUPS,
    TwoLayers,
    X,
    Y,
    fedavg_weight,
    fit,
    local_sgd,
    three_classes,
    weight,
)


def by_hand(mu, start=0.5, lr=0.5, n_steps=2, momentum=0.0):
    ends = [
        local_sgd(start, X[k == GROUPS], Y[k == GROUPS], lr, n_steps, lambda w: mu * (w - start), momentum)
        for k in (0, 1)
    ]
    return np.average(ends, weights=(4, 2))


@pytest.mark.parametrize("engine", ["loop", "stacked"])
def test_a_round_at_the_default_strength_is_not_fedavgs(engine):
    fed = fit("fedprox", engine=engine)
    assert weight(fed) == pytest.approx(by_hand(0.01), abs=1e-14)
    assert weight(fed) - fedavg_weight() == pytest.approx(by_hand(0.01) - by_hand(0), abs=1e-14)
    assert abs(by_hand(0.01) - by_hand(0)) > 1e-5


@pytest.mark.parametrize("mu", [0.0, 0.3, 2.0])
def test_momentum_holds_the_pull_too(mu):
    fed = fit(FedProx(mu), epochs=4, net={"optimizer__momentum": 0.9})
    assert weight(fed) == pytest.approx(by_hand(mu, n_steps=4, momentum=0.9), abs=1e-13)


@pytest.mark.parametrize("engine", ["loop", "stacked"])
def test_no_strength_is_fedavg_bit_by_bit(engine):
    data = three_classes()
    plain, off = (
        fit(algorithm, TwoLayers, data, n_rounds=3, engine=engine).predict_proba(data[0])
        for algorithm in (FedAvg(), FedProx(0.0))
    )
    np.testing.assert_array_equal(plain, off)


def test_one_local_step_knows_no_pull():
    assert weight(fit(FedProx(5.0), epochs=1)) == weight(fit("fedavg", epochs=1))


def test_a_constant_gradient_moves_as_the_geometric_sum_says():
    mu, lr, g, w = 0.4, 0.1, 3.0, 1.0
    params, local = {"w": torch.tensor(w, dtype=torch.float64)}, type("Local", (), {})()
    local.anchor = _tree.copy(params)
    for _ in range(7):
        params["w"] = params["w"].detach().requires_grad_()
        FedProx(mu).client_penalty(params, local).backward()
        params["w"] = params["w"] - lr * (g + params["w"].grad)
    expected = -lr * g * (1 - (1 - lr * mu) ** 7) / (lr * mu)
    assert float(params["w"].detach()) - w == pytest.approx(expected, abs=1e-14)


def pull(mu, x, start=0.0):
    """Gradient of the penalty at x, and its value."""
    x = torch.tensor(x, dtype=torch.float64, requires_grad=True)
    local = Local({"x": torch.tensor(start, dtype=torch.float64)}, {}, {}, None)
    penalty = FedProx(mu).client_penalty({"x": x}, local)
    return torch.autograd.grad(penalty, x)[0].item(), penalty.item()


def test_the_distance_is_squared_and_halved():
    """(x - 3)^2 / 2 and a pull of 1 to 0 balance half way; a distance without its square would at 2.5."""
    assert pull(1.0, 1.5) == (1.5, 1.125)
    assert pull(4.0, 2.0, start=5.0) == (-12.0, 18.0)


def test_a_strong_pull_holds_clients_where_they_were():
    """At a rate of 1 / (mu + 1): twenty steps end within 1 / mu of the start."""
    mu = 1e4
    fed = fit(FedProx(mu), lr=1 / (mu + 1), epochs=20)
    assert weight(fed) == pytest.approx(0.5, abs=1 / mu)
    assert weight(fed) == pytest.approx(by_hand(mu, lr=1 / (mu + 1), n_steps=20), abs=1e-14)


@pytest.mark.parametrize("engine", ["loop", "stacked"])
def test_the_ledger(engine):
    """One weight of 8 bytes each way; up with the client's own weight of 8."""
    history = fit("fedprox", n_rounds=2, engine=engine).history_
    assert history.column("bytes_up").tolist() == [2 * 16] * 2
    assert history.column("bytes_down").tolist() == [2 * 8] * 2


@pytest.mark.parametrize("mu", [-0.1, float("nan"), "much", True])
def test_a_strength_out_of_range(mu):
    with pytest.raises(ValueError, match=r"mu must be a finite number >= 0, got "):
        fit(FedProx(mu))
