"""The table of normalizations: statistics and strengths."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fedrela_sk.relabel.formulas._normalization import NORMALIZATIONS, rising_excess
from tests.relabel.made_rows import one_group

VALUES = np.array([[0.2, 0.5], [0.6, 0.5], [0.3, 0.5]])
CLASS = one_group(3)


def test_the_zscore_subtracts_the_mean_and_divides_by_the_spread():
    rule = NORMALIZATIONS["zscore_tanh"]
    center, scale = rule.statistics(VALUES, CLASS, 1, 0.0)
    assert_allclose(center, [VALUES.mean(axis=0)])
    assert_allclose(scale, [[VALUES[:, 0].std(ddof=1), 0]])
    assert_array_equal(rule.strength(np.array([1.5]), 0.25), np.tanh([1.25]))
    assert (rule.unit, rule.thresholded) == (False, True)


def test_minmax_subtracts_the_lowest_and_divides_by_the_range():
    rule = NORMALIZATIONS["minmax"]
    center, scale = rule.statistics(VALUES, CLASS, 1, 0.0)
    assert_array_equal(center, [[0.2, 0.5]])
    assert_allclose(scale, [[0.4, 0]])
    assert_array_equal(rule.strength(np.array([0.75]), 0.5), [0.75])
    assert (rule.unit, rule.thresholded) == (True, True)


def test_minmax_has_a_floor_on_ranges_but_equal_values_stay_at_zero():
    assert_array_equal(NORMALIZATIONS["minmax"].statistics(VALUES, CLASS, 1, 0.8)[1], [[0.8, 0]])


def test_none_is_the_value_itself():
    rule = NORMALIZATIONS["none"]
    center, scale = rule.statistics(VALUES, CLASS, 1, 5.0)
    assert_array_equal(center, [[0, 0]])
    assert_array_equal(scale, [[1, 1]])
    assert_array_equal(rule.strength(np.array([-1e-7, 0.3, 1 + 1e-7]), 0.0), [0, 0.3, 1])
    assert (rule.unit, rule.thresholded) == (False, False)


@pytest.mark.parametrize("name", ["minmax", "none"])
def test_without_tanh_the_rising_form_is_the_same(name):
    z = np.array([0.0, 0.25, 1.0])
    assert_array_equal(NORMALIZATIONS[name].rising(z, 0.0), NORMALIZATIONS[name].strength(z, 0.0))


class TestRisingExcess:
    def test_it_is_tanh(self):
        x = np.concatenate([np.logspace(-300, 0, 400), np.linspace(1, 25, 400), [1e3, 1e200]])
        assert_allclose(rising_excess(x, 0.0), np.tanh(x), rtol=3e-14)
        assert_allclose(rising_excess(x[300:700] + 0.5, 0.5), np.tanh(x[300:700] + 0.5 - 0.5), rtol=3e-14)

    def test_it_never_steps_back_between_neighboring_floats(self):
        rng = np.random.default_rng(0)
        x = np.concatenate([rng.uniform(0, 8, 20_000), 10 ** rng.uniform(-12, 0, 20_000)])
        values = rising_excess(x, 0.0)
        for _ in range(5):
            x = np.nextafter(x, np.inf)
            after = rising_excess(x, 0.0)
            assert np.all(after >= values)
            values = after

    def test_the_smallest_excess_is_no_error(self):
        with np.errstate(all="raise", under="ignore"):
            assert rising_excess(np.array([5e-324]), 0.0) == 0.0
