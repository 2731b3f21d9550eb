"""FedAvgM: a velocity at the server, in three forms."""

import pytest
import torch

from fedrela_sk.algorithms import FedAvg, FedAvgM, RoundFacts
from tests.algorithms.helpers import GROUPS, TwoLayers, X, Y, fit, local_sgd, three_classes, weight

FACTS = RoundFacts(round=0, n_participants=1, n_clients=1, lr=0.1, trainable=("w",))


def by_hand(n_rounds, momentum, server_lr, w=0.5):
    """The weight after rounds of two steps at rate 1/2, heavy ball at the server."""
    velocity = 0.0
    for _ in range(n_rounds):
        ends = [local_sgd(w, X[k == GROUPS], Y[k == GROUPS], 0.5, 2) for k in (0, 1)]
        velocity = momentum * velocity + (4 * ends[0] + 2 * ends[1]) / 6 - w
        w = w + server_lr * velocity
    return w


def test_rounds_by_hand_at_the_default_settings():
    assert weight(fit("fedavgm", n_rounds=3)) == pytest.approx(by_hand(3, 0.9, 1.0), abs=1e-13)
    assert abs(by_hand(3, 0.9, 1.0) - by_hand(3, 0.0, 1.0)) > 0.1


def test_the_rate_is_a_factor_on_the_velocity():
    fed = fit(FedAvgM(0.5, server_lr=0.7), n_rounds=3)
    assert weight(fed) == pytest.approx(by_hand(3, 0.5, 0.7), abs=1e-13)
    assert weight(fit(FedAvgM(server_lr=0.0), n_rounds=2)) == 0.5


@pytest.mark.parametrize(("form", "way"), [("heavy_ball", 5.61), ("damped", 0.561), ("nesterov", 8.049)])
def test_three_rounds_of_length_one(form, way):
    algorithm, params = FedAvgM(form=form), {"w": torch.zeros(1), "seen": torch.tensor(1)}
    server = {"w": torch.zeros(1, dtype=torch.float64)}
    for _ in range(3):
        params, server = algorithm.server_step(
            params, {"w": params["w"] + 1, "seen": torch.tensor(3)}, server, FACTS
        )
    assert float(params["w"]) == pytest.approx(way, rel=1e-6)
    assert int(params["seen"]) == 3
    assert params["w"].dtype == torch.float32


@pytest.mark.parametrize("form", ["heavy_ball", "damped", "nesterov"])
def test_no_momentum_is_fedavg(form):
    data = three_classes()
    plain, off = (
        fit(algorithm, TwoLayers, data, n_rounds=3).predict_proba(data[0])
        for algorithm in (FedAvg(), FedAvgM(0.0, form=form))
    )
    assert plain == pytest.approx(off, abs=1e-14)


def test_the_velocity_does_not_travel():
    up, down = (fit("fedavgm", n_rounds=2).history_.column(f"bytes_{way}") for way in ("up", "down"))
    assert up.tolist() == [2 * (8 + 8)] * 2  # one weight and the client's own weight in the mean
    assert down.tolist() == [2 * 8] * 2


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"momentum": 1.0}, "momentum must be a finite number >= 0 and < 1, got 1.0"),
        ({"momentum": -0.1}, "momentum must be"),
        ({"server_lr": -1}, "server_lr must be"),
        ({"form": "heavy"}, "form must be one of 'heavy_ball', 'damped', 'nesterov'; got 'heavy'"),
    ],
)
def test_settings_out_of_range(settings, message):
    with pytest.raises(ValueError, match=message):
        fit(FedAvgM(**settings))
