"""Closed forms of what relabeling does to posteriors."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from fedrela_sk.relabel.formulas import _expectation
from fedrela_sk.relabel.formulas._expectation import (
    RHO_CAP,
    argmax_expectation,
    argmax_of_successes_expectation,
    expected_posteriors,
)
from fedrela_sk.relabel.formulas._rho import Candidates, candidates_of_label
from fedrela_sk.relabel.many._pass import fit_one
from tests.relabel.made_rows import long_tailed_rows

PAPER = {"tau": 0.2, "normalization": "zscore_tanh", "ddof": 1, "min_scale": 0.0, "threshold": "quantile"}
TARGETS = {"argmax": argmax_expectation, "argmax_of_successes": argmax_of_successes_expectation}


def row_of_T(rho, target):
    """Probability of each class, and of keeping the label, for one row."""
    rho = np.array(rho)
    column = np.flatnonzero(rho)
    found = Candidates(np.zeros(len(column), dtype=int), column, np.zeros(len(column)), rho[column])
    entry, probability, keep = TARGETS[target](found)
    row = np.zeros(len(rho))
    row[found.column[entry]] = probability
    return [*row, keep[0]]


class TestClosedForms:
    @pytest.mark.parametrize(
        ("target", "rho", "expected"),
        [
            ("argmax_of_successes", [0, 0.5, 0.8], [0, 0.1, 0.8, 0.1]),
            ("argmax", [0, 0.5, 0.8], [0, 0, 0.9, 0.1]),
            ("argmax_of_successes", [0, 0.5, 0.5], [0, 0.5, 0.25, 0.25]),
            ("argmax", [0, 0.5, 0.5], [0, 0.75, 0, 0.25]),
            ("argmax_of_successes", [0.3, 0, 0.9, 0.6], [0.3 * 0.1 * 0.4, 0, 0.9, 0.06, 0.7 * 0.1 * 0.4]),
            ("argmax", [0.3, 0, 0.9, 0.6], [0, 0, 1 - 0.028, 0, 0.028]),
        ],
    )
    def test_by_hand(self, target, rho, expected):
        assert_allclose(row_of_T(rho, target), expected, rtol=1e-14)

    @pytest.mark.parametrize("target", TARGETS)
    def test_rho_is_capped(self, target):
        row = row_of_T([0, 1.0], target)
        assert_allclose(row[1:], [RHO_CAP, 1 - RHO_CAP], rtol=1e-9)

    def test_the_order_is_that_before_the_cap(self):
        above, further = 1 - 1e-7, 1 - 1e-8  # both above the cap
        assert row_of_T([0, above, further], "argmax")[1] == 0
        assert row_of_T([0, further, above], "argmax")[2] == 0
        assert_allclose(row_of_T([0, above, further], "argmax_of_successes")[1:3], [1e-6, RHO_CAP], rtol=1e-5)
        assert_allclose(row_of_T([0, further, above], "argmax_of_successes")[1:3], [RHO_CAP, 1e-6], rtol=1e-5)

    @pytest.mark.parametrize("target", TARGETS)
    def test_many_rows_at_once_are_the_rows_one_by_one(self, target):
        rng = np.random.default_rng(0)
        rho = rng.random((40, 6)) * (rng.random((40, 6)) < 0.5)
        rho[:, 2] = np.where(rho[:, 1] > 0, rho[:, 1], rho[:, 2])  # ties
        rho = rho[rho.any(axis=1)]
        row, column = np.nonzero(rho)
        found = Candidates(row, column, np.zeros(len(row)), rho[row, column])
        entry, probability, keep = TARGETS[target](found)
        together = np.zeros(rho.shape)
        together[row[entry], column[entry]] = probability
        alone = np.array([row_of_T(line, target) for line in rho])
        assert_allclose(np.column_stack([together, keep]), alone, rtol=1e-14)
        assert_allclose(alone.sum(axis=1), 1, rtol=1e-14)


class TestMixing:
    @pytest.mark.parametrize("target", TARGETS)
    def test_it_is_the_sum_over_labels_of_q_times_T(self, target):
        Q, y = long_tailed_rows(0, 50, 4)
        statistics = fit_one(Q, y, **PAPER)
        expected = np.zeros(Q.shape)
        for label in range(4):
            for row in range(len(Q)):
                rho = candidates_of_label(Q[[row]], label, statistics).dense((1, 4))[0]
                *moved, keep = row_of_T(rho, target) if rho.any() else [0, 0, 0, 0, 1]
                expected[row] += Q[row, label] * np.array(moved)
                expected[row, label] += Q[row, label] * keep
        mixed = expected_posteriors(Q, statistics, target)
        assert np.abs(mixed - Q).max() > 0.1
        assert_allclose(mixed, expected, rtol=1e-13)

    @pytest.mark.parametrize("target", TARGETS)
    @pytest.mark.parametrize("n_classes", [2, 3, 10])
    def test_rows_sum_to_one_and_stay_probabilities(self, target, n_classes):
        Q, y = long_tailed_rows(1, 200, n_classes)
        mixed = expected_posteriors(Q, fit_one(Q, y, **PAPER), target)
        assert mixed.dtype == np.float64
        assert_allclose(mixed.sum(axis=1), 1, rtol=0, atol=1e-14)
        assert mixed.min() >= 0

    @pytest.mark.parametrize("n_classes", [2, 5])
    def test_the_posteriors_are_left_alone(self, n_classes):
        Q, y = long_tailed_rows(1, 60, n_classes)
        before = Q.copy()
        mixed = expected_posteriors(Q, fit_one(Q, y, **PAPER), "argmax")
        assert not np.shares_memory(mixed, Q)
        assert_array_equal(Q, before)

    @pytest.mark.parametrize("target", TARGETS)
    def test_blocks_of_rows_change_nothing(self, target, monkeypatch):
        Q, y = long_tailed_rows(2, 101, 5)
        statistics = fit_one(Q, y, **PAPER)
        whole = expected_posteriors(Q, statistics, target)
        for block in (1, 35, 500):
            monkeypatch.setattr(_expectation, "BLOCK", block)
            assert_array_equal(expected_posteriors(Q, statistics, target), whole)

    @pytest.mark.parametrize("n_classes", [2, 4])
    def test_z_scores_may_come_from_other_values_than_are_mixed(self, n_classes):
        Q, y = long_tailed_rows(3, 80, n_classes)
        scores = np.log(Q)
        statistics = fit_one(scores, y, **PAPER)
        mixed = expected_posteriors(Q, statistics, "argmax", values=scores)
        for row in range(0, 80, 7):
            expected = np.zeros(n_classes)
            for label in range(n_classes):
                rho = candidates_of_label(scores[[row]], label, statistics).dense((1, n_classes))[0]
                *moved, keep = row_of_T(rho, "argmax") if rho.any() else [*np.zeros(n_classes), 1]
                expected += Q[row, label] * (np.array(moved) + keep * np.eye(n_classes)[label])
            assert_allclose(mixed[row], expected, rtol=1e-12)

    @pytest.mark.parametrize("n_classes", [2, 3])
    def test_without_rho_it_is_the_identity_bit_for_bit(self, n_classes):
        Q, y = long_tailed_rows(0, 60, n_classes)
        Q[0, 0] += 1e-7
        mixed = expected_posteriors(Q, fit_one(Q, y, **{**PAPER, "tau": 0.0}), "argmax")
        assert_array_equal(mixed, Q)


def two_class_statistics(seed, rarer, n_rows=200, **changes):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n_rows) < 0.1, rarer, 1 - rarer)
    y[:4] = 0, 0, 1, 1
    p = 1 / (1 + np.exp(-rng.normal(2 * (2 * y - 1), 2)))
    return fit_one(np.column_stack([1 - p, p]), y, **{**PAPER, **changes})


class TestTwoClasses:
    """A map of P(class 1) alone that never decreases."""

    @pytest.mark.parametrize("normalization", ["zscore_tanh", "minmax", "none"])
    @pytest.mark.parametrize("rarer", [0, 1])
    def test_it_is_the_closed_form(self, rarer, normalization):
        statistics = two_class_statistics(0, rarer, normalization=normalization)
        p = np.linspace(0, 1, 501)
        Q = np.column_stack([1 - p, p])
        rho = candidates_of_label(Q, 1 - rarer, statistics).dense(Q.shape)[:, rarer]
        expected = Q[:, rarer] + Q[:, 1 - rarer] * np.minimum(rho, RHO_CAP)
        for target in TARGETS:
            mixed = expected_posteriors(Q, statistics, target)
            assert_allclose(mixed[:, rarer], expected, rtol=0, atol=3e-14)
            assert_allclose(mixed[:, 1 - rarer], 1 - expected, rtol=0, atol=3e-14)
        assert np.abs(mixed - Q).max() > 0.1

    @pytest.mark.parametrize("normalization", ["zscore_tanh", "minmax", "none"])
    @pytest.mark.parametrize("rarer", [0, 1])
    def test_neighboring_floats_never_step_back(self, rarer, normalization):
        statistics = two_class_statistics(1, rarer, normalization=normalization)
        rng = np.random.default_rng(2)
        p = np.concatenate(
            [rng.random(3000), 10 ** rng.uniform(-12, 0, 3000), 1 - 10 ** rng.uniform(-12, 0, 3000)]
        )
        p = np.sort(np.concatenate([np.nextafter(p, 0), p, np.nextafter(p, 2), [0, 1]]))
        p = p[p <= 1]
        mixed = expected_posteriors(np.column_stack([1 - p, p]), statistics, "argmax")[:, 1]
        assert np.all(np.diff(mixed) >= 0)

    @pytest.mark.parametrize("rarer", [0, 1])
    @settings(max_examples=60, deadline=None)
    @given(data=st.data())
    def test_single_precision_rows_never_step_back(self, rarer, data):
        statistics = two_class_statistics(data.draw(st.integers(0, 20)), rarer)
        unit = st.floats(0, 1, width=32)
        p = np.sort(np.array(data.draw(st.lists(unit, min_size=2, max_size=50)), dtype=np.float32))
        # both columns rounded on their own, as softmax in single precision gives them
        rounding = data.draw(st.lists(st.sampled_from([-1, 0, 1]), min_size=len(p), max_size=len(p)))
        q = (np.float32(1) - p) + np.array(rounding, dtype=np.float32) * np.float32(6e-8)
        mixed = expected_posteriors(np.column_stack([q, p]).astype(float), statistics, "argmax")
        assert np.all(np.diff(mixed[:, 1]) >= 0)
        assert_allclose(mixed.sum(axis=1), 1, atol=1e-6)

    @pytest.mark.parametrize("rarer", [0, 1])
    def test_entries_outside_the_unit_interval_keep_their_order_too(self, rarer):
        statistics = two_class_statistics(3, rarer)
        p = np.sort(np.concatenate([np.linspace(-1e-4, 1e-4, 201), 1 + np.linspace(-1e-4, 1e-4, 201)]))
        mixed = expected_posteriors(np.column_stack([1 - p, p]), statistics, "argmax")
        assert np.all(np.diff(mixed[:, 1]) > 0)
        assert_allclose(mixed.sum(axis=1), 1, atol=1e-14)

    @pytest.mark.parametrize("rarer", [0, 1])
    def test_it_increases_where_neighbors_differ_by_more_than_1e_9(self, rarer):
        # a class of hardly any spread saturates rho for nearly all rows
        y = np.array([1 - rarer] * 9 + [rarer])
        p = np.where(np.arange(10) == 9, 0.5, 1e-4 * np.arange(10))
        Q = np.column_stack([1 - p, p]) if rarer == 1 else np.column_stack([p, 1 - p])
        statistics = fit_one(Q, y, **PAPER)
        p = np.concatenate([start + 1.01e-9 * np.arange(2000) for start in (0, 0.3, 0.9, 1 - 2.1e-6)])
        p = p[p <= 1]
        mixed = expected_posteriors(np.column_stack([1 - p, p]), statistics, "argmax")[:, 1]
        assert np.all(np.diff(mixed) > 0)
        rho = candidates_of_label(np.column_stack([1 - p, p]), 1 - rarer, statistics).rho
        assert np.mean(rho > RHO_CAP) > 0.4

    def test_rows_without_rho_come_back_bit_for_bit(self):
        statistics = two_class_statistics(0, 1)
        Q = np.array([[1 - 1e-20, 1e-20], [0.9 + 1e-7, 0.1], [1.0, 0.0]])
        assert_array_equal(expected_posteriors(Q, statistics, "argmax"), Q)

    def test_equal_counts_are_the_identity(self):
        Q = np.array([[0.1, 0.9], [0.8, 0.2], [0.3, 0.7], [0.6, 0.4]])
        statistics = fit_one(Q, np.array([0, 0, 1, 1]), **PAPER)
        assert_array_equal(expected_posteriors(Q, statistics, "argmax"), Q)
