"""Optimal sampling: its probabilities are the best there are, its estimate is unbiased."""

import math
from itertools import product

import numpy as np
import pytest
from scipy.optimize import brentq, minimize

from fedrela_sk.exceptions import NotFiniteError
from fedrela_sk.participation import OptimalSampling
from fedrela_sk.participation._optimal import approximate_probabilities, optimal_probabilities

CASES = {
    "spread": ([1.0, 2, 3, 4, 5, 6], 2),
    "giant": ([0.1, 0.2, 0.3, 0.1, 50], 2),
    "two giants": ([0.1, 9, 0.3, 0.1, 50], 3),
    "ties": ([1.0, 1, 1, 7, 7], 3),
    "one": ([3.0, 1, 2], 1),
    "all but one": ([3.0, 1, 2, 0.01], 3),
    "zeros": ([0.0, 3, 0, 1, 2], 2),
    "many": (np.random.default_rng(0).lognormal(0, 2, 50), 12),
}


@pytest.fixture(params=CASES.values(), ids=CASES)
def case(request):
    u, m = request.param
    return np.asarray(u), m


def variance(p, u):
    sent = u > 0
    return ((1 - p[sent]) / p[sent] * u[sent] ** 2).sum()


# --- the closed form ----------------------------------------------------------------------------------------


def test_the_budget_is_spent_exactly(case):
    p = optimal_probabilities(*case)
    np.testing.assert_allclose(p.sum(), case[1], rtol=1e-14)
    assert ((p >= 0) & (p <= 1)).all()


def test_probabilities_are_norms_cut_at_one_on_the_scale_that_spends_the_budget(case):
    u, m = case
    scale = brentq(lambda c: np.minimum(1, c * u).sum() - m, 1e-9, 1e9, xtol=1e-14, rtol=1e-14)
    np.testing.assert_allclose(optimal_probabilities(u, m), np.minimum(1, scale * u), rtol=1e-12, atol=0)


