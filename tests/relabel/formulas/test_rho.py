"""rho of single rows and of many, and the short cut that skips most z-scores."""

from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from fedrela_sk.relabel.formulas import _rho
from fedrela_sk.relabel.formulas._normalization import NORMALIZATIONS, standardize
from fedrela_sk.relabel.formulas._rho import Candidates, Statistics, candidates, candidates_of_label
from fedrela_sk.relabel.many._pass import fit_one
from tests.relabel.made_rows import long_tailed_rows

PAPER = {"tau": 0.1, "normalization": "zscore_tanh", "ddof": 1, "min_scale": 0.0, "threshold": "quantile"}


def statistics_of(mean, scale, threshold, prior_weight, normalization="zscore_tanh"):
    return Statistics(
        class_count=np.zeros(len(threshold)),
        prior_weight=np.asarray(prior_weight, dtype=float),
        mean=np.asarray(mean, dtype=float),
        scale=np.asarray(scale, dtype=float),
        threshold=np.asarray(threshold, dtype=float),
        normalization=NORMALIZATIONS[normalization],
    )


def rho_everywhere(values, codes, statistics):
    """The definition, without short cut."""
    rule = statistics.normalization
    rho = np.zeros(values.shape)
    for row, label in enumerate(codes):
        z = standardize(values[[row]], statistics.mean[label], statistics.scale[label], rule.unit)[0]
        above = (z > statistics.threshold) & (statistics.gain[label] > 0)
        rho[row, above] = (rule.strength(z, statistics.threshold) * statistics.gain[label])[above]
    return rho


class TestFitStatistics:
    def test_every_class_has_its_own_mean_and_spread(self):
        Q, y = long_tailed_rows(0, 60, 4)
        statistics = fit_one(Q, y, **PAPER)
        for label in range(4):
            assert_allclose(statistics.mean[label], Q[y == label].mean(axis=0), rtol=1e-14)
            if np.sum(y == label) > 1:
                assert_allclose(statistics.scale[label], Q[y == label].std(axis=0, ddof=1), rtol=1e-13)
        assert_array_equal(statistics.class_count, np.bincount(y))

    def test_thresholds_are_taken_over_all_rows_per_column(self):
        Q, y = long_tailed_rows(1, 60, 3)
        statistics = fit_one(Q, y, **PAPER)
        z = np.empty(Q.shape)
        for label in range(3):
            own = Q[y == label]
            z[y == label] = (own - own.mean(axis=0)) / own.std(axis=0, ddof=1)
        assert_allclose(statistics.threshold, np.quantile(z, 0.9, axis=0), rtol=1e-12)

    def test_an_absent_class_has_no_mean_and_no_scale(self):
        Q, y = long_tailed_rows(0, 30, 3)
        Q, y = Q[y != 1], y[y != 1]
        statistics = fit_one(Q, y, **PAPER)
        assert np.all(np.isnan(statistics.mean[1]))
        assert_array_equal(statistics.scale[1], np.zeros(3))
        assert statistics.prior_weight[1] == 1

    def test_weights_reach_counts_means_and_thresholds(self):
        Q, y = long_tailed_rows(2, 50, 3)
        times = np.random.default_rng(0).integers(1, 4, len(y))
        for threshold in ("quantile", "order_statistic"):
            rule = {**PAPER, "threshold": threshold}
            weighted = fit_one(Q, y, weights=times.astype(float), **rule)
            repeated = fit_one(np.repeat(Q, times, axis=0), np.repeat(y, times), **rule)
            for name in ("class_count", "prior_weight", "mean", "scale", "threshold"):
                assert_allclose(getattr(weighted, name), getattr(repeated, name), rtol=1e-12, atol=1e-15)

    @pytest.mark.parametrize(("tau", "threshold"), [(0.0, np.inf), (0.05, 0.0), (1.0, 0.0)])
    def test_without_normalization_tau_only_switches_off(self, tau, threshold):
        Q, y = long_tailed_rows(0, 30, 3)
        statistics = fit_one(Q, y, **{**PAPER, "normalization": "none", "tau": tau})
        assert_array_equal(statistics.threshold, np.full(3, threshold))


