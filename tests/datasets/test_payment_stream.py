"""The world, its payments and the three scenarios, each checked alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr

from fedrela_sk.datasets import _payment_stream as stream
from fedrela_sk.datasets._payment_features import DAY


def world_of(seed=0, n_customers=2000, n_terminals=4000, n_banks=10, bank_skew=1.0, heterogeneity=0.5):
    rng = np.random.default_rng(seed)
    return stream.make_world(n_customers, n_terminals, n_banks, bank_skew, heterogeneity, rng)


def test_bank_sizes_fall_as_a_power():
    sizes = np.bincount(world_of(n_banks=4, n_customers=4 + 2500, bank_skew=1.0).bank)
    np.testing.assert_array_equal(sizes, [1201, 601, 401, 301])
    sizes = np.bincount(world_of(n_banks=4, n_customers=400, bank_skew=0.0).bank)
    np.testing.assert_array_equal(sizes, [100, 100, 100, 100])


def test_rates_and_risks_are_shares():
    world = world_of()
    for shares in (world.rate, world.card_risk, world.terminal_risk):
        assert shares.min() >= 0
        assert shares.sum() == pytest.approx(1)


def test_customers_use_the_nearest_terminals():
    place = np.array([[0.0, 0.0], [1.0, 0.0], [5.0, 0.0], [6.0, 0.0]])
    near = stream._nearest(place, np.array([[0.9, 0.0], [5.8, 0.0]]))
    np.testing.assert_array_equal(near, [[1, 0, 2, 3], [3, 2, 1, 0]])
    assert world_of().nearest.shape == (2000, stream.NEIGHBORS)
    assert world_of(n_terminals=1).nearest.shape == (2000, 1)


def test_alike_banks_share_one_law_of_amounts():
    amounts = world_of(n_customers=20_000, heterogeneity=0.0).mean_amount
    assert 5 < amounts.min() < 5.2
    assert 99.8 < amounts.max() < 100
    # uniform: the mean has standard error 27.4 / sqrt(20000) = 0.19
    assert amounts.mean() == pytest.approx(52.5, abs=0.8)
    assert amounts.std() == pytest.approx(95 / np.sqrt(12), rel=0.02)


def test_heterogeneity_sets_banks_apart():
    alike, apart = world_of(heterogeneity=0.0), world_of(heterogeneity=1.0)

    def per_bank(world, values):
        return np.bincount(world.bank, values) / np.bincount(world.bank)

    np.testing.assert_allclose(per_bank(alike, alike.card_risk), 1 / 2000)
    np.testing.assert_allclose(alike.terminal_risk, 1 / 4000)
    risk = per_bank(apart, apart.card_risk)
    assert risk.max() > 3 * risk.min()
    assert len(np.unique(apart.terminal_risk)) == 10
    assert np.ptp(per_bank(apart, apart.mean_amount)) > 3 * np.ptp(per_bank(alike, alike.mean_amount))


def test_effects_of_a_bank_are_independent():
    # 40 equal banks: 50 customers and 100 terminals each, numbered bank by bank
    world = world_of(heterogeneity=1.0, n_banks=40, bank_skew=0.0)
    card = np.log(world.card_risk.reshape(40, 50)[:, 0])
    terminal = np.log(world.terminal_risk.reshape(40, 100)[:, 0])
    assert len(np.unique(card)) == len(np.unique(terminal)) == 40
    # 40 pairs: a correlation has a standard error of 0.16
    assert abs(np.corrcoef(card, terminal)[0, 1]) < 0.6


@pytest.mark.parametrize("seed", range(3))
def test_wealth_of_banks_does_not_shift_the_whole(seed):
    # two equal banks are shifted up and down alike, and the mean of the uniform law stays where it is
    world = world_of(seed, n_customers=20_000, n_banks=2, bank_skew=0.0, heterogeneity=1.0)
    assert world.mean_amount.mean() == pytest.approx(52.5, abs=0.8)


@pytest.fixture(scope="module")
def drawn():
    world = world_of(heterogeneity=0.0)
    return world, stream.draw_payments(world, 200_000, -2, 7, np.random.default_rng(1))


def test_payments_are_made_by_rate_near_home(drawn):
    world, payments = drawn
    counts = np.bincount(payments.customer, minlength=2000)
    expected = 200_000 * world.rate
    # a multinomial: chi-square over 2,000 cells has mean 1,999 and spread 63
    chi2 = ((counts - expected) ** 2 / np.maximum(expected, 1)).sum()
    assert 1999 - 5 * 63 < chi2 < 1999 + 5 * 63
    assert (world.nearest[payments.customer] == payments.terminal[:, np.newaxis]).any(axis=1).all()


def test_days_are_uniform_and_times_of_day_a_cut_normal(drawn):
    time = drawn[1].time
    day, second = np.divmod(time, DAY)
    np.testing.assert_array_equal(np.unique(day), np.arange(-2, 5))
    # 200,000 / 7 per day, spread of a count 156
    np.testing.assert_allclose(np.bincount(day + 2), 200_000 / 7, atol=5 * 156)
    low, night, high = ndtr((np.array([0, 7 * 3600, DAY]) - 43_200) / 20_000)
    expected = (night - low) / (high - low)
    assert np.mean(second < 7 * 3600) == pytest.approx(expected, abs=5 * np.sqrt(0.17 * 0.83 / 200_000))
    assert np.mean(second < 43_200) == pytest.approx(0.5, abs=5 * 0.5 / np.sqrt(200_000))


def test_amounts_scatter_around_the_customer(drawn):
    world, payments = drawn
    ratio = payments.cents / 100 / world.mean_amount[payments.customer]
    assert payments.cents.min() >= 0
    # normal (1, 0.5) with the share below 0 (2.3 %) redrawn from uniform (0, 2): the moments of that mixture
    share = ndtr(-2.0)
    cut_mean = 1 + 0.5 * np.exp(-2) / np.sqrt(2 * np.pi) / (1 - share)
    mean = (1 - share) * cut_mean + share * 1.0
    assert ratio.mean() == pytest.approx(mean, abs=5 * 0.5 / np.sqrt(200_000))
    assert np.mean(ratio < 1) == pytest.approx(0.5 - share / 2, abs=5 * 0.5 / np.sqrt(200_000))
    assert set(payments.scenario) == {0}


def test_in_case_by_hand():
    owner = np.array([0, 0, 0, 0, 1, 1, 2])
    time = DAY * np.array([1, 2, 4, 5, 2, 3, 9]) - np.array([0, 1, 1, 0, 0, 0, 0])
    who, start = np.array([1, 0, 0, 2]), np.array([-1, 1, 3, 12])
    # owner 0: [1, 3) and [3, 5); owner 1: [-1, 1), all over; owner 2: not yet
    got = stream.in_case(owner, time, who, start, length=2)
    np.testing.assert_array_equal(got, [True, True, True, False, False, False, False])


@given(seed=st.integers(0, 10_000))
def test_in_case_equals_a_loop(seed):
    rng = np.random.default_rng(seed)
    n, m, length = 30, 6, int(rng.integers(1, 5))
    owner, time = (
        rng.integers(4, size=n),
        rng.integers(-10 * DAY, 10 * DAY, size=n) // (DAY // 2) * (DAY // 2),
    )
    who, start = rng.integers(4, size=m), rng.integers(-12, 12, size=m)
    expected = [
        any(w == o and DAY * s <= t < DAY * (s + length) for w, s in zip(who, start, strict=True))
        for o, t in zip(owner, time, strict=True)
    ]
    np.testing.assert_array_equal(stream.in_case(owner, time, who, start, length), expected)


def test_cases_are_as_many_on_the_first_day_as_on_any_other():
    risk = np.full(10_000, 1e-4)
    who, start = stream.draw_cases(risk, 2e-4, 28, -37, 72, np.random.default_rng(0))
    assert len(who) == round(2e-4 * 10_000 * (72 + 27))
    open_cases = [((start <= day) & (day < start + 28)).sum() for day in range(-37, 35)]
    # 2 a day for 28 days; starts are drawn each in its own half day, so at most one more or less at either end
    np.testing.assert_allclose(open_cases, 56, atol=2)
    assert start.min() >= -37 - 27
    assert start.max() <= 34


def test_cases_follow_the_risk_and_are_at_least_one():
    who, _ = stream.draw_cases(np.array([0.0, 0.25, 0.75]), 10.0, 14, 0, 100, np.random.default_rng(0))
    counts = np.bincount(who, minlength=3)
    assert counts[0] == 0
    # 3,390 cases of which 3/4: spread 25
    assert counts[2] == pytest.approx(0.75 * len(who), abs=5 * 25)
    assert len(stream.draw_cases(np.ones(1), 2e-4, 28, 0, 1, np.random.default_rng(0))[0]) == 1


def test_scenarios_overwrite_and_multiply(drawn, monkeypatch):
    world, payments = drawn
    chosen = iter([(np.array([7]), np.array([0])), (np.array([3]), np.array([1]))])
    monkeypatch.setattr(stream, "draw_cases", lambda *args: next(chosen))
    after = stream.commit_frauds(payments, world, -2, 7, np.random.default_rng(2))
    day = payments.time // DAY
    terminal = (payments.terminal == 7) & (day >= 0)
    card = (payments.customer == 3) & (day >= 1)
    stolen = after.scenario == 3
    assert stolen[~card].sum() == 0
    # a third of the card's payments, within five standard errors
    n = card.sum()
    assert abs(stolen.sum() - n / 3) < 5 * np.sqrt(n * 2 / 9)
    np.testing.assert_array_equal(after.scenario == 2, terminal & ~stolen)
    large = payments.cents > 22_000
    np.testing.assert_array_equal(after.scenario == 1, large & ~terminal & ~stolen)
    assert large.any()
    np.testing.assert_array_equal(after.cents, np.where(stolen, 5, 1) * payments.cents)
    assert payments.scenario.max() == 0  # the input is left alone