@pytest.mark.parametrize("name", [name for name in CASES if name not in ("many", "zeros")])
def test_no_other_probabilities_give_less_variance(name):
    u, m = np.asarray(CASES[name][0]), CASES[name][1]
    p = optimal_probabilities(u, m)
    u = u / u.max()
    found = minimize(
        variance,
        np.full(len(u), m / len(u)),
        args=(u,),
        jac=lambda p, u: -((u / p) ** 2),
        bounds=[(1e-4, 1)] * len(u),
        constraints={"type": "eq", "fun": lambda p: p.sum() - m, "jac": lambda p: np.ones(len(u))},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert found.success
    assert variance(p, u) <= found.fun + 1e-12
    np.testing.assert_allclose(p, found.x, atol=2e-4)


def test_probabilities_by_hand():
    np.testing.assert_allclose(optimal_probabilities(np.array([8.0, 1, 1]), 2), [1, 0.5, 0.5], rtol=1e-15)
    np.testing.assert_allclose(
        optimal_probabilities(np.array([1.0, 2, 3]), 1), [1 / 6, 1 / 3, 1 / 2], rtol=1e-15
    )


@pytest.mark.parametrize("m", [1, 3, 5])
def test_equal_norms_are_uniform_sampling(m):
    np.testing.assert_allclose(optimal_probabilities(np.full(5, 0.3), m), m / 5, rtol=1e-15)


@pytest.mark.parametrize("rule", [optimal_probabilities, lambda u, m: approximate_probabilities(u, m, 4)])
@pytest.mark.parametrize(("u", "expected"), [([0.0, 2, 0, 1], [0, 1, 0, 1]), ([0.0, 2, 0, 0], [0, 1, 0, 0])])
def test_clients_without_an_update_never_send(rule, u, expected):
    assert rule(np.array(u), 2).tolist() == expected


# --- the approximation --------------------------------------------------------------------------------------


def test_enough_rounds_of_exchange_give_the_closed_form(case):
    np.testing.assert_allclose(
        approximate_probabilities(*case, 100), optimal_probabilities(*case), rtol=1e-12
    )


def test_fewer_rounds_of_exchange_stay_within_the_budget_and_approach_it(case):
    sums = [approximate_probabilities(*case, j).sum() for j in range(1, 6)]
    assert (np.diff(sums) >= -1e-13).all()
    assert sums[-1] <= case[1] * (1 + 1e-14)


def test_the_approximation_by_hand():
    u = np.array([8.0, 4, 2, 1, 1])
    start = np.minimum(1, 3 * u / 16)  # (1, 0.75, 0.375, 0.1875, 0.1875)
    assert start.tolist() == [1, 0.75, 0.375, 0.1875, 0.1875]
    # 4 are below 1, 1.5 in total: factor (3 - 5 + 4) / 1.5 = 4 / 3
    np.testing.assert_allclose(approximate_probabilities(u, 3, 1), [1, 1, 0.5, 0.25, 0.25], rtol=1e-15)


def test_every_round_of_exchange_counts():
    u = np.array([100.0, 30, 10, 3, 1])
    one, two = (approximate_probabilities(u, 3, j) for j in (1, 2))
    assert one.sum() < two.sum() - 0.01


# --- the draw -----------------------------------------------------------------------------------------------


class Scripted:
    """A stream that lets chosen clients send, and if none does, one named client."""

    def __init__(self, sends, instead):
        self.sends, self.instead, self.asked = np.array(sends), instead, None

    def random(self, n):
        return np.where(self.sends, 0.0, np.nextafter(1, 0))

    def choice(self, n, p):
        self.asked = p
        return self.instead


def all_draws(p):
    """(stream, chance) of everything that may happen."""
    for sends in product([False, True], repeat=len(p)):
        chance = np.prod(np.where(sends, p, 1 - p))
        if chance and any(sends):
            yield Scripted(sends, None), chance
        elif chance:
            for i in np.flatnonzero(p):
                yield Scripted(sends, i), chance * p[i] / p.sum()


@pytest.mark.parametrize("approximate", [False, True])
@pytest.mark.parametrize(
    ("weights", "norms", "share"),
    [
        ([1, 1, 1], [1.0, 2, 3], 0.34),
        ([5, 1, 3, 2], [0.1, 4, 2, 2], 0.5),
        ([5, 1, 3, 2, 9, 4], [1.0, 1, 1, 1, 1, 1], 0.3),
        ([1, 2, 3, 4, 5], [100.0, 1, 1, 2, 0], 0.4),
        ([1, 1, 1], [0.0, 0, 0], 0.34),
        ([2, 0, 2], [1.0, 5, 1], 0.34),
        ([3], [2.0], 1.0),
    ],
)
def test_the_estimate_is_unbiased_over_all_that_may_happen(weights, norms, share, approximate):
    rule = OptimalSampling(share, approximate=approximate, j_max=2)
    p = rule.probabilities(weights, norms)
    expected, total = np.zeros(len(p)), 0.0
    for stream, chance in all_draws(p):
        positions, absolute = rule.select(0, stream, weights, norms)
        if stream.asked is not None:
            np.testing.assert_allclose(stream.asked, p / p.sum(), rtol=1e-15)
        expected[positions] += chance * absolute
        total += chance
    np.testing.assert_allclose(total, 1, rtol=1e-14)
    shares = np.array(weights) / np.sum(weights)
    heard = shares * np.array(norms) > 0 if np.any(np.array(norms)) else np.ones(len(p), dtype=bool)
    np.testing.assert_allclose(expected[heard], shares[heard], rtol=1e-13)
    assert not expected[~heard].any()  # nothing to add


def test_where_one_client_is_sure_to_send_weights_are_the_papers():
    rule = OptimalSampling(share=0.5)
    weights, norms = [1, 1, 1, 1], [4.0, 0.5, 0.25, 0.25]
    positions, absolute = rule.select(0, Scripted([False, True, False, True], None), weights, norms)
    assert positions.tolist() == [0, 1, 3]
    np.testing.assert_allclose(absolute, [0.25, 0.25 / 0.5, 0.25 / 0.25], rtol=1e-15)


def test_if_nobody_sends_one_is_drawn():
    rule = OptimalSampling(share=0.5)
    stream = Scripted([False] * 4, 2)
    positions, absolute = rule.select(0, stream, [1, 1, 1, 1], [1.0, 1, 1, 1])
    assert positions.tolist() == [2]
    np.testing.assert_allclose(stream.asked, [0.25] * 4, rtol=1e-15)
    # p = 1/2 each, nobody in 1 of 16 cases: among the senders with probability 1/2 + 1/16/4
    np.testing.assert_allclose(absolute, [0.25 / (0.5 + 1 / 64)], rtol=1e-15)


@pytest.mark.parametrize("approximate", [False, True])
def test_all_norms_zero_is_uniform_sampling(approximate):
    rule = OptimalSampling(share=0.4, approximate=approximate)
    assert rule.probabilities([1, 2, 3, 4, 5], [0.0] * 5).tolist() == [0.4] * 5


@pytest.mark.parametrize("approximate", [False, True])
@pytest.mark.parametrize("scale", [1e-300, 1e-3, 1e3, 1e300])
def test_only_ratios_matter(scale, approximate):
    rule = OptimalSampling(share=0.4, approximate=approximate)
    weights, norms = np.array([5.0, 1, 3, 2, 9]), np.array([0.1, 4, 2, 2, 1])
    expected = rule.probabilities(weights, norms)
    np.testing.assert_allclose(rule.probabilities(weights * 64, norms), expected, rtol=1e-14)
    np.testing.assert_allclose(rule.probabilities(weights, norms * scale), expected, rtol=1e-14)


def test_permuted_clients_have_permuted_probabilities():
    u, m = np.asarray(CASES["many"][0]), CASES["many"][1]
    order = np.random.default_rng(1).permutation(len(u))
    for rule in (optimal_probabilities, lambda u, m: approximate_probabilities(u, m, 4)):
        np.testing.assert_allclose(rule(u[order], m), rule(u, m)[order], rtol=1e-13)


def test_draws_come_from_the_stream_and_the_stream_alone():
    rule, norms = OptimalSampling(share=0.3), np.arange(1.0, 21)
    first, again = (rule.select(0, np.random.default_rng(4), np.ones(20), norms) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert (
        len({tuple(rule.select(0, np.random.default_rng(s), np.ones(20), norms)[0]) for s in range(20)}) > 10
    )


def test_all_clients_train_first():
    choice = OptimalSampling(share=0.1).choose(0, np.random.default_rng(0), np.ones(4))
    assert choice.groups == ((0,), (1,), (2,), (3,))
    assert choice.weights is None


# --- errors -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_norms_that_are_not_finite(bad):
    with pytest.raises(
        NotFiniteError, match=f"client at position 1 has norm {bad} in round 7. Lower the learning rate"
    ):
        OptimalSampling().select(7, np.random.default_rng(0), [1, 1, 1], [1.0, bad, bad])


@pytest.mark.parametrize(
    ("weights", "norms", "message"),
    [
        ([1, 1], [1.0, -1.0], "norms must be finite and >= 0, got -1.0 in round 7"),
        ([1, -1], [1.0, 1.0], "weights must be finite and >= 0, got -1.0 in round 7"),
        ([1, 1], [[1.0, 1.0]], r"norms must be one number per client, got shape \(1, 2\) in round 7"),
        ([1, 1, 1], [1.0, 1.0], "got 3 weights with sum 3 for 2 norms in round 7"),
        ([0, 0], [1.0, 1.0], "got 2 weights with sum 0 for 2 norms in round 7"),
    ],
)
def test_weights_and_norms_that_are_none(weights, norms, message):
    with pytest.raises(ValueError, match=message):
        OptimalSampling().select(7, np.random.default_rng(0), weights, norms)


@pytest.mark.parametrize(
    ("settings", "got"), [({"share": 2.0}, "2.0"), ({"j_max": 0}, "0"), ({"approximate": "yes"}, "'yes'")]
)
def test_parameters_are_checked_at_the_draw_too(settings, got):
    with pytest.raises(ValueError, match=f"parameter of OptimalSampling .*Got {got} instead"):
        OptimalSampling(**settings).select(0, np.random.default_rng(0), [1, 1], [1.0, 1.0])
