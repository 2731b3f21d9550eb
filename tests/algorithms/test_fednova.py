"""FedNova: displacements divided by what the optimizer makes of equal gradients."""

import numpy as np
import pytest
import torch

from fedrela_sk.algorithms import FedAvg, FedNova, FedProx, LocalRun, RoundFacts
from fedrela_sk.algorithms._coefficients import coefficient_sum
from fedrela_sk.algorithms._fednova import STEPS
from fedrela_sk.exceptions import ClientError
from tests.algorithms.helpers import (
    GROUPS,
    TwoLayers,
    X,
    Y,
    fedavg_weight,
    fit,
    gradient,
    three_classes,
    weight,
)
from tests.training.nets import Normed

BATCHES_OF_TWO = {"batch_size": 2}  # clients of 4 and 2 rows take 2 and 1 steps an epoch


def run_of(n_steps, momentum=0.0, lr=1.0, **facts):
    return LocalRun(n_steps, lr, 1, 1.0, momentum, **facts)


def simulated(n_steps, momentum=0.0, pull=0.0, outside=False, dampening=0.0, nesterov=False, lr=0.1):
    """Distance over lr that torch's own SGD goes on gradients of 1."""
    theta = torch.zeros(1, dtype=torch.float64)
    settings = {"momentum": momentum, "dampening": dampening, "nesterov": nesterov}
    optimizer = torch.optim.SGD([theta], lr=lr, **settings)
    for _ in range(n_steps):
        drift = pull / lr * theta
        theta.grad = torch.ones_like(theta) + (0 if outside else drift)
        optimizer.step()
        theta -= lr * drift if outside else 0
    return -float(theta) / lr


@pytest.mark.parametrize(("n_steps", "total"), [(1, 1.0), (2, 2.9), (5, 13.1441), (10, 41.38105960)])
def test_momentum_as_the_closed_form_says(n_steps, total):
    assert coefficient_sum(run_of(n_steps, 0.9)) == pytest.approx(total, abs=1e-8)
    rho = 0.9
    closed = (n_steps - rho * (1 - rho**n_steps) / (1 - rho)) / (1 - rho)
    assert coefficient_sum(run_of(n_steps, 0.9)) == pytest.approx(closed, rel=1e-12)


def test_a_pull_as_the_closed_form_says():
    assert coefficient_sum(run_of(5), 0.1) == pytest.approx(4.0951, abs=1e-12)
    assert coefficient_sum(run_of(7), 0.1, outside=True) == pytest.approx((1 - 0.9**7) / 0.1, rel=1e-12)


def test_both_together_inside_and_outside_of_the_buffer():
    assert coefficient_sum(run_of(5, 0.9), 0.1) == pytest.approx(10.2916, abs=5e-5)
    assert coefficient_sum(run_of(5, 0.9), 0.1, outside=True) == pytest.approx(11.4265, abs=5e-5)
    assert coefficient_sum(run_of(100, 0.9), 0.01, outside=True) == pytest.approx(597.37, abs=5e-3)


@pytest.mark.parametrize("outside", [False, True])
@pytest.mark.parametrize("pull", [0.0, 0.2])
@pytest.mark.parametrize(
    "optimizer",
    [
        {},
        {"momentum": 0.9},
        {"momentum": 0.8, "dampening": 0.3},
        {"momentum": 0.7, "nesterov": True},
        {"dampening": 0.5},
    ],
)
def test_factors_are_those_of_torchs_own_steps(optimizer, pull, outside):
    for n_steps in (0, 1, 2, 9):
        total = coefficient_sum(run_of(n_steps, **optimizer), pull, outside)
        assert total == pytest.approx(simulated(n_steps, pull=pull, outside=outside, **optimizer), rel=1e-12)


def test_nothing_jumps_where_momentum_or_pull_vanish():
    for outside in (False, True):
        near = coefficient_sum(run_of(100, 0.9), 1e-9, outside)
        assert near == pytest.approx(coefficient_sum(run_of(100, 0.9)), rel=1e-5)
    assert coefficient_sum(run_of(100, 1e-9)) == pytest.approx(100, rel=1e-7)


