"""CLIMB: the lambdas by hand, weights on displacements, reports, negative weights."""

import numpy as np
import pytest
import torch

from fedrela_sk.algorithms import CLIMB, FedAvg, Job, RoundFacts
from fedrela_sk.losses import LDAMLoss
from tests.algorithms.heads import WithBatchNorm
from tests.algorithms.helpers import (
    GROUPS,
    TwoLayers,
    X,
    Y,
    fedavg_weight,
    fit,
    fit_ragged,
    local_sgd,
    three_classes,
    weight,
)

N_PARAMS = 3 * 4 + 4 + 4 * 3 + 3


def server(algorithm, n_clients, reports=()):
    """State of the server after some reports, each an array of losses."""
    job = Job(n_clients, 2, np.arange(2), 0, torch.empty(0))
    state = algorithm.server_init({}, job)
    for losses in reports:
        answers = {i: {"loss": torch.tensor(loss, dtype=torch.float64)} for i, loss in enumerate(losses)}
        state = algorithm.server_gather(answers, state, RoundFacts(0, n_clients, n_clients, 0.1))
    return state


def weights(algorithm, state):
    n_clients = len(state["duals"])
    return algorithm.server_weights(np.full(n_clients, 9.0), np.arange(n_clients), state)


def loss(w, rows):
    x, y = X[rows].ravel(), Y[rows]
    return np.mean(np.log1p(np.exp(w * x)) - y * w * x)


CLIENTS = [np.flatnonzero(k == GROUPS) for k in (0, 1)]


def by_hand(n_rounds, epsilon, dual_every, dual_lr=1.0, w=0.5):
    """(the weight, the lambdas) after some rounds of two steps at rate 0.5."""
    duals, excess = np.zeros(2), np.zeros(2)
    for t in range(n_rounds):
        if t % dual_every == 0:
            duals = np.clip(duals + dual_lr * excess / 2, 0, 100)
            f = np.array([loss(w, rows) for rows in CLIENTS])
            excess = f - f.mean() - epsilon
        ends = np.array([local_sgd(w, X[rows], Y[rows], 0.5, 2) for rows in CLIENTS])
        w = w + np.mean((1 + duals - duals.mean()) * (ends - w))
    return w, duals


def test_rounds_at_the_default_setting_are_uniform_until_the_second_report():
    fed = fit("climb", n_rounds=1)
    assert weight(fed) == pytest.approx(fedavg_weight(weights=(1, 1)), abs=1e-14)
    assert abs(weight(fed) - weight(fit("fedavg"))) > 1e-3


@pytest.mark.parametrize("engine", ["loop", "stacked"])
@pytest.mark.parametrize(("epsilon", "dual_every", "dual_lr"), [(0.0, 2, 20.0), (0.05, 1, 5.0)])
def test_rounds_by_hand(epsilon, dual_every, dual_lr, engine):
    algorithm = CLIMB(epsilon=epsilon, dual_every=dual_every, dual_lr=dual_lr)
    expected, duals = by_hand(5, epsilon, dual_every, dual_lr)
    assert duals.max() > 0.1
    assert abs(expected - by_hand(5, epsilon, dual_every, 0.0)[0]) > 1e-3
    assert weight(fit(algorithm, n_rounds=5, engine=engine)) == pytest.approx(expected, abs=1e-13)


@pytest.mark.parametrize("off", [{"dual_lr": 0.0}, {"epsilon": 1e9}])
def test_without_a_rate_or_with_all_tolerance_it_is_uniform_fedavg(off):
    data = three_classes()
    settings = {"n_rounds": 4, "client_weight": "uniform"}
    plain, own = (
        fit(algorithm, TwoLayers, data, **settings).predict_proba(data[0])
        for algorithm in (FedAvg(), CLIMB(dual_every=1, **off))
    )
    np.testing.assert_allclose(plain, own, rtol=0, atol=1e-14)


def test_the_lambdas_of_one_client_above_the_rest():
    """The report of one dual step moves the weights of the next."""
    algorithm, losses = CLIMB(epsilon=0.1), [1, 1, 1, 1, 2]
    first, second = server(algorithm, 5, [losses]), server(algorithm, 5, [losses, losses])
    assert weights(algorithm, first).tolist() == [1.0] * 5
    np.testing.assert_allclose(second["duals"], [0, 0, 0, 0, 0.14], atol=1e-15)
    np.testing.assert_allclose(weights(algorithm, second), [0.972] * 4 + [1.112], atol=1e-15)


