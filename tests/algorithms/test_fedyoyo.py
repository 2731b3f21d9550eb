"""FedYoYo: effective numbers of rows, a blended prior, a strong view that learns from a weak one."""

import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from fedrela_sk._random import Purpose, client_stream_id, numpy_stream
from fedrela_sk.algorithms import FedAvg, FedYoYo, RoundFacts
from fedrela_sk.algorithms._fedyoyo import effective_numbers
from tests.algorithms.heads import (
    GROUPS,
    B,
    OneLayer,
    W,
    X,
    Y,
    batch_of,
    data_of,
    fit_small,
    local_of,
    model_of,
    run,
    softmax,
)
from tests.algorithms.helpers import TwoLayers

FACTS = RoundFacts(round=0, n_participants=2, n_clients=2, lr=0.1)


def tensor(values):
    return torch.tensor(values, dtype=torch.float64)


# --- effective numbers --------------------------------------------------------------------------------------


def test_orthogonal_features_all_count_and_equal_ones_count_once():
    # first batch: three orthogonal rows of class 0; second: the same rows with the opposite sign, so the mean is 0
    h = torch.cat([torch.eye(3), -torch.eye(3)]).double()
    y = torch.zeros(6, dtype=torch.int64)
    assert effective_numbers(h, y, 2, 3).tolist() == pytest.approx([6.0, 0.0], abs=1e-12)
    h = tensor([[1, 0], [2, 0], [5, 0], [-8, 0]])  # first batch all in one direction
    assert effective_numbers(h, y[:4], 2, 3).tolist() == pytest.approx([2.0, 0.0], abs=1e-12)


def test_a_single_row_counts_once_and_opposite_ones_a_million_times():
    h = tensor([[1.0, 2.0], [3.0, 3.0], [5.0, 1.0]])
    assert effective_numbers(h, torch.tensor([0, 1, 1]), 3, 3).tolist() == pytest.approx([1, 1e6, 0])


@pytest.mark.parametrize("batch_size", [1, 4, 7, 100])
def test_effective_numbers_one_batch_and_class_after_the_other(batch_size):
    stream = np.random.default_rng(0)
    h, y = stream.normal(size=(30, 5)) + 0.5, stream.choice(3, 30, p=[0.6, 0.3, 0.1])
    expected = np.zeros(3)
    for start in range(0, 30, batch_size):
        for c in range(3):
            rows = np.arange(start, min(start + batch_size, 30))
            a = h[rows[y[rows] == c]] - h[y == c].mean(0)
            if len(a):
                units = a / np.linalg.norm(a, axis=1, keepdims=True)
                number = 1 / max(np.mean(units @ units.T), 1e-6) if len(a) > 1 else 1.0
                assert number >= 1
                expected[c] += number
    found = effective_numbers(torch.from_numpy(h), torch.from_numpy(y), 3, batch_size)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_a_report_uses_features_in_a_drawn_order_and_rows_with_weight():
    algorithm, module = FedYoYo(report_batch=4), TwoLayers()
    x, y = torch.randn(20, 3, dtype=torch.float64), torch.arange(20) % 3
    weights = torch.ones(20, dtype=torch.float64)
    weights[:6] = 0
    local = local_of(stream=numpy_stream(0, Purpose.REPORT, 1, 2))
    report = algorithm.client_report(model_of(module, algorithm), data_of(x, y, weights), local)
    order = 6 + numpy_stream(0, Purpose.REPORT, 1, 2).permutation(14)
    h = module[1](module[0](x[order])).detach()
    assert list(report) == ["effective"]
    np.testing.assert_allclose(report["effective"], effective_numbers(h, y[order], 3, 4), rtol=1e-12)


# --- the server ---------------------------------------------------------------------------------------------


def gathered(known, *reports, **params):
    reports = {k: {"effective": tensor(report)} for k, report in enumerate(reports)}
    return FedYoYo(**params).server_gather(reports, {"effective": tensor(known)}, FACTS)["effective"].tolist()


def test_the_first_estimate():
    assert gathered([0, 0, 0], [4, 1, 0], [2, 0, 0]) == [7, 2, 1]
    assert gathered([0, 0, 0], [4, 1e6, 0]) == [5, 3, 1]  # the mean of 5 and 1
    assert gathered([0, 0], [1e6, 3e6]) == [2e6 + 1, 2e6 + 1]  # there are no others


def test_later_estimates_move_slowly():
    assert gathered([10, 20, 1], [19, 0, 0]) == pytest.approx([0.9 * 10 + 0.1 * 20, 18.1, 1.0])
    assert gathered([10, 20, 1], [19, 0, 0], momentum=0.5) == [15, 10.5, 1]


def test_leaps_are_refused():
    # 0.9 x 10 + 0.1 x (1 + x) is 101 times 10 at x = 10009
    assert gathered([10.0, 10.0], [10008, 10011]) == pytest.approx([1009.9, 10.0])


def test_a_round_without_reports_changes_nothing():
    state = {"effective": tensor([1, 2])}
    assert FedYoYo().server_gather({}, state, FACTS) is state


