"""FedReLaRelabeler: the posteriors of `transform`."""

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fedrela_sk.relabel import FedReLaRelabeler
from tests.relabel.made_rows import long_tailed_rows

Q, Y = long_tailed_rows(0, 300, 4)


class TestTransform:
    def test_fit_transform_is_fit_then_transform(self):
        weights = np.random.default_rng(0).random(len(Y))
        both = FedReLaRelabeler(0.2).fit_transform(Q, Y)
        assert_array_equal(both, FedReLaRelabeler(0.2).fit(Q, Y).transform(Q))
        weighted = FedReLaRelabeler(0.2).fit_transform(Q, Y, sample_weight=weights)
        assert_array_equal(weighted, FedReLaRelabeler(0.2).fit(Q, Y, weights).transform(Q))
        assert not np.array_equal(weighted, both)

    def test_it_needs_no_labels_and_no_luck(self):
        relabeler = FedReLaRelabeler(0.2).fit(Q, Y)
        new, _ = long_tailed_rows(9, 20, 4)
        assert_array_equal(relabeler.transform(new), relabeler.transform(new))

    @pytest.mark.parametrize("target", ["argmax", "argmax_of_successes"])
    def test_it_is_the_share_of_new_labels_over_many_draws(self, target):
        n_draws = 20_000
        rows, y = long_tailed_rows(5, 60, 3)
        relabeler = FedReLaRelabeler(0.3, target=target).fit(rows, y)
        row = int(np.argmax((relabeler.relabel_proba(rows, np.zeros(60, int)) > 0).sum(axis=1)))
        rng = np.random.default_rng(0)
        labels = rng.choice(3, n_draws, p=rows[row])
        new = relabeler.relabel(np.tile(rows[row], (n_draws, 1)), labels, uniforms=rng.random((n_draws, 3)))
        shares = np.bincount(new, minlength=3) / n_draws
        assert_allclose(shares, relabeler.transform(rows[[row]])[0], atol=5 * 0.5 / np.sqrt(n_draws))
        assert np.abs(shares - rows[row]).max() > 0.1

    def test_caps_and_limits_act_in_relabel_alone(self):
        free = FedReLaRelabeler(0.5).fit(Q, Y)
        bound = FedReLaRelabeler(0.5, min_remaining=10**6, max_ratio=0).fit(Q, Y)
        assert_array_equal(bound.transform(Q), free.transform(Q))
        assert_array_equal(bound.relabel_proba(Q, Y), free.relabel_proba(Q, Y))
        assert_array_equal(bound.relabel(Q, Y), Y)
        assert np.any(free.relabel(Q, Y) != Y)

    def test_rho_itself_is_not_capped(self):
        rows = np.column_stack([1 - np.linspace(0, 1e-3, 20), np.linspace(0, 1e-3, 20)])
        relabeler = FedReLaRelabeler().fit(rows, np.r_[np.zeros(19, int), 1])
        assert relabeler.relabel_proba([[0.0, 1.0]], [0])[0, 1] == 1.0
        assert_allclose(relabeler.transform([[0.5, 0.5]])[0], [5e-7, 1 - 5e-7], rtol=1e-9)

    def test_memory_of_fifty_thousand_rows_and_a_hundred_classes(self):
        n_rows, n_classes = 50_000, 100
        rng = np.random.default_rng(0)
        y = np.minimum(rng.geometric(0.5, n_rows) - 1, 8)
        rows = rng.exponential(size=(n_rows, n_classes))
        rows[np.arange(n_rows), y] += 5
        rows /= rows.sum(axis=1, keepdims=True)
        relabeler = FedReLaRelabeler(0.05, classes=range(n_classes))
        tracemalloc.start()
        try:
            relabeler.fit(rows, y)
            _, peak_of_fit = tracemalloc.get_traced_memory()
            tracemalloc.reset_peak()
            mixed = relabeler.transform(rows)
            _, peak = tracemalloc.get_traced_memory()
            changed = mixed != rows
            del mixed
            draws = rng.random(rows.shape)
            tracemalloc.reset_peak()
            y_new = relabeler.relabel(rows, y, uniforms=draws)
            _, peak_of_relabel = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert np.any(changed)
        assert np.any(y_new != y)
        assert peak_of_fit < 2.5 * rows.nbytes
        assert peak < 1.2 * rows.nbytes
        assert peak_of_relabel < draws.nbytes + changed.nbytes + rows.nbytes

    def test_columns_are_named_after_the_classes(self):
        pd = pytest.importorskip("pandas")
        names = np.array(["a", "b", "c", "d"])
        relabeler = FedReLaRelabeler().set_output(transform="pandas").fit(Q, names[Y])
        frame = relabeler.transform(Q)
        assert isinstance(frame, pd.DataFrame)
        expected = [f"fedrelarelabeler_{name}" for name in names]
        assert frame.columns.tolist() == expected
        assert_array_equal(relabeler.get_feature_names_out(), expected)
        assert relabeler.get_feature_names_out().dtype == object
