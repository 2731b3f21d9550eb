"""FedDyn: linear terms that move every client's minimum to everybody's."""

import warnings

import numpy as np
import pytest
import torch

from fedrela_sk import FedReLaRelabeler
from fedrela_sk.algorithms import FedDyn, FedProx
from fedrela_sk.exceptions import FedReLaWarning
from tests.algorithms.helpers import GROUPS, TwoLayers, X, Y, fit, gradient, three_classes, weight
from tests.algorithms.quadratic import BEST, Play, tensor
from tests.algorithms.quadratic import gradient as slope
from tests.training.nets import Normed

CLIENTS = [(X[k == GROUPS], Y[k == GROUPS]) for k in (0, 1)]


def by_hand(n_rounds, alpha=0.1, momentum=0.0, n_steps=2, lr=0.5, clip=np.inf, by_rows=False):
    """The weight after full-batch rounds, in the released code's parameter units q_k = -g_k / alpha."""
    w, q, mean_rows = 0.5, [0.0, 0.0], 3
    for _ in range(n_rounds):
        ends = []
        for k, (x, y) in enumerate(CLIENTS):
            v, buffer = w, 0.0
            own = alpha / (len(x) / mean_rows) if by_rows else alpha
            for _ in range(n_steps):
                # the loss and the linear term alpha <theta, q - w>, clipped; alpha / 2 |theta|^2 through weight decay
                slope = np.clip(gradient(v, x, y) + own * (q[k] - w), -clip, clip)
                buffer = momentum * buffer + slope + own * v
                v -= lr * buffer
            q[k] += v - w
            ends.append(v)
        w = np.mean(ends) + np.mean(q)
    return w


@pytest.mark.parametrize("engine", ["loop", "stacked"])
def test_rounds_at_the_default_settings(engine):
    fed = fit("feddyn", n_rounds=3, engine=engine)
    assert weight(fed) == pytest.approx(by_hand(3), abs=1e-12)
    uniform = weight(fit("fedavg", n_rounds=3, client_weight="uniform"))
    assert abs(by_hand(3) - uniform) > 0.1


@pytest.mark.parametrize("engine", ["loop", "stacked"])
def test_a_strong_term_under_momentum(engine):
    fed = fit(FedDyn(0.6), n_rounds=4, epochs=3, engine=engine, lr=0.2, net={"optimizer__momentum": 0.5})
    assert weight(fed) == pytest.approx(by_hand(4, 0.6, 0.5, 3, 0.2), abs=1e-12)


@pytest.mark.parametrize("engine", ["loop", "stacked"])
def test_a_clients_strength_may_go_by_its_rows(engine):
    fed = fit(FedDyn(0.6, by_rows=True), n_rounds=3, engine=engine)
    assert weight(fed) == pytest.approx(by_hand(3, 0.6, by_rows=True), abs=1e-12)
    assert abs(by_hand(3, 0.6, by_rows=True) - by_hand(3, 0.6)) > 0.01
    assert fed.history_.column("bytes_up").tolist() == [2 * (16 + 8), 2 * 16, 2 * 16]  # the rows, once
    assert fed.history_.column("bytes_down").tolist() == [2 * (8 + 8), 2 * 8, 2 * 8]


@pytest.mark.parametrize("engine", ["loop", "stacked"])
@pytest.mark.parametrize("by_rows", [False, True])
def test_gradients_are_clipped_where_the_released_code_clips_them(engine, by_rows):
    fed = fit(FedDyn(0.6, clip=0.2, by_rows=by_rows), n_rounds=3, engine=engine)
    assert weight(fed) == pytest.approx(
        by_hand(3, 0.6, clip=0.2, by_rows=by_rows), abs=1e-6
    )  # 1e-6 in torch's rule
    assert abs(by_hand(3, 0.6, clip=0.2, by_rows=by_rows) - by_hand(3, 0.6, by_rows=by_rows)) > 0.01


def test_a_clip_that_is_never_reached_changes_nothing():
    assert weight(fit(FedDyn(clip=1e6), n_rounds=3)) == pytest.approx(
        weight(fit(FedDyn(), n_rounds=3)), abs=1e-14
    )


@pytest.mark.parametrize(
    ("alpha", "lr", "epochs", "weak"),
    [
        (0.01, 0.5, 2, True),
        (0.01, 0.5, 4, False),
        (0.01, 0.1, 4, True),
        (0.1, 1e-6, 1, False),
        (0.09, 0.1, 2, True),
    ],
)
def test_a_pull_that_is_too_weak_is_said_once(alpha, lr, epochs, weak):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fed = fit(FedDyn(alpha), lr=lr, epochs=epochs, n_rounds=3)
    said = [str(one.message) for one in caught if issubclass(one.category, FedReLaWarning)]
    assert len(said) == weak
    assert [note for note in fed.history_.notes if "FedDyn" in note] == said
    if weak:
        assert f"FedDyn(alpha={alpha})" in said[0]
        assert f"median client's {epochs} steps" in said[0]
        assert "Use alpha=0.1" in said[0]


def test_the_median_client_counts_its_batches():
    n_steps = []

    class Asked(FedDyn):
        def caution(self, lr, n_steps_of_median):
            n_steps.append((lr, n_steps_of_median))

    fit(Asked(), net={"batch_size": 2}, epochs=3, lr=0.25)  # 4 and 2 rows: 6 and 3 steps
    fit(Asked(), net={"batch_size": 1}, epochs=1, lr=0.25)
    assert n_steps == [(0.25, 4.5), (0.25, 3.0)]