class TestFloor:
    """The short cut: a value up to the floor is no candidate, and hardly any other is looked at in vain."""

    def test_it_lies_just_below_the_threshold_in_the_units_of_the_values(self):
        Q, y = long_tailed_rows(4, 90, 4)
        statistics = fit_one(Q, y, **PAPER)
        edge = statistics.mean + statistics.scale * statistics.threshold
        wanted = (statistics.gain > 0) & (statistics.scale > 0)
        assert wanted.sum() >= 3
        assert np.all(statistics.floor[wanted] < edge[wanted])
        assert_allclose(statistics.floor[wanted], edge[wanted], rtol=1e-13)
        assert_array_equal(statistics.floor[statistics.gain == 0], np.inf)

    @pytest.mark.parametrize(
        ("threshold", "floor"), [(-0.5, -np.inf), (0.0, np.inf), (0.5, np.inf), (np.inf, np.inf)]
    )
    def test_without_spread_every_value_or_none_is_looked_at(self, threshold, floor):
        statistics = statistics_of(
            mean=[[1, 0], [np.nan, np.nan]],
            scale=np.zeros((2, 2)),
            threshold=[0, threshold],
            prior_weight=[0, 1],
        )
        with np.errstate(invalid="raise"):
            assert_array_equal(statistics.floor, [[np.inf, floor], [np.inf, np.inf]])

    def test_an_infinite_threshold_is_no_arithmetic_error(self):
        statistics = statistics_of(
            mean=np.zeros((2, 2)), scale=[[1, 0], [1, 1]], threshold=[np.inf, np.inf], prior_weight=[0, 1]
        )
        with np.errstate(invalid="raise"):
            assert_array_equal(statistics.floor, np.full((2, 2), np.inf))


def test_what_is_fitted_and_found_cannot_be_changed():
    Q, y = long_tailed_rows(4, 30, 3)
    statistics = fit_one(Q, y, **PAPER)
    for record, name in [(statistics, "mean"), (candidates(Q, y, statistics), "rho")]:
        with pytest.raises(FrozenInstanceError):
            setattr(record, name, None)


class TestCandidates:
    FOUND = Candidates(
        row=np.array([0, 2, 2, 4, 4, 4]),
        column=np.array([2, 1, 2, 0, 1, 3]),
        z=np.arange(6.0),
        rho=np.array([0.2, 0.3, 0.9, 0.1, 0.7, 0.7]),
    )

    def test_starts_are_the_first_pairs_of_every_row(self):
        assert_array_equal(self.FOUND.starts, [0, 1, 3])

    def test_best_is_the_largest_rho_and_ties_go_to_the_lower_class(self):
        assert_array_equal(self.FOUND.best(), [0, 2, 4])

    def test_nothing_found(self):
        nothing = self.FOUND[np.zeros(6, dtype=bool)]
        assert_array_equal(nothing.starts, [])
        assert_array_equal(nothing.best(), [])
        assert_array_equal(nothing.dense((2, 2)), np.zeros((2, 2)))

    def test_dense(self):
        expected = np.zeros((5, 4))
        expected[4, [0, 1, 3]] = 0.1, 0.7, 0.7
        expected[0, 2], expected[2, 1], expected[2, 2] = 0.2, 0.3, 0.9
        assert_array_equal(self.FOUND.dense((5, 4)), expected)


