"""Sums, ranges and z-scores of groups of rows, beside those of single groups."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from fedrela_sk.relabel.formulas._normalization import NORMALIZATIONS, mean_and_std
from fedrela_sk.relabel.many._numpy import Groups
from tests.relabel.made_rows import one_group

RNG = np.random.default_rng(0)


def test_by_hand():
    groups = Groups(np.array([0, 1, 1, 1, 2]), np.array([[1.0], [3.0], [1.0]]))
    values = np.array([[5.0, 1.0], [1.0, 1.0], [2.0, 1.0], [6.0, 1.0], [-4.0, 0.5]])
    assert groups.n_groups == 3
    assert_array_equal(groups.sum(values), [[5, 1], [9, 3], [-4, 0.5]])
    assert_array_equal(groups.range(values), [[[5, 1], [1, 1], [-4, 0.5]], [[5, 1], [6, 1], [-4, 0.5]]])
    mean, std = mean_and_std(values, groups, 1, 0.0)
    assert_array_equal(mean, [[5, 1], [3, 1], [-4, 0.5]])
    assert_array_equal(std, [[0, 0], [np.sqrt(7), 0], [0, 0]])
    z = groups.standardize(values, mean, np.array([[0.0, 1.0], [2.0, 1.0], [0.5, 1.0]]), unit=False)
    assert_array_equal(z, [[0, 0], [-1, 0], [-0.5, 0], [1.5, 0], [0, 0]])
    assert_array_equal(groups.standardize(values, mean, np.ones((3, 2)), unit=True)[:, 0], [0, 0, 0, 1, 0])


def test_by_hand_with_weights():
    groups = Groups(np.array([0, 1, 1]), np.array([[0.5], [4.0]]), np.array([0.5, 1.0, 3.0]))
    values = np.array([[8.0], [1.0], [5.0]])
    assert_array_equal(groups.sum(values), [[4], [16]])
    assert_array_equal(mean_and_std(values, groups, 1, 0.0), [[[8], [4]], [[0], [2]]])  # sqrt(12 / (4 - 1))


COLUMNS = {
    "ordinary": RNG.normal(size=60),
    "equal": np.full(60, 0.1),
    "some groups equal": np.where(np.arange(60) // 12 < 2, 0.3, RNG.normal(size=60)),
    "tiny spread": 1e-200 * RNG.integers(1, 9, 60),
    "some spreads tiny": np.where(
        np.arange(60) // 12 == 1, 1e-170 * RNG.integers(0, 9, 60), RNG.normal(size=60)
    ),
    "smallest numbers": 5e-324 * RNG.integers(0, 3, 60),
    "large": 1e150 * RNG.normal(size=60),
    "far from zero": 1e6 + 1e-6 * RNG.integers(0, 9, 60),
}


@pytest.mark.parametrize("weights", [None, RNG.integers(1, 5, 60) / 2.0], ids=["plain", "weighted"])
@pytest.mark.parametrize("ddof", [0, 1, 7])
@pytest.mark.parametrize("min_scale", [0.0, 0.5])
@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("name", sorted(NORMALIZATIONS))
def test_a_group_and_a_column_have_the_bits_that_they_have_by_themselves(
    name, column, min_scale, ddof, weights
):
    rule, values = NORMALIZATIONS[name], np.column_stack([RNG.normal(size=60), COLUMNS[column]])
    of_row = np.append(np.arange(59) // 12, 5)  # the last group has one row
    total = np.bincount(of_row, weights)[:, np.newaxis].astype(float)
    center, scale = rule.statistics(values, Groups(of_row, total, weights), ddof, min_scale)
    for group in range(6):
        own = of_row == group
        alone = one_group(own.sum(), None if weights is None else weights[own])
        expected = rule.statistics(values[own, 1:], alone, ddof, min_scale)
        assert_array_equal(center[group, 1:], expected[0][0])
        assert_array_equal(scale[group, 1:], expected[1][0])