def test_weights_sum_to_the_number_of_clients():
    algorithm = CLIMB(epsilon=0.0, dual_lr=50.0)
    reports = np.random.default_rng(0).gamma(1.0, size=(6, 7))
    own = weights(algorithm, server(algorithm, 7, reports))
    assert own.sum() == pytest.approx(7, abs=1e-12)
    assert own.std() > 1


def test_equal_losses_let_the_lambdas_fall():
    algorithm = CLIMB(epsilon=0.1)
    up = server(algorithm, 2, [[0, 4], [0, 4]])["duals"]
    down = server(algorithm, 2, [[0, 4], [3, 3], [3, 3]])["duals"]
    assert up.tolist() == pytest.approx([0, 0.95])
    assert down.tolist() == pytest.approx([0, 0.90])
    assert server(algorithm, 2, [[3, 3], [3, 3]])["duals"].tolist() == [0, 0]


def test_an_upper_bound():
    algorithm = CLIMB(max_dual=0.5)
    assert server(algorithm, 2, [[0, 40], [0, 40]])["duals"].tolist() == [0, 0.5]


def test_a_client_that_reports_nothing_keeps_its_lambda():
    algorithm = CLIMB(epsilon=0.0)
    state = server(algorithm, 3, [[0, 0, 3], [0, 0, 3]])
    answers = {i: {"loss": torch.tensor(1.0 * i)} for i in (0, 1)}
    facts = RoundFacts(5, 2, 3, 0.1)
    later = algorithm.server_gather(answers, algorithm.server_gather(answers, state, facts), facts)
    np.testing.assert_allclose(later["duals"], [0, 0.5 / 3, 2 * 2 / 3])


def test_negative_weights_are_allowed_or_clipped():
    state = {"duals": torch.tensor([0.0, 0, 0, 0, 6], dtype=torch.float64)}
    np.testing.assert_allclose(weights(CLIMB(), state), [-0.2] * 4 + [5.8], atol=1e-15)
    np.testing.assert_allclose(weights(CLIMB(negative="clip"), state), [0] * 4 + [5.8], atol=1e-15)
    some = CLIMB().server_weights(np.ones(2), np.array([4, 1]), state)
    np.testing.assert_allclose(some, [5.8, -0.2], atol=1e-15)


@pytest.mark.parametrize("negative", ["allow", "clip"])
@pytest.mark.parametrize("engine", ["loop", "stacked"])
def test_batch_norm_keeps_plain_means_under_negative_weights(engine, negative):
    """Round 0 is FedAvg's; in round 1 clients train alike, and parameters alone feel the weights."""
    wild = CLIMB(epsilon=0.0, dual_lr=60.0, dual_every=1, negative=negative)
    settings = {"n_rounds": 2, "client_weight": "uniform", "engine": engine}
    ours, theirs = (
        fit(algorithm, WithBatchNorm, three_classes(), **settings).net_.module_.state_dict()
        for algorithm in (wild, FedAvg())
    )
    for name in ("1.running_mean", "1.running_var", "1.num_batches_tracked"):
        np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-12)
        assert ours[name].dtype == theirs[name].dtype
    for name in ("1.weight", "3.weight"):
        assert abs(ours[name] - theirs[name]).max() > 1e-3


def test_what_travels():
    """4 clients, 2 in a round: every second round all report one number of the model that they receive."""
    X, y, _ = three_classes()
    data = X, y, np.arange(len(y)) % 4
    fed = fit(CLIMB(dual_every=2), TwoLayers, data, n_rounds=4, participation=0.5)
    up, down = 2 * (8 * N_PARAMS + 8), 2 * 8 * N_PARAMS
    assert fed.history_.column("bytes_up").tolist() == [up + 4 * 8, up, up + 4 * 8, up]
    assert fed.history_.column("bytes_down").tolist() == [2 * down, down, 2 * down, down]


def reported(losses, weights=None, class_weight=None, net=None):
    """What the first client of the helpers' data reports of the start weight."""

    class Eavesdropper(CLIMB):
        def server_gather(self, reports, server_state, facts):
            heard.append(float(reports[0]["loss"]))
            return super().server_gather(reports, server_state, facts)

    heard = []
    fed = fit(Eavesdropper(losses=losses), class_weight=class_weight, net=net)
    if weights is not None:
        fed.fit(X, Y, groups=GROUPS, sample_weight=weights)
    return heard[-1]