class TestRho:
    def test_only_values_above_the_threshold_of_a_rarer_class_have_any(self):
        statistics = statistics_of(
            mean=[[0.5, 0.25, 0.25]] * 3,
            scale=np.full((3, 3), 0.125),
            threshold=[0, 1, 1],
            prior_weight=[0, 0.5, 1],
        )
        values = np.array([[0.9, 0.375, 0.390625], [0.4, 0.4375, 0.375], [0.0, 0.0, 0.625]])
        found = candidates_of_label(values, 0, statistics)
        assert_array_equal(found.row, [0, 1, 2])
        assert_array_equal(found.column, [2, 1, 2])
        assert_array_equal(found.z, [1.125, 1.5, 3])
        assert_array_equal(found.rho, [np.tanh(0.125), 0.5 * np.tanh(0.5), np.tanh(2)])
        assert_array_equal(candidates_of_label(values, 2, statistics).row, [])

    def test_a_scale_of_zero_is_a_z_of_zero_below_a_negative_threshold(self):
        statistics = statistics_of(
            mean=[[1, 0], [np.nan, np.nan]], scale=np.zeros((2, 2)), threshold=[0, -0.5], prior_weight=[0, 1]
        )
        found = candidates_of_label(np.array([[1.0, 0.0], [0.0, 1.0]]), 0, statistics)
        assert_array_equal(found.z, [0, 0])
        assert_allclose(found.rho, np.tanh([0.5, 0.5]))

    @pytest.mark.parametrize("threshold", [0.0, 0.5, np.inf])
    def test_a_scale_of_zero_never_exceeds_any_other_threshold(self, threshold):
        statistics = statistics_of(
            mean=[[1, 0], [0, 0]], scale=np.zeros((2, 2)), threshold=[0, threshold], prior_weight=[0, 1]
        )
        assert len(candidates_of_label(np.array([[0.0, 1.0]]), 0, statistics).row) == 0

    def test_an_infinite_threshold_is_never_exceeded(self):
        statistics = statistics_of(
            mean=np.zeros((2, 2)), scale=np.ones((2, 2)), threshold=[0, np.inf], prior_weight=[0, 1]
        )
        assert_array_equal(statistics.floor, np.full((2, 2), np.inf))
        assert len(candidates_of_label(np.array([[0.0, 1e300]]), 0, statistics).row) == 0

    def test_a_posterior_of_zero_is_no_candidate_without_normalization(self):
        statistics = statistics_of(
            mean=np.zeros((3, 3)),
            scale=np.ones((3, 3)),
            threshold=np.zeros(3),
            prior_weight=[0, 1, 0.5],
            normalization="none",
        )
        found = candidates_of_label(
            np.array([[0.5, 0.0, 0.5], [1.1, -0.1, 0.0], [-0.1, 1.1, 0.0]]), 0, statistics
        )
        assert_array_equal(found.dense((3, 3)), [[0, 0, 0.25], [0, 0, 0], [0, 1, 0]])

    def test_rows_keep_their_own_label_and_position(self):
        Q, y = long_tailed_rows(3, 80, 4)
        statistics = fit_one(Q, y, **PAPER)
        found = candidates(Q, y, statistics)
        assert_allclose(found.dense(Q.shape), rho_everywhere(Q, y, statistics), rtol=1e-13)
        assert len(found.row) > 5
        own = y[found.row], found.column
        z = (Q[found.row, found.column] - statistics.mean[own]) / statistics.scale[own]
        assert_allclose(found.z, z, rtol=1e-13)

    def test_blocks_of_rows_change_nothing(self, monkeypatch):
        Q, y = long_tailed_rows(3, 81, 4)
        statistics = fit_one(Q, y, **PAPER)
        whole = candidates(Q, y, statistics)
        for block in (1, 35, 500):
            monkeypatch.setattr(_rho, "BLOCK", block)
            blocks = candidates(Q, y, statistics)
            for name in ("row", "column", "z", "rho"):
                assert_array_equal(getattr(blocks, name), getattr(whole, name))
        assert np.all(np.diff(whole.row * 4 + whole.column) > 0)

    @pytest.mark.parametrize("normalization", ["zscore_tanh", "minmax", "none"])
    @settings(max_examples=80, deadline=None)
    @given(
        seed=st.integers(0, 2**32 - 1),
        size=st.sampled_from([1e-300, 1e-20, 1.0, 1e9, 1e140]),
        ties=st.booleans(),
    )
    def test_the_short_cut_loses_no_value(self, normalization, seed, size, ties):
        rng = np.random.default_rng(seed)
        n_rows, n_classes = 30, 4
        values = (
            rng.integers(-2, 3, (n_rows, n_classes)) * 1.0 if ties else rng.normal(size=(n_rows, n_classes))
        )
        values *= size * 10.0 ** rng.integers(-3, 4, n_classes)
        codes = rng.choice(n_classes, n_rows, p=[0.6, 0.25, 0.1, 0.05])
        rule = {**PAPER, "normalization": normalization, "tau": rng.choice([0.1, 0.5, 1.0])}
        statistics = fit_one(values, codes, **rule)
        found = candidates(values, codes, statistics).dense(values.shape)
        assert_array_equal(found, rho_everywhere(values, codes, statistics))
        # on the threshold itself, and one float on either side
        for label in range(n_classes):
            if np.isnan(statistics.mean[label, 0]):
                continue
            edge = statistics.mean[label] + statistics.scale[label] * statistics.threshold
            edges = np.array([edge, np.nextafter(edge, np.inf), np.nextafter(edge, -np.inf)])
            found = candidates_of_label(edges, label, statistics).dense(edges.shape)
            assert_array_equal(found, rho_everywhere(edges, [label] * 3, statistics))
