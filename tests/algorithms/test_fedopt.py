"""FedAdagrad, FedAdam, FedYogi: adaptive steps at the server."""

import numpy as np
import pytest
import torch

from fedrela_sk.algorithms import FedAdagrad, FedAdam, FedYogi, Job, RoundFacts
from tests.algorithms.helpers import GROUPS, X, Y, fedavg_weight, fit, local_sgd, three_classes, weight
from tests.training.nets import Normed

SECOND = {
    "fedadagrad": lambda v, square: v + square,
    "fedadam": lambda v, square: 0.99 * v + 0.01 * square,
    "fedyogi": lambda v, square: v - 0.01 * square * np.sign(v - square),
}


def by_hand(name, n_rounds, w=0.5):
    """The weight after rounds at default settings."""
    lr, beta = (0.1, 0.0) if name == "fedadagrad" else (0.01, 0.9)
    m, v = 0.0, 1e-6
    for _ in range(n_rounds):
        ends = [local_sgd(w, X[k == GROUPS], Y[k == GROUPS], 0.5, 2) for k in (0, 1)]
        delta = (4 * ends[0] + 2 * ends[1]) / 6 - w
        m, v = beta * m + (1 - beta) * delta, SECOND[name](v, delta**2)
        w = w + lr * m / (np.sqrt(v) + 1e-3)
    return w


def steps(algorithm, deltas):
    """How far the model goes in each of some rounds in which the clients move by `deltas`."""
    module = torch.nn.Module()
    module.w = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))
    params = {"w": torch.zeros(1, dtype=torch.float64)}
    job = Job(1, 2, np.arange(2), 0, torch.empty(0, dtype=torch.float64), module)
    server, way = algorithm.server_init(params, job), []
    for round, delta in enumerate(deltas):
        facts = RoundFacts(round, 1, 1, 0.1, ("w",))
        new, server = algorithm.server_step(params, {"w": params["w"] + delta}, server, facts)
        way.append(float(new["w"] - params["w"]))
        params = new
    return way


@pytest.mark.parametrize("name", sorted(SECOND))
def test_rounds_by_hand_at_the_default_settings(name):
    assert weight(fit(name, n_rounds=3)) == pytest.approx(by_hand(name, 3), abs=1e-13)
    assert abs(by_hand(name, 1) - fedavg_weight()) > 0.01


@pytest.mark.parametrize(
    ("algorithm", "first"),
    [
        (FedAdam(0.1, initial_accumulator=0), 0.0980392),
        (FedAdam(0.1), 0.0980202),
        (FedYogi(0.1), 0.0980200),
        (FedAdagrad(0.1, initial_accumulator=0), 0.0998004),
    ],
)
def test_the_first_step_of_half_a_unit(algorithm, first):
    assert steps(algorithm, [0.5]) == pytest.approx([first], abs=5e-8)


def test_yogi_and_adam_start_alike_from_nothing_and_then_part():
    adam, yogi = (steps(kind(initial_accumulator=0), [0.5, 0.01]) for kind in (FedAdam, FedYogi))
    assert adam[0] == yogi[0]
    assert yogi[1] != adam[1]


def test_yogi_and_adam_forget_at_different_speeds():
    """After D = 1 and then D = 0, Adam's v shrinks by beta_2, Yogi's does not."""
    settings = {"server_lr": 1.0, "beta_1": 0.0, "beta_2": 0.5, "epsilon": 1e-12, "initial_accumulator": 0}
    adam, yogi = (steps(kind(**settings), [1.0, 0.0, 0.1])[2] for kind in (FedAdam, FedYogi))
    assert adam == pytest.approx(0.1 / np.sqrt(0.5 * 0.25 + 0.5 * 0.01), rel=1e-9)
    assert yogi == pytest.approx(0.1 / np.sqrt(0.5 - 0.5 * 0.01), rel=1e-9)


def test_corrected_for_the_start_the_first_steps_have_full_length():
    settings = {"server_lr": 0.1, "initial_accumulator": 0, "bias_correction": True, "epsilon": 1e-12}
    for kind in (FedAdam, FedYogi):
        assert steps(kind(**settings), [0.5])[0] == pytest.approx(0.1, rel=1e-9)
    assert steps(FedAdam(**settings), [0.5] * 4) == pytest.approx([0.1] * 4, rel=1e-9)


@pytest.mark.parametrize("name", sorted(SECOND))
def test_nothing_of_the_servers_moments_travels(name):
    history = fit(name, n_rounds=2).history_
    assert history.column("bytes_up").tolist() == [2 * (8 + 8)] * 2
    assert history.column("bytes_down").tolist() == [2 * 8] * 2


@pytest.mark.parametrize("name", sorted(SECOND))
def test_statistics_of_batch_norm_are_averaged(name):
    X, y, groups = three_classes()
    data = (np.c_[X, X[:, :2]].astype(np.float32), y, groups)
    plain, adaptive = (fit(algorithm, Normed, data).net_.module_ for algorithm in ("fedavg", name))
    for buffer, other in zip(plain.buffers(), adaptive.buffers(), strict=True):
        assert torch.equal(buffer, other)
    assert not torch.equal(next(plain.parameters()), next(adaptive.parameters()))


@pytest.mark.parametrize(
    ("algorithm", "message"),
    [
        (FedAdam(server_lr=-1), "server_lr must be a finite number >= 0"),
        (FedAdagrad(beta_1=1), "beta_1 must be a finite number >= 0 and < 1, got 1"),
        (FedYogi(beta_2=1.5), "beta_2 must be a finite number >= 0 and < 1, got 1.5"),
        (FedAdam(epsilon=0), "epsilon must be a finite number > 0, got 0"),
        (FedYogi(initial_accumulator=-1e-6), "initial_accumulator must be a finite number >= 0"),
        (FedAdam(bias_correction="no"), "bias_correction must be True or False, got 'no'"),
    ],
)
def test_settings_out_of_range(algorithm, message):
    with pytest.raises(ValueError, match=message):
        fit(algorithm)