def row_losses(w, rows):
    x, y = X[rows].ravel(), Y[rows]
    return np.log1p(np.exp(w * x)) - y * w * x


def test_clients_report_their_mean_loss_or_the_sum_over_batches_of_a_fifth():
    rows = row_losses(0.5, CLIENTS[0])
    assert reported("mean") == pytest.approx(rows.mean(), abs=1e-15)
    assert reported("sum_of_batches") == pytest.approx(rows.sum(), abs=1e-14)  # 4 rows: 4 batches
    own = np.array([1.0, 3.0, 2.0, 0.0, 1.0, 1.0])
    assert reported("mean", own) == pytest.approx(np.average(rows, weights=own[:4]), abs=1e-14)
    assert reported("sum_of_batches", own) == pytest.approx(rows[:3].sum(), abs=1e-14)
    by_class = np.where(Y[:4] == 1, 5.0, 1.0)
    assert reported("mean", class_weight={1: 5.0}) == pytest.approx(
        np.average(rows, weights=by_class), abs=1e-14
    )


def test_seven_rows_are_seven_batches_and_eleven_are_six():
    for n, expected in ((7, 7), (11, 6)):
        losses = torch.arange(1.0, n + 1)
        model = type("Model", (), {"criterion": None, "evaluate": staticmethod(lambda x: x)})()
        batch = type("Batch", (), {"x": losses, "row_losses": staticmethod(lambda z: z)})()
        data = type("Data", (), {"batches": lambda self, c, b=batch: [b], "loss_weights": torch.ones(n)})()
        size = 1 if n == 7 else 2
        total = sum(part.mean() for part in losses.split(size))
        assert len(losses.split(size)) == expected
        assert CLIMB(losses="sum_of_batches").client_report(model, data, None)["loss"] == pytest.approx(
            float(total)
        )


def test_a_criterion_of_the_users_own_is_what_is_reported():
    """One that counts each client's classes: LDAM's margins are the largest for the rarest."""
    own, x = np.array([1.0, 3.0, 2.0, 0.0, 1.0, 1.0]), X[:4].ravel()
    margins = 0.5 * np.array([1.0, 2.0**-0.25])  # of classes of 2 and of 4 rows
    rows = np.logaddexp(0, 30 * np.where(Y[:4] == 1, margins[1] - 0.5 * x, 0.5 * x + margins[0]))
    expected = np.average(rows, weights=own[:4])
    assert reported("mean", own, net={"criterion": LDAMLoss}) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("losses", ["mean", "sum_of_batches"])
def test_both_engines_agree_on_ragged_clients_and_new_labels(losses):
    algorithm, x = CLIMB(epsilon=0.0, dual_lr=30.0, dual_every=1, losses=losses), three_classes()[0]
    loop, stacked = (
        fit_ragged(algorithm, n_rounds=5, engine=engine).predict_proba(x) for engine in ("loop", "stacked")
    )
    np.testing.assert_allclose(loop, stacked, rtol=0, atol=1e-10)


def test_frozen_parameters_stay():
    class Frozen(TwoLayers):
        def __init__(self):
            super().__init__()
            self[0].weight.requires_grad_(False)

    start = fit(CLIMB(), Frozen, three_classes(), lr=0.0).net_.module_
    algorithm = CLIMB(dual_every=1, epsilon=0.0, dual_lr=50.0)
    end = fit(algorithm, Frozen, three_classes(), n_rounds=3).net_.module_
    np.testing.assert_allclose(end[0].weight, start[0].weight, rtol=1e-15)
    assert abs(end[2].weight - start[2].weight).max() > 1e-3


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"epsilon": -0.1}, "epsilon must be a finite number >= 0"),
        ({"dual_lr": np.inf}, "dual_lr must be a finite number >= 0"),
        ({"dual_every": 0}, "dual_every must be a whole number >= 1"),
        ({"max_dual": 0}, "max_dual must be a finite number > 0"),
        ({"losses": "sum"}, "losses must be one of 'mean', 'sum_of_batches'"),
        ({"negative": "error"}, "negative must be one of 'allow', 'clip'"),
    ],
)
def test_bad_settings(bad, said):
    with pytest.raises(ValueError, match=said):
        fit(CLIMB(**bad))
