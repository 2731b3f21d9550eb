"""Means, spreads and ranges of groups, beside those of single groups."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fedrela_sk.relabel._groups import Groups
from fedrela_sk.relabel._normalization import NORMALIZATIONS

RNG = np.random.default_rng(0)


def test_by_hand():
    groups = Groups(np.array([1, 0, 1, 2, 1]), 3)
    values = np.array([1.0, 5.0, 2.0, -4.0, 6.0])
    assert_array_equal(groups.total, [1, 3, 1])
    assert_array_equal(groups.sum(values), [5, 9, -4])
    assert_array_equal(groups.range(values), [[5, 1, -4], [5, 6, -4]])
    mean, std = groups.moments(values, 1)
    assert_array_equal(mean, [5, 3, -4])
    assert_array_equal(std, [0, np.sqrt(7), 0])


def test_by_hand_with_weights():
    groups = Groups(np.array([0, 1, 1]), 2, np.array([0.5, 1.0, 3.0]))
    values = np.array([8.0, 1.0, 5.0])
    assert_array_equal(groups.total, [0.5, 4])
    assert_array_equal(groups.sum(values), [4, 16])
    assert_array_equal(groups.moments(values, 1), [[8, 4], [0, 2]])  # 12 / (4 - 1), the root of it


def test_a_part_of_the_groups_has_their_rows_alone():
    groups = Groups(np.array([3, 0, 1, 3, 2]), 4, np.arange(5.0))
    part, rows = groups.part(np.array([True, False, False, True]))
    assert_array_equal(rows, [True, True, False, True, False])
    assert_array_equal(part.of_row, [1, 0, 1])
    assert_array_equal(part.weights, [0, 1, 3])
    assert part.n_groups == 2


COLUMNS = {
    "ordinary": RNG.normal(size=60),
    "equal": np.full(60, 0.1),
    "some groups equal": np.where(np.arange(60) % 5 < 2, 0.3, RNG.normal(size=60)),
    "tiny spread": 1e-200 * RNG.integers(1, 9, 60),
    "some spreads tiny": np.where(
        np.arange(60) % 5 == 1, 1e-170 * RNG.integers(0, 9, 60), RNG.normal(size=60)
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
def test_a_group_has_the_numbers_that_it_has_alone(name, column, min_scale, ddof, weights):
    rule, values = NORMALIZATIONS[name], COLUMNS[column]
    of_row = np.append(np.arange(59) % 5, 5)  # the last group has one row
    centre, scale = rule.of_groups(values, Groups(of_row, 6, weights), ddof, min_scale)
    for group in range(6):
        own = of_row == group
        alone = rule.statistics(
            values[own, np.newaxis], None if weights is None else weights[own], ddof, min_scale
        )
        assert_allclose(centre[group], alone[0][0], rtol=1e-14, atol=0)
        assert_allclose(scale[group], alone[1][0], rtol=1e-13, atol=0)