def two_constant_gradients(algorithm, lr=0.1, weights=(0.25, 0.75), n_steps=(2, 8), gradients=(1.0, -1.0)):
    """The weight after a round from 0 of two clients with constant gradients."""
    aggregate, params = algorithm.server_aggregator(), {"w": torch.zeros(1, dtype=torch.float64)}
    local = type("Local", (), {"anchor": params, "state": {}})
    for share, steps, grad in zip(weights, n_steps, gradients, strict=True):
        run = LocalRun(steps, lr, 1, share, trainable=("w",))
        end = {"w": torch.full((1,), -lr * steps * grad, dtype=torch.float64)}
        aggregate.add(algorithm.client_finish(end, local, run)[0], share)
    facts = RoundFacts(0, 2, 2, lr, ("w",))
    return float(algorithm.server_step(params, aggregate.result(), {}, facts)[0]["w"])


def test_two_clients_that_pull_apart():
    assert two_constant_gradients(FedAvg()) == pytest.approx(0.55, abs=1e-15)
    assert two_constant_gradients(FedNova()) == pytest.approx(0.325, abs=1e-15)


def test_clients_that_are_alike_move_the_mean_number_of_steps():
    way = two_constant_gradients(FedNova(), gradients=(1.0, 1.0))
    assert way == pytest.approx(-0.1 * 6.5, abs=1e-15)


def client_end(k, mu=0.0, momentum=0.0, outside=False, epochs=2, lr=0.5, w=0.5):
    """(weight, steps) of client k after batches of two rows in order."""
    start, buffer, n_steps = w, 0.0, 0
    x, y = X[k == GROUPS], Y[k == GROUPS]
    for _ in range(epochs):
        for i in range(0, len(x), 2):
            drift = mu * (w - start)
            buffer = momentum * buffer + gradient(w, x[i : i + 2], y[i : i + 2]) + (0 if outside else drift)
            w, n_steps = w - lr * (buffer + (drift if outside else 0)), n_steps + 1
    return w, n_steps


def by_hand(mu=0.0, momentum=0.0, outside=False, tau_eff=None, lr=0.5):
    p, step, mean = np.array([4, 2]) / 6, 0.0, 0.0
    for k in (0, 1):
        end, n_steps = client_end(k, mu, momentum, outside, lr=lr)
        total = simulated(n_steps, momentum, lr * mu, outside, lr=lr)
        parts = {None: simulated(n_steps, momentum), "coefficients": total, "steps": n_steps}
        step, mean = step + p[k] * (end - 0.5) / total, mean + p[k] * parts[tau_eff]
    return 0.5 + mean * step


@pytest.mark.parametrize("engine", ["loop", "stacked"])
def test_a_round_at_the_default_settings(engine):
    fed = fit("fednova", net=BATCHES_OF_TWO, engine=engine)
    assert weight(fed) == pytest.approx(by_hand(), abs=1e-14)
    average = (4 * client_end(0)[0] + 2 * client_end(1)[0]) / 6
    assert weight(fit("fedavg", net=BATCHES_OF_TWO)) == pytest.approx(average, abs=1e-14)
    assert abs(by_hand() - average) > 1e-3


@pytest.mark.parametrize("engine", ["loop", "stacked"])
@pytest.mark.parametrize("prox", ["inside", "outside"])
@pytest.mark.parametrize("momentum", [0.0, 0.6])
def test_a_round_with_a_pull(prox, momentum, engine):
    net = BATCHES_OF_TWO | {"optimizer__momentum": momentum}
    fed = fit(FedNova(0.3, prox=prox), net=net, engine=engine)
    assert weight(fed) == pytest.approx(by_hand(0.3, momentum, prox == "outside"), abs=1e-14)


@pytest.mark.parametrize("tau_eff", ["coefficients", "steps"])
def test_other_lengths_of_the_step(tau_eff):
    net = BATCHES_OF_TWO | {"optimizer__momentum": 0.6}
    fed = fit(FedNova(0.3, tau_eff=tau_eff), net=net)
    assert weight(fed) == pytest.approx(by_hand(0.3, 0.6, tau_eff=tau_eff), abs=1e-14)


@pytest.mark.parametrize("mu", [0.0, 0.3])
@pytest.mark.parametrize("nesterov", [False, True])
def test_equal_steps_make_it_fedprox_with_the_factors_own_mean(mu, nesterov):
    net = {"optimizer__momentum": 0.9, "optimizer__nesterov": nesterov}
    nova = fit(FedNova(mu, tau_eff="coefficients"), epochs=4, lr=0.1, n_rounds=3, net=net)
    prox = fit(FedProx(mu), epochs=4, lr=0.1, n_rounds=3, net=net)
    assert weight(nova) == pytest.approx(weight(prox), abs=1e-14)


