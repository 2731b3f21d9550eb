"""SCAFFOLD: control variates, their two sources, and what holds of them in every round."""

import numpy as np
import pytest
import torch
from torch import nn

from fedrela_sk.algorithms import SCAFFOLD, FedAvg, Local
from fedrela_sk.exceptions import ClientError
from fedrela_sk.losses import BalancedSoftmaxLoss
from fedrela_sk.training import ClientData, Model
from tests.algorithms.helpers import GROUPS, TwoLayers, X, Y, fit, gradient, three_classes, weight
from tests.algorithms.quadratic import BEST, Play, tensor
from tests.algorithms.quadratic import gradient as slope
from tests.training.nets import Normed

CLIENTS = [(X[k == GROUPS], Y[k == GROUPS]) for k in (0, 1)]


def by_hand(n_rounds, option="II", momentum=0.0, n_steps=2, rates=(0.5, 0.5, 0.5), server_lr=1.0):
    """The weight after full-batch rounds of both clients."""
    w, c, own = 0.5, 0.0, [0.0, 0.0]
    for lr in rates[:n_rounds]:
        ends, new = [], []
        for (x, y), c_k in zip(CLIENTS, own, strict=True):
            v, buffer, raw = w, 0.0, []
            for _ in range(n_steps):
                raw.append(gradient(v, x, y))
                buffer = momentum * buffer + raw[-1] - c_k + c
                v -= lr * buffer
            # with factors a of SGD with momentum: sum a_j (g_j - c_k + c) over sum a_j
            factors = [sum(momentum**i for i in range(n_steps - j)) for j in range(n_steps)]
            mean = np.average(raw, weights=factors)
            ends.append(v)
            new.append(gradient(w, x, y) if option == "I" else mean)
        w, c, own = w + server_lr * (np.mean(ends) - w), c + np.mean(new) - np.mean(own), new
    return w


@pytest.mark.parametrize("engine", ["loop", "stacked"])
def test_rounds_at_the_default_settings(engine):
    assert weight(fit("scaffold", n_rounds=3, engine=engine)) == pytest.approx(by_hand(3), abs=1e-14)
    uniform = weight(fit("fedavg", n_rounds=3, client_weight="uniform"))
    assert abs(by_hand(3) - uniform) > 1e-3


@pytest.mark.parametrize("engine", ["loop", "stacked"])
@pytest.mark.parametrize("option", ["I", "II"])
def test_momentum_a_server_rate_and_a_rate_that_falls(option, engine):
    fed = fit(
        SCAFFOLD(option, server_lr=0.8),
        epochs=4,
        lr=0.2,
        n_rounds=3,
        engine=engine,
        net={"optimizer__momentum": 0.7},
        lr_schedule=0.5,
    )
    expected = by_hand(3, option, 0.7, 4, (0.2, 0.1, 0.05), 0.8)
    assert weight(fed) == pytest.approx(expected, abs=1e-14)


@pytest.mark.parametrize("option", ["I", "II"])
def test_the_first_round_is_uniform_fedavg(option):
    first = weight(fit(SCAFFOLD(option)))
    assert first == pytest.approx(weight(fit("fedavg", client_weight="uniform")), abs=1e-15)


def test_client_weights_do_not_count():
    data = three_classes()
    a, b = (
        fit("scaffold", TwoLayers, data, n_rounds=2, client_weight=w).predict_proba(data[0])
        for w in ("size", "uniform")
    )
    np.testing.assert_array_equal(a, b)


def test_two_parabolas():
    play = Play(SCAFFOLD()).run()
    assert play.theta == pytest.approx(1.55921046875, abs=1e-12)
    assert float(play.server["x"]) == pytest.approx(-2.236841875, abs=1e-12)
    assert play.run(300).theta == pytest.approx(BEST, abs=1e-9)
    assert Play(FedAvg()).run(300).theta == pytest.approx(2.244710, abs=5e-7)


def mean_state(play):
    states = [play.states.get(k, {"x": tensor(0.0)}) for k in (0, 1)]
    return float(sum(state["x"] for state in states)) / 2


def test_c_is_the_mean_of_the_clients_whoever_takes_part():
    play = Play(SCAFFOLD())
    for chosen in [(1,), (0, 1), (0,), (0,), (1,), (0, 1)]:
        play.run(chosen=lambda round, chosen=chosen: chosen)
        assert float(play.server["x"]) == pytest.approx(mean_state(play), abs=1e-14)


def test_a_control_is_the_mean_of_the_rounds_own_gradients():
    play = Play(SCAFFOLD()).run(3)
    for client in (0, 1):
        assert float(play.states[client]["x"]) == pytest.approx(np.mean(play.seen[client]), abs=1e-12)


def test_with_momentum_a_control_stays_a_mean_of_gradients():
    play = Play(SCAFFOLD(), lr=0.01, n_steps=20, momentum=0.9).run(3)
    factors = [(1 - 0.9 ** (20 - j)) / 0.1 for j in range(20)]
    for client in (0, 1):
        expected = np.average(play.seen[client], weights=factors)
        assert float(play.states[client]["x"]) == pytest.approx(expected, abs=1e-12)
    assert play.run(300).theta == pytest.approx(BEST, abs=1e-9)


def test_nothing_moves_at_the_optimum():
    controls = {k: {"x": slope(k, tensor(BEST))} for k in (0, 1)}
    play = Play(SCAFFOLD(), theta=BEST, server={"x": tensor(0.0)}, states=controls).run(3)
    assert play.theta == pytest.approx(BEST, abs=1e-14)
    assert float(play.states[1]["x"]) == pytest.approx(4 * (BEST - 3), abs=1e-12)


