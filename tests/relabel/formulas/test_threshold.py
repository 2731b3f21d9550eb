"""Thresholds against numpy.quantile, sorted lists and repeated rows."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from tests.relabel.made_rows import thresholds

RNG = np.random.default_rng(0)
RULES = ["quantile", "order_statistic"]


class TestQuantile:
    @pytest.mark.parametrize("tau", [1e-9, 0.01, 0.05, 0.2, 0.5, 0.77, 1.0])
    @pytest.mark.parametrize("n_rows", [1, 2, 6, 21, 100])
    def test_it_is_numpys(self, tau, n_rows):
        z = RNG.normal(size=(n_rows, 4))
        assert_allclose(thresholds(z, tau, "quantile"), np.quantile(z, 1 - tau, axis=0), rtol=0, atol=1e-14)

    @pytest.mark.parametrize("tau", [0.013, 0.17, 0.37, 0.618, 0.9])
    @pytest.mark.parametrize("n_rows", [2, 9, 58])
    def test_between_rows_it_is_numpys_bit_for_bit(self, tau, n_rows):
        z = RNG.normal(size=(n_rows, 40))
        assert_array_equal(thresholds(z, tau, "quantile"), np.quantile(z, 1 - tau, axis=0))

    @pytest.mark.parametrize("n_rows", [7, 8, 11, 50])
    def test_on_a_row_it_is_that_row_exactly(self, n_rows):
        z = RNG.normal(size=(n_rows, 3))
        for m in range(1, n_rows):
            at_row = np.sort(z, axis=0)[n_rows - 1 - m]
            assert_array_equal(thresholds(z, m / (n_rows - 1), "quantile"), at_row)
            assert_array_equal(thresholds(z, m / (n_rows - 1), "quantile", np.ones(n_rows)), at_row)

    def test_between_rows_it_is_linear(self):
        z = np.array([[3.0], [0.0], [1.0]])
        assert_array_equal(thresholds(z, 0.375, "quantile"), [1.5])
        assert_array_equal(thresholds(z, 0.125, "quantile"), [2.5])

    def test_it_stays_between_its_rows(self):
        z = np.full((4, 1), 0.1)
        for tau in (0.1, 0.3, 0.45, 0.9):
            assert_array_equal(thresholds(z, tau, "quantile"), [0.1])

    def test_other_weights_by_hand(self):
        z, weights = np.array([[0.0], [1.0], [2.0]]), np.array([0.5, 1.0, 2.5])
        # cumulative 0.5, 1.5, 4: positions 0 and 1 are held by the rows 1 and 1, 2 and 3 by the last
        assert_array_equal(thresholds(z, 1.0, "quantile", weights), [0.0])
        assert_array_equal(thresholds(z, 2 / 3, "quantile", weights), [1.0])
        assert_allclose(thresholds(z, 0.5, "quantile", weights), [1.5], rtol=1e-15)
        assert_array_equal(thresholds(z, 1 / 3, "quantile", weights), [2.0])

    def test_less_than_one_row_in_all_is_the_first_that_counts(self):
        z, weights = np.array([[2.0], [1.0]]), np.array([0.25, 0.5])
        for tau in (0.1, 1.0):
            assert_array_equal(thresholds(z, tau, "quantile", weights), [1.0])


class TestOrderStatistic:
    @pytest.mark.parametrize("tau", [0.01, 0.05, 0.29, 0.5, 0.58, 0.999, 1.0])
    @pytest.mark.parametrize("n_rows", [1, 2, 3, 19, 20, 100, 101])
    def test_it_is_the_m_plus_first_largest(self, tau, n_rows):
        z = RNG.normal(size=(n_rows, 2))
        m = min(math.floor(Fraction(str(tau)) * n_rows), n_rows - 1)
        expected = np.sort(z, axis=0)[::-1][m] if m > 0 else np.full(2, np.inf)
        assert_array_equal(thresholds(z, tau, "order_statistic"), expected)
        assert_array_equal(thresholds(z, tau, "order_statistic", np.ones(n_rows)), expected)

    def test_fewer_rows_than_one_over_tau_give_infinity(self):
        assert_array_equal(thresholds(RNG.normal(size=(19, 2)), 0.05, "order_statistic"), [np.inf, np.inf])
        assert np.all(np.isfinite(thresholds(RNG.normal(size=(20, 2)), 0.05, "order_statistic")))

    def test_at_most_m_rows_lie_above(self):
        z = RNG.integers(0, 4, size=(50, 20)).astype(float)
        for m in (1, 5, 49):
            assert np.all((z > thresholds(z, m / 50, "order_statistic")).sum(axis=0) <= m)

    def test_other_weights_by_hand(self):
        z, weights = np.array([[0.0], [1.0], [2.0]]), np.array([2.5, 0.5, 1.0])
        # W = 4; from the largest down the cumulative weights are 1, 1.5, 4
        for tau, expected in [(0.2, np.inf), (0.25, 1.0), (0.5, 0.0), (1.0, 0.0)]:
            assert_array_equal(thresholds(z, tau, "order_statistic", weights), [expected])

    def test_m_stays_below_the_sum_of_weights(self):
        z = np.array([[0.0], [1.0]])
        assert_array_equal(thresholds(z, 1.0, "order_statistic", np.array([0.5, 0.5])), [np.inf])
        assert_array_equal(thresholds(z, 1.0, "order_statistic", np.array([1.5, 0.75])), [0.0])

    def test_ten_tenths_are_one_row(self):
        z, tenths = np.arange(20.0)[:, np.newaxis], np.full(20, 0.1)
        assert np.cumsum(tenths)[9] < 1 < 2 <= np.cumsum(tenths)[-1] + 1e-12
        assert_array_equal(thresholds(z, 0.5, "order_statistic", tenths), [9.0])


@pytest.mark.parametrize("rule", RULES)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_integer_weights_equal_repeated_rows_bit_for_bit(rule, data):
    n_rows = data.draw(st.integers(1, 12))
    value = st.integers(-3, 3).map(float) | st.floats(-2, 2)
    z = np.array(data.draw(st.lists(st.tuples(value, value), min_size=n_rows, max_size=n_rows)))
    weights = np.array(data.draw(st.lists(st.integers(1, 5), min_size=n_rows, max_size=n_rows)))
    tau = data.draw(st.sampled_from([0.01, 0.05, 0.1, 0.25, 1 / 3, 0.5, 0.9, 1.0]) | st.floats(0, 1))
    repeated = thresholds(np.repeat(z, weights, axis=0), tau, rule)
    assert_array_equal(thresholds(z, tau, rule, weights.astype(float)), repeated)


@pytest.mark.parametrize("rule", RULES)
def test_it_never_rises_with_tau(rule):
    z = RNG.normal(size=(37, 5))
    grid = np.array([thresholds(z, tau, rule) for tau in np.linspace(0, 1, 200)])
    assert np.all(grid[1:] <= grid[:-1])