def test_momentum_of_the_server():
    """Full batches: two steps everywhere, so that a step without memory is FedAvg's."""
    w, u, rates = 0.5, 0.0, [0.5, 0.25, 0.125]
    for lr in rates:
        step = fedavg_weight(w, lr) - w
        u = 0.7 * u - step / lr
        w = w - lr * u
    fed = fit(FedNova(momentum=0.7), n_rounds=3, lr_schedule=0.5)
    assert weight(fed) == pytest.approx(w, abs=1e-14)


def test_a_round_without_a_rate_leaves_the_model_and_the_velocity():
    rates = [1.0, 0.0, 1.0]
    with_pause = fit(FedNova(momentum=0.7), n_rounds=3, lr_schedule=lambda round: rates[round])
    assert weight(with_pause) == pytest.approx(weight(fit(FedNova(momentum=0.7), n_rounds=2)), abs=1e-15)


def test_a_client_that_took_no_step_has_no_direction():
    params = {"w": torch.ones(1)}
    local = type("Local", (), {"anchor": params, "state": {}})
    sent, _ = FedNova(0.5).client_finish(params, local, run_of(0, trainable=("w",)))
    assert float(sent["w"]) == 0
    assert float(sent[STEPS]) == 0


@pytest.mark.parametrize("engine", ["loop", "stacked"])
def test_the_ledger(engine):
    """One weight of 8 bytes, tau's part of 8, the client's own weight of 8."""
    history = fit("fednova", n_rounds=2, engine=engine).history_
    assert history.column("bytes_up").tolist() == [2 * 24] * 2
    assert history.column("bytes_down").tolist() == [2 * 8] * 2


@pytest.mark.parametrize("engine", ["loop", "stacked"])
def test_statistics_of_batch_norm_are_averaged(engine):
    X, y, groups = three_classes()
    data = (np.c_[X, X[:, :2]].astype(np.float32), y, np.where(groups == 0, 0, 1))
    settings = {"net": {"batch_size": 16}, "engine": engine}
    plain, nova = (
        fit(algorithm, Normed, data, **settings).net_.module_ for algorithm in ("fedavg", "fednova")
    )
    for buffer, other in zip(plain.buffers(), nova.buffers(), strict=True):
        assert torch.equal(buffer, other)
    assert not torch.equal(next(plain.parameters()), next(nova.parameters()))


def test_frozen_parameters_stay_where_they_are():
    class Frozen(TwoLayers):
        def __init__(self):
            super().__init__()
            self[0].weight.requires_grad_(False)

    data = three_classes()
    start, end = (fit("fednova", Frozen, data, n_rounds=n, lr=0.5).net_.module_ for n in (1, 3))
    assert torch.equal(start[0].weight, end[0].weight)
    assert not torch.equal(start[2].weight, end[2].weight)


@pytest.mark.parametrize("engine", ["loop", "stacked"])
@pytest.mark.parametrize(
    ("net", "message"),
    [
        (
            {"optimizer": torch.optim.Adam},
            "FedNova needs .* got optimizer Adam. Set optimizer=torch.optim.SGD",
        ),
        (
            {"optimizer__param_groups": [("0.*", {"lr": 0.1})]},
            "FedNova needs one learning rate.* parameter groups that differ",
        ),
    ],
)
def test_optimizers_whose_factors_are_not_known(net, message, engine):
    with pytest.raises(ClientError, match=message):
        fit("fednova", TwoLayers, three_classes(), net=net, engine=engine)


def test_a_pull_that_throws_clients_away():
    with pytest.raises(ClientError, match=r"With mu=5.0 and learning rate 0.5 the pull .*sum to -0.5"):
        fit(FedNova(5.0))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"mu": -1}, "mu must be a finite number >= 0, got -1"),
        ({"prox": "beside"}, "prox must be one of 'inside', 'outside'; got 'beside'"),
        ({"tau_eff": 3}, "tau_eff must be one of 'without_pull', 'coefficients', 'steps'; got 3"),
        ({"momentum": 1}, "momentum must be a finite number >= 0 and < 1, got 1"),
    ],
)
def test_settings_out_of_range(settings, message):
    with pytest.raises(ValueError, match=message):
        fit(FedNova(**settings))