# --- the prior ----------------------------------------------------------------------------------------------


def prior_of(n_batches=1, effective=(6, 3, 1), counts=(0, 3, 1), **params):
    local = local_of(counts, server={"effective": tensor(effective)})
    return FedYoYo(**params)._prior(local, n_batches)


def test_the_blend_of_priors():
    assert prior_of(gamma=0.0).tolist() == pytest.approx([0.6, 0.3, 0.1])
    assert prior_of(gamma=1.0).tolist() == pytest.approx([0, 0.75, 0.25])
    assert prior_of().tolist() == pytest.approx([0.54, 0.345, 0.115])
    for n in (1, 2, 30):
        assert prior_of(n).sum().item() == pytest.approx(1, abs=1e-15)


@pytest.mark.parametrize(("n", "share"), [(1, 0.9), (10, 0.3487), (44, 0.0097)])
def test_the_recursion_forgets_the_global_prior(n, share):
    expected = np.array([0.6, 0.3, 0.1])
    for _ in range(n):
        expected = 0.9 * expected + 0.1 * np.array([0, 0.75, 0.25])
    np.testing.assert_allclose(prior_of(n), expected, atol=1e-15)
    assert prior_of(n)[0].item() == pytest.approx(0.6 * share, abs=5e-5)


# --- the loss -----------------------------------------------------------------------------------------------


def loss_of(x, y, round=0, state=0.0, effective=(1, 1, 1), counts=(1, 1, 1), share=None, **params):
    """(loss, new state, model) of a batch on `OneLayer`, noise off."""
    algorithm = FedYoYo(**({"noise": 0.0} | params))
    model = model_of(OneLayer(), algorithm)
    local = local_of(
        counts,
        server={"effective": tensor(effective)},
        state={"n_batches": tensor(state)},
        start={"spread": torch.ones(2)},
        round=round,
        stream=np.random.default_rng(0),
    )
    batch = batch_of(x, y)
    loss, new = algorithm.client_loss(model, batch, local)
    return loss, new, model


def flipped(x, stream):
    return -x


def by_numpy(weak, strong, y, prior, factor, tau=1.5, T=1.5):
    """(loss, gradient of the strong logits, gradient of the weak logits) of two views' logits."""
    shift = np.log(prior**tau + 1e-9)
    weak, strong, target = weak + shift, strong + shift, np.eye(3)[y]
    logs = [np.log(softmax(z)[np.arange(len(y)), y]) for z in (weak, strong)]
    P, Q = softmax(weak / T), softmax(strong / T)
    right = weak.argmax(1) == y
    n_right = max(right.sum(), 1)
    kl = (right * (P * np.log(P / Q)).sum(1)).sum() / n_right
    loss = -np.mean(logs) + factor * kl
    from_strong = (softmax(strong) - target) / (2 * len(y)) + factor * right[:, None] * (Q - P) / T / n_right
    return loss, from_strong, (softmax(weak) - target) / (2 * len(y))


@pytest.mark.parametrize(("round", "factor"), [(0, 0.08), (24, 2.0), (49, 4.0), (200, 4.0)])
def test_the_loss_of_two_views(round, factor):
    y = np.array([0, 1, 1, 2, 0, 1, 0])
    prior = 0.9 * np.array([0.6, 0.3, 0.1]) + 0.1 * np.array([0.5, 0.5, 0])
    loss, _, model = loss_of(X, y, round, effective=(6, 3, 1), counts=(4, 4, 0), strong=flipped)
    z, opposite = X @ W.T + B, -X @ W.T + B
    expected, from_strong, from_weak = by_numpy(z, opposite, y, prior, factor)
    assert loss.item() == pytest.approx(expected, abs=1e-14)
    loss.backward()
    gradient = from_weak.T @ X - from_strong.T @ X
    np.testing.assert_allclose(model.module.weight.grad, gradient, atol=1e-14)


def test_views_that_are_all_wrong_teach_nothing():
    y = (X @ W.T + B).argmin(1)
    with_, without = (loss_of(X, y, 99, strong=flipped, strength=s)[0].item() for s in (4.0, 0.0))
    assert with_ == without
    assert math.isfinite(with_)


def test_equal_priors_leave_the_cross_entropy():
    loss, _, model = loss_of(X, Y)
    expected = F.cross_entropy(model(torch.from_numpy(X)), torch.from_numpy(Y))
    assert loss.item() == pytest.approx(expected.item(), abs=1e-14)


def test_an_absent_class_is_pushed_down_and_not_out():
    z = X @ W.T + B
    shift = np.log(np.array([0.5, 0.5, 0.0]) ** 1.5 + 1e-9)
    expected = -np.mean(np.log(softmax(z + shift)[np.arange(7), Y]))
    loss, _, _ = loss_of(X, Y, gamma=1.0, strength=0.0, counts=(4, 4, 0))
    assert loss.item() == pytest.approx(expected, abs=1e-14)


