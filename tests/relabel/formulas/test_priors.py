"""Counts, prior weights and gains in rarity, worked out by hand."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fedrela_sk.relabel.formulas._priors import class_counts, prior_weights, rarity_gains


class TestCounts:
    def test_absent_classes_count_zero(self):
        counts = class_counts(np.array([0, 2, 0]), 4)
        assert counts.dtype == np.float64
        assert_array_equal(counts, [2, 0, 1, 0])

    def test_weights_are_summed(self):
        assert_array_equal(class_counts(np.array([0, 2, 0]), 3, np.array([0.5, 2.0, 3.0])), [3.5, 0, 2])


class TestPriorWeights:
    def test_the_worked_example(self):
        assert_array_equal(prior_weights(np.array([4.0, 2.0, 0.0])), [0, 0.5, 1])

    def test_the_rarest_has_one_and_the_most_frequent_zero(self):
        assert_allclose(prior_weights(np.array([10.0, 4.0, 7.0])), [0, 1, 0.5], rtol=1e-15)

    @pytest.mark.parametrize("count", [0.7, 1.0, 50.0])
    def test_equal_counts_make_every_class_as_rare(self, count):
        assert_array_equal(prior_weights(np.full(4, count)), np.ones(4))

    def test_sums_of_weights_that_differ_by_rounding_are_equal(self):
        # "balanced" weights of 7 and 3 rows sum to 5 each, up to rounding
        counts = np.array([np.sum(np.full(7, 5 / 7)), np.cumsum(np.full(3, 5 / 3))[-1] * (1 + 1e-15)])
        assert counts[0] != counts[1]
        assert_array_equal(prior_weights(counts), [1, 1])

    @pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
    def test_rounding_is_a_share_of_the_largest_count(self, size):
        assert_array_equal(prior_weights(np.array([1 + 0.9e-9, 1]) * size), [1, 1])
        assert_array_equal(prior_weights(np.array([1 + 1.1e-9, 1]) * size), [0, 1])

    def test_one_row_more_in_a_hundred_million_is_not_rounding(self):
        assert_array_equal(prior_weights(np.array([1e8 + 1, 1e8])), [0, 1])


def test_gains_are_positive_only_towards_rarer_classes():
    gains = rarity_gains(np.array([0, 0.5, 1]))
    assert_array_equal(gains, [[0, 0.5, 1], [0, 0, 0.5], [0, 0, 0]])
