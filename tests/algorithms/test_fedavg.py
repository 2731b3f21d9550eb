"""FedAvg: the weighted mean of the clients' models, and a share of the way there."""

import numpy as np
import pytest
import torch

from fedrela_sk.algorithms import FedAvg
from tests.algorithms.helpers import (
    GROUPS,
    TwoLayers,
    X,
    Y,
    fedavg_weight,
    fit,
    gradient,
    local_sgd,
    three_classes,
    weight,
)
from tests.algorithms.quadratic import Play
from tests.training.nets import Normed


def test_a_round_by_hand():
    assert weight(fit("fedavg")) == pytest.approx(fedavg_weight(), abs=1e-15)


@pytest.mark.parametrize("server_lr", [0.0, 0.25, 1.5])
def test_the_server_goes_a_share_of_the_way(server_lr):
    expected = 0.5 + server_lr * (fedavg_weight() - 0.5)
    assert weight(fit(FedAvg(server_lr))) == pytest.approx(expected, abs=1e-15)


def test_one_full_batch_step_everywhere_is_one_central_step():
    assert weight(fit("fedavg", epochs=1)) == pytest.approx(0.5 - 0.5 * gradient(0.5, X, Y), abs=1e-15)


def test_clients_that_are_alike_move_as_one():
    data = (np.concatenate([X, X]), np.concatenate([Y, Y]), np.repeat([0, 1], 6))
    fed = fit("fedavg", data=data, client_weight=np.array([5.0, 1.0]))
    assert weight(fed) == pytest.approx(local_sgd(0.5, X, Y, 0.5, 2), abs=1e-15)


def test_the_order_of_the_clients_does_not_matter():
    assert weight(fit("fedavg", data=(X, Y, 1 - GROUPS))) == pytest.approx(weight(fit("fedavg")), abs=1e-15)


def test_the_default_rate_changes_no_bit():
    data = three_classes()
    plain, stated = (
        fit(algorithm, TwoLayers, data, n_rounds=2).predict_proba(data[0])
        for algorithm in ("fedavg", FedAvg(server_lr=1.0))
    )
    np.testing.assert_array_equal(plain, stated)


def test_uniform_clients_that_drift_settle_away_from_the_optimum():
    assert Play(FedAvg()).run(200).theta == pytest.approx(2.244710, abs=5e-7)


@pytest.mark.parametrize("engine", ["loop", "stacked"])
def test_statistics_of_batch_norm_are_averaged_at_any_rate(engine):
    X, y, groups = three_classes()
    data = (np.c_[X, X[:, :2]].astype(np.float32), y, groups)
    still, plain = (fit(FedAvg(lr), Normed, data, engine=engine).net_.module_ for lr in (0.0, 1.0))
    start = fit(FedAvg(0.0), Normed, data, n_rounds=2, engine=engine).net_.module_
    for name, param in still.named_parameters():
        assert torch.equal(param, dict(start.named_parameters())[name])
        assert not torch.equal(param, dict(plain.named_parameters())[name])
    for name, buffer in still.named_buffers():
        assert torch.equal(buffer, dict(plain.named_buffers())[name])


@pytest.mark.parametrize("server_lr", [-0.1, float("inf"), "fast"])
def test_a_rate_out_of_range(server_lr):
    with pytest.raises(ValueError, match=r"server_lr must be a finite number >= 0, got "):
        fit(FedAvg(server_lr))