def test_the_first_round_is_fedprox_twice_as_far():
    prox = weight(fit(FedProx(0.3), client_weight="uniform"))
    assert weight(fit(FedDyn(0.3))) == pytest.approx(0.5 + 2 * (prox - 0.5), abs=1e-14)
    assert weight(fit(FedDyn(0.3, predicts="participants"))) == pytest.approx(prox, abs=1e-14)


def test_the_mean_of_the_clients_predicts_and_the_server_goes_on_as_before():
    algorithm = FedDyn(0.3, predicts="participants")
    play, plain = Play(algorithm).run(3), Play(FedDyn(0.3)).run(3)
    assert play.theta == plain.theta
    h = float(play.server["h of x"])
    mean = algorithm.predict_params(play.params, play.server, None)["x"]
    assert float(mean) == pytest.approx(play.theta + h / 0.3, abs=1e-12)


def mean_state(play):
    states = [play.states.get(k, {"x": tensor(0.0)}) for k in (0, 1)]
    return float(sum(state["x"] for state in states)) / 2


def test_h_is_the_mean_of_the_clients_whoever_takes_part():
    play = Play(FedDyn(0.5))
    for chosen in [(1,), (0, 1), (0,), (0,), (1,), (0, 1)]:
        play.run(chosen=lambda round, chosen=chosen: chosen)
        assert float(play.server["h of x"]) == pytest.approx(mean_state(play), abs=1e-12)


def test_parameter_units_give_the_same_under_partial_participation():
    alpha, rounds = 0.5, [(1,), (0, 1), (0,), (1,), (0, 1)]
    play = Play(FedDyn(alpha), exact=True).run(5, lambda round: rounds[round])
    theta, q = 1.0, [0.0, 0.0]
    for chosen in rounds:
        ends = []
        for k in chosen:
            # minimum of a / 2 (x - b)^2 + alpha x (q - theta) + alpha / 2 x^2
            a, b = ((1, 0), (4, 3))[k]
            end = (a * b - alpha * (q[k] - theta)) / (a + alpha)
            q[k] += end - theta
            ends.append(end)
        theta = np.mean(ends) + np.mean(q)
    assert play.theta == pytest.approx(theta, abs=1e-12)


@pytest.mark.parametrize("alpha", [0.05, 1.0, 10.0])
def test_exact_minima_lead_to_the_common_one(alpha):
    play = Play(FedDyn(alpha), exact=True).run(1000)
    assert play.theta == pytest.approx(BEST, abs=1e-9)
    assert float(play.server["h of x"]) == pytest.approx(0, abs=1e-9)
    for client in (0, 1):
        assert float(play.states[client]["x"]) == pytest.approx(slope(client, BEST), abs=1e-8)


def test_nothing_moves_at_the_optimum():
    slopes = {k: {"x": slope(k, tensor(BEST))} for k in (0, 1)}
    play = Play(FedDyn(0.5), theta=BEST, server={"h of x": tensor(0.0)}, states=slopes, exact=True).run(3)
    assert play.theta == pytest.approx(BEST, abs=1e-14)
    assert float(play.states[0]["x"]) == pytest.approx(BEST, abs=1e-14)


def test_client_weights_do_not_count():
    data = three_classes()
    a, b = (
        fit("feddyn", TwoLayers, data, n_rounds=2, client_weight=w).predict_proba(data[0])
        for w in ("size", "uniform")
    )
    np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("predicts", ["server", "participants"])
def test_the_ledger(predicts):
    """One weight of 8 bytes each way; up with the client's own weight of 8."""
    history = fit(FedDyn(predicts=predicts), n_rounds=2).history_
    assert history.column("bytes_up").tolist() == [2 * 16] * 2
    assert history.column("bytes_down").tolist() == [2 * 8] * 2


@pytest.mark.parametrize(("predicts", "more"), [("server", 0), ("participants", 2 * 8)])
def test_the_model_that_relabels_travels_where_clients_do_not_have_it(predicts, more):
    settings = {"n_rounds": 4, "relabeler": FedReLaRelabeler(0.5), "relabel_at": 2}
    down = fit(FedDyn(predicts=predicts), **settings).history_.column("bytes_down").tolist()
    assert down == [2 * 8, 2 * 8, 2 * 8 + more, 2 * 8]


@pytest.mark.parametrize("predicts", ["server", "participants"])
def test_statistics_of_batch_norm_are_averaged(predicts):
    X, y, groups = three_classes()
    data = (np.c_[X, X[:, :2]].astype(np.float32), y, groups)
    plain = fit(FedProx(0.1), Normed, data, client_weight="uniform").net_.module_
    first = fit(FedDyn(0.1, predicts), Normed, data).net_.module_
    for buffer, other in zip(plain.buffers(), first.buffers(), strict=True):
        assert torch.equal(buffer, other)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"alpha": 0}, "alpha must be a finite number > 0, got 0"),
        ({"clip": 0}, "clip must be a finite number > 0, got 0"),
        ({"by_rows": 1}, "by_rows must be True or False, got 1"),
        ({"predicts": "cloud"}, "predicts must be one of 'server', 'participants'; got 'cloud'"),
    ],
)
def test_settings_out_of_range(settings, message):
    with pytest.raises(ValueError, match=message):
        fit(FedDyn(**settings))