def test_clients_that_are_alike_need_no_correction():
    data = (np.concatenate([X, X]), np.concatenate([Y, Y]), np.repeat([0, 1], 6))
    controlled, plain = (weight(fit(name, data=data, n_rounds=4)) for name in ("scaffold", "fedavg"))
    assert controlled == pytest.approx(plain, abs=1e-13)


def begin_of(module, criterion, rows, weights=None):
    """`begin` of option I for given rows in chunks of 512."""
    x, y = rows
    weights = torch.ones(len(y), dtype=x.dtype) if weights is None else weights
    params = {name: p.detach() for name, p in module.named_parameters()}
    model = Model(module, criterion, 3)
    return SCAFFOLD("I").client_begin(
        model, ClientData(x, y, weights, weights), Local(params, {}, params, None)
    )


@pytest.mark.parametrize("weighted", [False, True])
def test_option_one_is_the_gradient_over_all_rows(weighted):
    torch.manual_seed(0)
    module, x, y = TwoLayers(), torch.randn(1100, 3, dtype=torch.float64), torch.arange(1100) % 3
    criterion = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64))
    weights = torch.rand(1100, dtype=torch.float64) if weighted else torch.ones(1100, dtype=torch.float64)
    start = begin_of(module, criterion, (x, y), weights)
    rows = nn.functional.cross_entropy(module(x), y, reduction="none", weight=criterion.weight)
    loss = (weights * rows).sum() / (weights * criterion.weight[y]).sum()
    for name, grad in zip(start, torch.autograd.grad(loss, list(module.parameters())), strict=True):
        torch.testing.assert_close(start[name], grad, rtol=1e-12, atol=1e-15)


def test_a_parameter_that_the_loss_does_not_reach_has_no_control():
    class Idle(TwoLayers):
        def __init__(self):
            super().__init__()
            self.idle = nn.Parameter(torch.ones(2, dtype=torch.float64))

        def forward(self, x):
            return self[2](self[1](self[0](x)))

    start = begin_of(
        Idle(), nn.CrossEntropyLoss(), (torch.ones(2, 3, dtype=torch.float64), torch.tensor([0, 1]))
    )
    assert torch.equal(start["idle"], torch.zeros(2, dtype=torch.float64))


@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_option_one_follows_losses_that_count_and_class_weights_in_both_engines(class_weight):
    data = three_classes()
    net = {"criterion": BalancedSoftmaxLoss, "batch_size": 16}
    loop, stacked = (
        fit(SCAFFOLD("I"), TwoLayers, data, n_rounds=3, engine=engine, net=net, class_weight=class_weight)
        for engine in ("loop", "stacked")
    )
    np.testing.assert_allclose(loop.predict_proba(data[0]), stacked.predict_proba(data[0]), atol=1e-12)


@pytest.mark.parametrize("engine", ["loop", "stacked"])
def test_the_ledger(engine):
    """One weight of 8 bytes and its control, both ways; up with the client's own weight of 8."""
    history = fit("scaffold", n_rounds=2, engine=engine).history_
    assert history.column("bytes_up").tolist() == [2 * 24] * 2
    assert history.column("bytes_down").tolist() == [2 * 16] * 2


@pytest.mark.parametrize("option", ["I", "II"])
def test_statistics_of_batch_norm_have_no_control(option):
    X, y, groups = three_classes()
    data = (np.c_[X, X[:, :2]].astype(np.float32), y, groups)
    plain = fit("fedavg", Normed, data, client_weight="uniform").net_.module_
    first = fit(SCAFFOLD(option), Normed, data).net_.module_
    for buffer, other in zip(plain.buffers(), first.buffers(), strict=True):
        assert torch.equal(buffer, other)
    later = fit(SCAFFOLD(option), Normed, data, n_rounds=6).net_.module_
    assert (later[1].running_var > 0).all()
    assert later[1].num_batches_tracked == 6 * 2


def test_a_round_without_a_rate_changes_no_control():
    rates = [1.0, 0.0, 1.0]
    with_pause = fit(SCAFFOLD(), n_rounds=3, lr_schedule=lambda round: rates[round])
    assert weight(with_pause) == weight(fit(SCAFFOLD(), n_rounds=2))


def test_adam_has_controls_of_option_one_alone():
    adam = {"optimizer": torch.optim.Adam}
    with pytest.raises(ClientError, match=r'SCAFFOLD\(option="II"\) needs to know .* got optimizer Adam'):
        fit("scaffold", net=adam)
    first, second = (weight(fit(SCAFFOLD("I"), net=adam, n_rounds=n, lr=0.05)) for n in (1, 2))
    assert first != second


@pytest.mark.parametrize("engine", ["loop", "stacked"])
def test_option_one_needs_a_loss_that_does_not_grow_with_the_batch(engine):
    with pytest.raises(ClientError, match=r"averages over a batch; got reduction='sum'"):
        fit(SCAFFOLD("I"), net={"criterion__reduction": "sum"}, engine=engine)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"option": "III"}, "option must be one of 'I', 'II'; got 'III'"),
        ({"server_lr": float("nan")}, "server_lr must be a finite number >= 0, got nan"),
    ],
)
def test_settings_out_of_range(settings, message):
    with pytest.raises(ValueError, match=message):
        fit(SCAFFOLD(**settings))
