"""Means, spreads and z-scores of the rows of one class."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fedrela_sk.relabel.formulas import _normalization
from fedrela_sk.relabel.formulas._normalization import standardize
from tests.relabel.made_rows import one_group

RNG = np.random.default_rng(0)


def mean_and_std(values, weights, ddof, min_scale):
    """Of the columns of one class."""
    mean, scale = _normalization.mean_and_std(values, one_group(len(values), weights), ddof, min_scale)
    return mean[0], scale[0]


class TestMeanAndStd:
    @pytest.mark.parametrize("ddof", [0, 1, 2])
    def test_it_is_numpys(self, ddof):
        values = RNG.normal(size=(7, 3))
        mean, std = mean_and_std(values, None, ddof, 0.0)
        assert_allclose(mean, values.mean(axis=0), rtol=1e-14)
        assert_allclose(std, values.std(axis=0, ddof=ddof), rtol=1e-14)

    @pytest.mark.parametrize("ddof", [0, 1])
    def test_integer_weights_repeat_rows(self, ddof):
        values, weights = RNG.normal(size=(6, 2)), np.array([3, 1, 1, 2, 5, 1])
        mean, std = mean_and_std(values, weights.astype(float), ddof, 0.0)
        repeated = np.repeat(values, weights, axis=0)
        assert_allclose(mean, repeated.mean(axis=0), rtol=1e-14)
        assert_allclose(std, repeated.std(axis=0, ddof=ddof), rtol=1e-14)

    def test_other_weights_divide_by_their_sum_less_ddof(self):
        values, weights = np.array([[0.0], [1.0]]), np.array([0.5, 1.5])
        mean, std = mean_and_std(values, weights, 1, 0.0)
        assert_allclose(mean, [0.75], rtol=1e-15)
        assert_allclose(std, [np.sqrt(0.375)], rtol=1e-15)

    def test_equal_values_have_a_scale_of_zero_whatever_rounding_says(self):
        values = np.full((3, 1), 0.1)
        assert np.std(values, axis=0) > 0  # the test that rounding defeats
        for weights in (None, np.ones(3)):
            mean, scale = mean_and_std(values, weights, 1, 1e-6)
            assert_allclose(mean, [0.1], rtol=1e-15)
            assert_array_equal(scale, [0])

    def test_equal_values_of_any_weights_too(self):
        rng = np.random.default_rng(0)
        for _ in range(100):  # the computed spread of some of them is 1e-24
            n_rows = rng.integers(2, 60)
            values = np.full((n_rows, 1), rng.random())
            assert mean_and_std(values, rng.random(n_rows), 0, 1e-6)[1] == 0

    @pytest.mark.parametrize(("weights", "ddof"), [(None, 2), ([0.5, 0.5], 1), ([0.5, 0.4], 1)])
    def test_no_more_rows_than_ddof_leave_the_spread_unknown(self, weights, ddof):
        weights = None if weights is None else np.array(weights)
        mean, scale = mean_and_std(np.array([[0.0], [1.0]]), weights, ddof, 1e-6)
        assert_allclose(mean, [0.5 if weights is None else weights[1] / weights.sum()])
        assert_array_equal(scale, [0])

    def test_one_row(self):
        mean, scale = mean_and_std(np.array([[0.3, 0.7]]), None, 1, 0.0)
        assert_array_equal(mean, [0.3, 0.7])
        assert_array_equal(scale, [0, 0])

    def test_a_floor_lifts_small_spreads_alone(self):
        values = np.array([[0.5, 0.0], [0.5 + 1e-8, 1.0]])
        assert_allclose(mean_and_std(values, None, 0, 0.0)[1], [5e-9, 0.5], rtol=1e-7)
        assert_array_equal(mean_and_std(values, None, 0, 1e-6)[1], [1e-6, 0.5])

    @pytest.mark.parametrize("size", [1e-139, 1e-141, 1e-170, 1e-300, 1e150])
    def test_sizes_whose_squares_leave_float64(self, size):
        values = np.array([[0.0], [1.0], [5.0]])
        mean, std = mean_and_std(values * size, None, 1, 0.0)
        assert_allclose(mean / size, [2], rtol=1e-14)
        assert_allclose(std / size, [np.sqrt(7)], rtol=1e-14)

    def test_a_tiny_column_beside_an_ordinary_one(self):
        values = np.array([[1e-200, 3.0, 0.5], [3e-200, 1.0, 0.5]])
        mean, std = mean_and_std(values, np.array([1.0, 3.0]), 0, 0.0)
        assert_allclose(mean, [2.5e-200, 1.5, 0.5], rtol=1e-14)
        assert_allclose(std, [np.sqrt(0.75) * 1e-200, np.sqrt(0.75), 0], rtol=1e-14)

    @pytest.mark.parametrize("weighted", [False, True])
    def test_the_rounding_of_long_sums_is_taken_out_again(self, weighted):
        values = 1e8 + RNG.random((5000, 1))
        weights = RNG.random(5000) if weighted else np.ones(5000)
        mean, std = mean_and_std(values, weights if weighted else None, 0, 0.0)
        exact = math.fsum(weights * values[:, 0]) / math.fsum(weights)
        assert_allclose(mean, exact, rtol=4e-16)
        variance = math.fsum(weights * (values[:, 0] - exact) ** 2) / math.fsum(weights)
        assert_allclose(std, math.sqrt(variance), rtol=1e-14)

    def test_a_large_offset_costs_no_more_than_the_values_lost(self):
        steps = np.arange(1000.0)[:, np.newaxis]
        mean, std = mean_and_std(2.0**40 + steps, None, 0, 0.0)
        assert_allclose(mean, 2.0**40 + 499.5, rtol=1e-16)
        assert_allclose(std, np.std(steps), rtol=1e-13)


class TestStandardize:
    def test_by_hand(self):
        z = standardize(np.array([[1.0, 5.0], [4.0, 5.0]]), np.array([2.0, 5.0]), np.array([2.0, 10.0]))
        assert_array_equal(z, [[-0.5, 0], [1, 0]])

    def test_a_scale_of_zero_gives_zero_even_away_from_the_center(self):
        z = standardize(np.array([[1.0, 7.0]]), np.array([0.0, np.nan]), np.array([0.5, 0.0]))
        assert_array_equal(z, [[2, 0]])

    def test_single_entries_have_their_own_center_and_scale(self):
        z = standardize(np.array([1.0, 3.0, 9.0]), np.array([0.0, 1.0, 9.0]), np.array([1.0, 4.0, 0.0]))
        assert_array_equal(z, [1, 0.5, 0])

    def test_values_may_be_cut_to_the_unit_interval(self):
        z = standardize(np.array([[-1.0], [0.5], [3.0]]), np.zeros(1), np.ones(1), unit=True)
        assert_array_equal(z, [[0], [0.5], [1]])

    def test_the_values_are_left_alone(self):
        values = np.ones((2, 2))
        standardize(values, np.ones(2), np.ones(2))
        assert_array_equal(values, np.ones((2, 2)))