def test_the_recursion_counts_batches_of_a_round():
    params = {"effective": (6, 3, 1), "counts": (1, 1, 1), "blend": "batch"}
    first, new, _ = loss_of(X, Y, **params)
    assert new["n_batches"].item() == 1
    assert first.item() == loss_of(X, Y, effective=(6, 3, 1))[0].item()
    later, new, _ = loss_of(X, Y, state=8.0, **params)
    assert new["n_batches"].item() == 9
    once = loss_of(X, Y, effective=(6, 3, 1), gamma=1 - 0.9**9)[0].item()
    assert later.item() == pytest.approx(once, abs=1e-14)
    _, state = FedYoYo().client_finish({}, local_of(state=new), None)
    assert state["n_batches"].item() == 0
    assert FedYoYo().client_init({})["n_batches"].shape == ()


def test_noise_is_as_large_as_rows_with_weight_differ():
    x = tensor([[1.0, 0.0], [3.0, 0.0], [900.0, 5.0]])
    start = FedYoYo().client_begin(
        None, data_of(x, torch.zeros(3, dtype=torch.int64), tensor([1, 2, 0])), local_of()
    )
    assert start["spread"].tolist() == [1.0, 0.0]


def test_views_of_ones_own():
    calls = []

    def view(name):
        def make(x, stream):
            calls.append((name, tuple(x.shape), type(stream).__name__))
            return x

        return make

    loss, _, _ = loss_of(X, Y, weak=view("weak"), strong=view("strong"))
    assert calls == [("weak", (7, 2), "Generator"), ("strong", (7, 2), "Generator")]
    assert loss.item() == loss_of(X, Y)[0].item()


# --- rounds -------------------------------------------------------------------------------------------------


def test_a_round_by_hand():
    fed = fit_small("fedyoyo")
    ends, reports = [], []
    for k in (0, 1):
        order = numpy_stream(0, Purpose.REPORT, 0, client_stream_id(k)).permutation((k == GROUPS).sum())
        h, y = torch.from_numpy(X[k == GROUPS][order]), torch.from_numpy(Y[k == GROUPS][order])
        reports.append(effective_numbers(h, y, 3, 32).numpy())
    effective = 1 + sum(reports)
    effective = np.where(effective <= 1e4, effective, effective[effective <= 1e4].mean())
    for k in (0, 1):
        x, y = X[k == GROUPS], Y[k == GROUPS]
        counts = np.bincount(y, minlength=3)
        prior = 0.9 * effective / effective.sum() + 0.1 * counts / counts.sum()
        stream = numpy_stream(0, Purpose.METHOD, 0, client_stream_id(k))
        w, b = W.copy(), B.copy()
        for _ in range(2):
            strong = x + 0.1 * x.std(0) * stream.standard_normal(x.shape)
            _, s, r = by_numpy(x @ w.T + b, strong @ w.T + b, y, prior, 4 / 50)
            w, b = w - 0.5 * (s.T @ strong + r.T @ x), b - 0.5 * (s + r).sum(0)
        ends.append(np.column_stack([w, b]))
    expected = np.average(ends, axis=0, weights=(5, 2))
    np.testing.assert_allclose(fed.net_.module_.weight.detach(), expected[:, :2], atol=1e-13)
    np.testing.assert_allclose(fed.net_.module_.bias.detach(), expected[:, 2], atol=1e-13)
    np.testing.assert_allclose(
        fed.predict_proba(X), softmax(X @ expected[:, :2].T + expected[:, 2]), atol=1e-13
    )
    assert np.abs(fed.predict_proba(X) - fit_small(FedAvg()).predict_proba(X)).max() > 0.01


def test_both_blends_differ_once_a_round_has_two_batches():
    one, two = (run(FedYoYo(blend=blend)).net_.module_[0].weight for blend in ("round", "batch"))
    assert not torch.allclose(one, two, atol=1e-4)


def test_traffic_of_a_round():
    fed = run("fedyoyo", n_rounds=1)
    assert fed.history_.column("bytes_up").tolist() == [3 * (31 * 8 + 8 + 3 * 8)]
    assert fed.history_.column("bytes_down").tolist() == [3 * (31 * 8 + 3 * 8)]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"strength": -1}, "strength must be a finite number >= 0"),
        ({"gamma": 1.1}, "gamma must be a finite number >= 0 and <= 1"),
        ({"blend": "step"}, "blend must be one of 'round', 'batch'"),
        ({"tau": None}, "tau must be a finite number >= 0"),
        ({"temperature": 0}, "temperature must be a finite number > 0"),
        ({"warmup": 0}, "warmup must be a whole number >= 1"),
        ({"momentum": 2}, "momentum must be a finite number >= 0 and <= 1"),
        ({"report_batch": 0}, "report_batch must be a whole number >= 1"),
        ({"noise": -0.1}, "noise must be a finite number >= 0"),
        ({"counts": "new"}, "counts must be one of 'original', 'relabeled'"),
    ],
)
def test_bad_values(params, message):
    with pytest.raises(ValueError, match=message):
        fit_small(FedYoYo(**params))
