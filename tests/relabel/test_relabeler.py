"""FedReLaRelabeler: reference numbers, worked example, parameters, labels, errors."""

import doctest
import pickle
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import softmax
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import fedrela_sk
from fedrela_sk._random import Purpose, uniforms
from fedrela_sk.exceptions import LabelError, PosteriorError
from fedrela_sk.relabel import FedReLaRelabeler, _relabeler
from tests.relabel.made_rows import long_tailed_rows

RELEASED = {"ddof": 0, "min_scale": 1e-6, "threshold": "order_statistic", "target": "argmax_of_successes"}
REFERENCE = np.load(Path(__file__).parents[1] / "reference" / "relabel_reference.npz")
CASES = sorted({name.split("_")[0] for name in REFERENCE})

Q, Y = long_tailed_rows(0, 300, 4)


class TestReferenceNumbers:
    """Computed by the released code."""

    def test_all_cases_are_there(self):
        assert CASES == ["case1", "case3", "case5", "case7"]

    @pytest.mark.parametrize("case", CASES)
    def test_every_number_to_1e_12_and_every_new_label(self, case):
        given = {
            name.removeprefix(f"{case}_"): REFERENCE[name] for name in REFERENCE if name.startswith(case)
        }
        rows, y = given["Q"], given["y"]
        relabeler = FedReLaRelabeler(float(given["tau"]), classes=np.arange(rows.shape[1]), **RELEASED).fit(
            rows, y
        )
        pairs = [
            (relabeler.prior_weight_, "prior_weight"),
            (relabeler.mean_, "mean"),
            (relabeler.scale_, "std"),
            (relabeler.threshold_, "threshold"),
            (relabeler.relabel_proba(rows, y), "rho"),
        ]
        for ours, name in pairs:
            assert_allclose(ours, given[name], rtol=0, atol=1e-12, err_msg=name)
        y_new = relabeler.relabel(rows, y, uniforms=given["uniform"])
        assert_array_equal(y_new, given["y_new"])
        assert np.any(y_new != y)


class TestWorkedExample:
    """Six rows, three classes, one of them absent, tau = 0.2."""

    ROWS = np.array(
        [
            [0.90, 0.08, 0.02],
            [0.80, 0.15, 0.05],
            [0.70, 0.20, 0.10],
            [0.60, 0.10, 0.30],
            [0.30, 0.60, 0.10],
            [0.10, 0.80, 0.10],
        ]
    )
    LABELS = np.array([0, 0, 0, 0, 1, 1])

    @pytest.mark.parametrize(
        ("setting", "scale", "z2", "z3", "threshold", "rho"),
        [
            (
                RELEASED,
                [0.1118, 0.0466, 0.1092],
                [-0.4472, 1.4494, -0.1603],
                [-1.3416, -0.6979, 1.6717],
                [1, 1, 0],
                {(2, 1): 0.2107, (3, 2): 0.9318},
            ),
            (
                {},
                [0.1291, 0.0538, 0.1261],
                [-0.3873, 1.2552, -0.1388],
                [-1.1619, -0.6044, 1.4477],
                [0.7071, 0.7071, 0],
                {(2, 1): 0.2496, (3, 2): 0.8952},
            ),
        ],
        ids=["released code", "paper"],
    )
    def test_every_number(self, setting, scale, z2, z3, threshold, rho):
        relabeler = FedReLaRelabeler(0.2, **setting).fit(self.ROWS, self.LABELS)
        assert_array_equal(relabeler.classes_, [0, 1, 2])
        assert_array_equal(relabeler.class_count_, [4, 2, 0])
        assert_array_equal(relabeler.prior_weight_, [0, 0.5, 1])
        assert_allclose(relabeler.mean_[:2], [[0.75, 0.1325, 0.1175], [0.2, 0.7, 0.1]], rtol=1e-14)
        assert_allclose(relabeler.scale_[0], scale, atol=5e-5)
        assert_allclose((self.ROWS[2] - relabeler.mean_[0]) / relabeler.scale_[0], z2, atol=5e-5)
        assert_allclose((self.ROWS[3] - relabeler.mean_[0]) / relabeler.scale_[0], z3, atol=5e-5)
        assert_allclose(relabeler.threshold_, threshold, atol=5e-5)
        expected = np.zeros((6, 3))
        for entry, value in rho.items():
            expected[entry] = value
        assert_allclose(relabeler.relabel_proba(self.ROWS, self.LABELS), expected, atol=5e-5)

    def test_the_report_says_which_rows_changed_and_why(self):
        relabeler = FedReLaRelabeler(0.2).fit(self.ROWS, self.LABELS)
        y_new = relabeler.relabel(self.ROWS, self.LABELS, uniforms=np.full((6, 3), 0.24))
        assert_array_equal(y_new, [0, 0, 1, 2, 1, 1])
        report = relabeler.report()
        assert_array_equal(report.row, [2, 3])
        assert_array_equal(report.old, [0, 0])
        assert_array_equal(report.new, [1, 2])
        assert_array_equal(report.posterior, [0.2, 0.3])
        assert_allclose(report.z, [1.2552, 1.4477], atol=5e-5)
        assert_allclose(report.threshold, [0.7071, 0], atol=5e-5)
        assert_allclose(report.rho, [0.2496, 0.8952], atol=5e-5)


class TestFit:
    def test_what_it_learns(self):
        relabeler = FedReLaRelabeler()
        assert relabeler.fit(Q, Y) is relabeler
        assert relabeler.n_features_in_ == 4
        assert_array_equal(relabeler.class_count_, np.bincount(Y))
        for name in ("mean_", "scale_"):
            assert getattr(relabeler, name).shape == (4, 4)
        for name in ("classes_", "class_count_", "prior_weight_", "threshold_"):
            assert getattr(relabeler, name).shape == (4,)

    def test_the_inputs_are_left_alone(self):
        rows, y = Q.copy(), Y.copy()
        relabeler = FedReLaRelabeler(0.3, random_state=0).fit(rows, y)
        relabeler.relabel(rows, y)
        relabeler.transform(rows)
        relabeler.relabel_proba(rows, y)
        assert_array_equal(rows, Q)
        assert_array_equal(y, Y)

    def test_the_defaults_are_the_papers(self):
        spelt = FedReLaRelabeler(
            0.05, normalization="zscore_tanh", ddof=1, min_scale=0, threshold="quantile", target="argmax"
        )
        assert_array_equal(
            spelt.fit(Q, Y).relabel_proba(Q, Y), FedReLaRelabeler().fit(Q, Y).relabel_proba(Q, Y)
        )

    def test_integer_weights_equal_repeated_rows(self):
        times = np.random.default_rng(0).integers(0, 4, len(Y))
        for threshold in ("quantile", "order_statistic"):
            for ddof in (0, 1):
                one = FedReLaRelabeler(0.1, threshold=threshold, ddof=ddof).fit(Q, Y, sample_weight=times)
                two = clone(one).fit(np.repeat(Q, times, axis=0), np.repeat(Y, times))
                for name in ("class_count_", "prior_weight_", "mean_", "scale_", "threshold_"):
                    assert_allclose(getattr(one, name), getattr(two, name), rtol=1e-12, atol=1e-14)
                assert_allclose(one.relabel_proba(Q, Y), two.relabel_proba(Q, Y), rtol=0, atol=1e-12)
                draws = np.random.default_rng(1).random(Q.shape)
                assert_array_equal(one.relabel(Q, Y, uniforms=draws), two.relabel(Q, Y, uniforms=draws))

    def test_rows_of_weight_zero_are_left_out_even_of_the_classes(self):
        rows = np.vstack([Q, [[0.1, 0.2, 0.3, 0.4]]])
        weights = np.append(np.ones(len(Y)), 0)
        left_out = FedReLaRelabeler().fit(rows, np.append(Y, 99), sample_weight=weights)
        assert_array_equal(left_out.classes_, [0, 1, 2, 3])
        assert_array_equal(left_out.relabel_proba(Q, Y), FedReLaRelabeler().fit(Q, Y).relabel_proba(Q, Y))

    def test_balanced_weights_make_all_counts_equal(self):
        weights = sklearn.utils.class_weight.compute_sample_weight("balanced", Y)
        relabeler = FedReLaRelabeler(0.5).fit(Q, Y, sample_weight=weights)
        assert_array_equal(relabeler.prior_weight_, np.ones(4))
        assert not relabeler.relabel_proba(Q, Y).any()

    def test_fit_forgets_the_last_report(self):
        relabeler = FedReLaRelabeler(0.3).fit(Q, Y)
        relabeler.relabel(Q, Y)
        assert len(relabeler.report()) > 0
        relabeler.fit(Q, Y)
        with pytest.raises(
            NotFittedError, match=r"got no call of `relabel` since `fit`. Call relabel\(Q, y\)"
        ):
            relabeler.report()


class TestClasses:
    def test_sorted_labels_where_there_are_as_many_as_columns(self):
        names = np.array(["d", "b", "c", "a"])[Y]
        assert_array_equal(FedReLaRelabeler().fit(Q, names).classes_, ["a", "b", "c", "d"])

    def test_integers_from_zero_where_the_client_lacks_classes(self):
        some = Y != 2
        assert_array_equal(FedReLaRelabeler().fit(Q[some], Y[some]).classes_, [0, 1, 2, 3])

    def test_other_labels_ask_for_classes(self):
        some = Y != 2
        with pytest.raises(
            LabelError, match=r"Got 3 classes in y, \[1, 2, 4\], for 4 columns.*Pass `classes`"
        ):
            FedReLaRelabeler().fit(Q[some], Y[some] + 1)

    def test_given_classes_name_the_columns_in_their_order(self):
        names = np.array(["d", "b", "c", "a"])
        relabeler = FedReLaRelabeler(0.3, classes=["d", "b", "c", "a"]).fit(Q, names[Y])
        assert_array_equal(relabeler.classes_, names)
        numbers = FedReLaRelabeler(0.3).fit(Q, Y)
        assert_array_equal(relabeler.relabel_proba(Q, names[Y]), numbers.relabel_proba(Q, Y))
        draws = np.random.default_rng(0).random(Q.shape)
        y_new = relabeler.relabel(Q, names[Y], uniforms=draws)
        assert_array_equal(y_new, names[numbers.relabel(Q, Y, uniforms=draws)])
        assert_array_equal(relabeler.report().new, y_new[relabeler.report().row])

    def test_a_label_unknown_to_fit_is_never_changed(self):
        some = Y != 2
        relabeler = FedReLaRelabeler(1.0, classes=range(4)).fit(Q[some], Y[some])
        y_new = relabeler.relabel(Q, Y, uniforms=np.zeros(Q.shape))
        assert_array_equal(y_new[~some], 2)
        assert np.any(y_new[some] == 2)

    @pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.float32, object, "U1", bool])
    def test_new_labels_keep_the_dtype(self, dtype):
        rows = Q[:, :2] / Q[:, :2].sum(axis=1, keepdims=True)
        y = np.minimum(Y, 1).astype(dtype)
        relabeler = FedReLaRelabeler(0.3).fit(rows, y)
        y_new = relabeler.relabel(rows, y, uniforms=np.zeros(rows.shape))
        assert y_new.dtype == y.dtype
        assert np.any(y_new != y)
        assert set(y_new) == set(y)

    def test_a_dtype_that_cannot_hold_every_class_is_widened(self):
        y = np.array(["no"] * 6)
        relabeler = FedReLaRelabeler(0.5, classes=["no", "fraud", "x"]).fit(TestWorkedExample.ROWS, y)
        y_new = relabeler.relabel(TestWorkedExample.ROWS, y, uniforms=np.zeros((6, 3)))
        assert set(y_new) <= {"no", "fraud", "x"}
        assert "fraud" in y_new

    def test_a_pandas_column_is_taken(self):
        pd = pytest.importorskip("pandas")
        y = pd.Series(np.array(["a", "b", "c", "d"])[Y], index=np.arange(len(Y)) + 7)
        relabeler = FedReLaRelabeler(0.3, random_state=0).fit(pd.DataFrame(Q, columns=list("abcd")), y)
        assert_array_equal(relabeler.feature_names_in_, list("abcd"))
        y_new = relabeler.relabel(pd.DataFrame(Q, columns=list("abcd")), y)
        assert_array_equal(
            y_new, np.array(list("abcd"))[FedReLaRelabeler(0.3, random_state=0).fit(Q, Y).relabel(Q, Y)]
        )


class TestTau:
    @pytest.mark.parametrize("normalization", ["zscore_tanh", "minmax", "none"])
    @pytest.mark.parametrize("threshold", ["quantile", "order_statistic"])
    @pytest.mark.parametrize("n_classes", [2, 4])
    def test_zero_relabels_nothing_seen_or_new(self, normalization, threshold, n_classes):
        rows, y = long_tailed_rows(1, 100, n_classes)
        new, _ = long_tailed_rows(2, 100, n_classes)
        relabeler = FedReLaRelabeler(0, normalization=normalization, threshold=threshold).fit(rows, y)
        assert_array_equal(relabeler.threshold_, np.full(n_classes, np.inf))
        assert_array_equal(relabeler.relabel(rows, y, uniforms=np.zeros(rows.shape)), y)
        for q in (rows, new):
            assert not relabeler.relabel_proba(q, y).any()
            assert_array_equal(relabeler.transform(q), q)

    def test_no_row_above_the_order_statistic_does_the_same(self):
        rows, y = long_tailed_rows(1, 19, 3)
        new = np.eye(3)
        relabeler = FedReLaRelabeler(0.05, threshold="order_statistic").fit(rows, y)
        assert_array_equal(relabeler.threshold_, np.full(3, np.inf))
        assert_array_equal(relabeler.transform(new), new)
        assert not relabeler.relabel_proba(new, [0, 0, 0]).any()

    def test_one_takes_the_smallest_z(self):
        for threshold in ("quantile", "order_statistic"):
            relabeler = FedReLaRelabeler(1.0, threshold=threshold).fit(Q, Y)
            z = (Q - relabeler.mean_[Y]) / np.where(relabeler.scale_ == 0, 1, relabeler.scale_)[Y]
            assert_allclose(relabeler.threshold_, z.min(axis=0), rtol=1e-12)

    @pytest.mark.parametrize("target", ["argmax", "argmax_of_successes"])
    @pytest.mark.parametrize("threshold", ["quantile", "order_statistic"])
    def test_rows_changed_are_nested_in_tau(self, threshold, target):
        draws = np.random.default_rng(0).random(Q.shape)
        changed = np.zeros(len(Y), dtype=bool)
        for tau in (0, 0.002, 0.005, 0.01, 0.03, 0.05, 0.2, 0.7, 1):
            relabeler = FedReLaRelabeler(tau, threshold=threshold, target=target).fit(Q, Y)
            now = relabeler.relabel(Q, Y, uniforms=draws) != Y
            assert np.all(now[changed])
            changed = now
        assert changed.sum() > 100


class TestInput:
    def test_one_column_is_the_probability_of_the_second_class(self):
        p = long_tailed_rows(4, 200, 2)[0][:, 1]
        y = np.r_[1, np.zeros(150), np.ones(49)]
        pair = np.column_stack([1 - p, p])
        one, two = FedReLaRelabeler(0.2).fit(p[:, np.newaxis], y), FedReLaRelabeler(0.2).fit(pair, y)
        assert (one.n_features_in_, two.n_features_in_) == (1, 2)
        assert_array_equal(one.classes_, [0, 1])
        assert_array_equal(one.transform(p[:, np.newaxis]), two.transform(pair))
        assert_array_equal(one.relabel_proba(p[:, np.newaxis], y), two.relabel_proba(pair, y))
        assert one.relabel_proba(p[:, np.newaxis], y).any()

    def test_one_column_of_scores_stands_for_both_signs(self):
        s = np.random.default_rng(0).normal(size=(100, 1))
        y = (np.arange(100) < 30).astype(int)
        one, two = FedReLaRelabeler(0.2, input="score"), FedReLaRelabeler(0.2, input="score")
        pair = np.hstack([-s, s])
        assert_array_equal(one.fit_transform(s, y), two.fit_transform(pair, y))
        assert one.transform(s).shape == (100, 2)

    def test_scores_are_compared_as_they_are_and_mixed_by_softmax(self):
        scores = np.log(Q) * 3 + 1
        relabeler = FedReLaRelabeler(0.2, input="score").fit(scores, Y)
        assert_allclose(relabeler.mean_[0], scores[Y == 0].mean(axis=0), rtol=1e-12)
        same = FedReLaRelabeler(0, input="score").fit(scores, Y)
        assert_array_equal(same.transform(scores), softmax(scores, axis=1))
        mixed = relabeler.transform(scores)
        assert_allclose(mixed.sum(axis=1), 1, atol=1e-14)
        assert np.abs(mixed - softmax(scores, axis=1)).max() > 0.01
        relabeler.relabel(scores, Y, uniforms=np.zeros(Q.shape))
        report = relabeler.report()
        assert_array_equal(report.posterior, softmax(scores, axis=1)[report.row, report.new])

    def test_without_normalization_scores_count_by_their_softmax(self):
        scores = np.log(Q) * 3 + 1
        by_score = FedReLaRelabeler(normalization="none", input="score").fit(scores, Y)
        by_posterior = FedReLaRelabeler(normalization="none").fit(softmax(scores, axis=1), Y)
        assert_array_equal(
            by_score.relabel_proba(scores, Y), by_posterior.relabel_proba(softmax(scores, axis=1), Y)
        )
        assert_array_equal(by_score.transform(scores), by_posterior.transform(softmax(scores, axis=1)))
        by_score.relabel(scores, Y, uniforms=np.zeros(Q.shape))
        report = by_score.report()
        assert_array_equal(report.posterior, report.z)
        assert_array_equal(report.threshold, np.zeros(len(report)))

    def test_without_normalization_rho_is_posterior_times_gain(self):
        relabeler = FedReLaRelabeler(normalization="none").fit(Q, Y)
        v = relabeler.prior_weight_
        assert_allclose(relabeler.relabel_proba(Q, Y), Q * np.maximum(v - v[Y][:, np.newaxis], 0), rtol=1e-15)

    def test_minmax_by_hand(self):
        rows = np.array([[0.9, 0.1], [0.8, 0.2], [0.5, 0.5], [0.4, 0.6], [0.3, 0.7]])
        y = np.array([0, 0, 0, 0, 1])
        relabeler = FedReLaRelabeler(0.5, normalization="minmax").fit(rows, y)
        # m of column 1: 0, 0.2, 0.8, 1 and 0 for the row that is alone; the median is 0.2
        assert_allclose(relabeler.threshold_[1], 0.2, rtol=1e-14)
        assert_allclose(relabeler.relabel_proba(rows, y)[:, 1], [0, 0, 0.8, 1, 0], rtol=1e-14)
        # a new row outside the range is cut to it
        assert_array_equal(relabeler.relabel_proba([[0.0, 1.0], [1.0, 0.0]], [0, 0])[:, 1], [1, 0])

    @pytest.mark.parametrize("dtype", [np.float16, np.float32])
    @pytest.mark.parametrize("n_classes", [2, 4])
    def test_low_precision_gives_float64(self, dtype, n_classes):
        rows, y = long_tailed_rows(0, 100, n_classes)
        rows = rows.astype(dtype)
        relabeler = FedReLaRelabeler(0.2).fit(rows, y)
        mixed = relabeler.transform(rows)
        assert mixed.dtype == np.float64
        assert_array_equal(mixed, relabeler.transform(rows[:, :]))
        assert_array_equal(relabeler.relabel_proba(rows, y).dtype, np.float64)


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


class TestRelabel:
    def test_given_uniforms_decide(self):
        relabeler = FedReLaRelabeler(0.3).fit(Q, Y)
        rho = relabeler.relabel_proba(Q, Y)
        all_succeed = relabeler.relabel(Q, Y, uniforms=np.zeros(Q.shape))
        assert_array_equal(all_succeed, np.where(rho.any(axis=1), rho.argmax(axis=1), Y))
        assert_array_equal(relabeler.relabel(Q, Y, uniforms=rho), Y)

    def test_random_state_names_the_uniforms(self):
        relabeler = FedReLaRelabeler(0.3, random_state=7).fit(Q, Y)
        y_new = relabeler.relabel(Q, Y)
        assert_array_equal(y_new, relabeler.relabel(Q, Y))
        assert_array_equal(y_new, relabeler.relabel(Q, Y, uniforms=uniforms(7, Purpose.RELABEL, Q.shape)))
        assert np.any(y_new != clone(relabeler).set_params(random_state=8).fit(Q, Y).relabel(Q, Y))

    def test_without_random_state_calls_differ(self):
        relabeler = FedReLaRelabeler(0.3).fit(Q, Y)
        assert np.any(relabeler.relabel(Q, Y) != relabeler.relabel(Q, Y))

    def test_it_starts_from_the_labels_it_is_given(self):
        relabeler = FedReLaRelabeler(0.3, random_state=0).fit(Q, Y)
        once = relabeler.relabel(Q, Y)
        assert_array_equal(relabeler.relabel(Q, Y), once)
        assert np.all(once[~np.isin(np.arange(len(Y)), relabeler.report().row)] == Y[once == Y])

    def test_a_floor_and_a_ceiling(self):
        draws = np.zeros(Q.shape)
        counts = np.bincount(Y, minlength=4)
        free = FedReLaRelabeler(0.5).fit(Q, Y).relabel(Q, Y, uniforms=draws)
        floor = counts[0] - 20
        kept = FedReLaRelabeler(0.5, min_remaining=floor).fit(Q, Y)
        y_new = kept.relabel(Q, Y, uniforms=draws)
        assert np.sum((Y == 0) & (free != 0)) > 20
        assert np.sum((Y == 0) & (y_new != 0)) == 20
        rho = kept.relabel_proba(Q, Y).max(axis=1)
        left = (Y == 0) & (y_new != 0)
        assert rho[left].min() >= rho[(Y == 0) & (free != 0) & ~left].max()
        y_new = FedReLaRelabeler(0.5, max_ratio=0.5).fit(Q, Y).relabel(Q, Y, uniforms=draws)
        entered = np.bincount(y_new[y_new != Y], minlength=4)
        assert np.all(entered <= np.ceil(0.5 * counts))
        assert entered[3] == np.ceil(0.5 * counts[3]) < np.sum((free == 3) & (Y != 3))

    def test_limits_count_rows_not_weights(self):
        weights = np.where(Y == 0, 5.0, 0.25)
        relabeler = FedReLaRelabeler(0.5, min_remaining=np.sum(Y == 0) - 3).fit(Q, Y, sample_weight=weights)
        y_new = relabeler.relabel(Q, Y, uniforms=np.zeros(Q.shape))
        assert np.sum((Y == 0) & (y_new != 0)) == 3

    def test_the_report_equals_rho_and_the_posteriors(self):
        relabeler = FedReLaRelabeler(0.3, random_state=0, classes=list("abcd")).fit(
            Q, np.array(list("abcd"))[Y]
        )
        y_new = relabeler.relabel(Q, np.array(list("abcd"))[Y])
        report = relabeler.report()
        new = np.searchsorted(list("abcd"), report.new)
        assert_array_equal(report.row, np.flatnonzero(y_new != np.array(list("abcd"))[Y]))
        assert_array_equal(report.old, np.array(list("abcd"))[Y][report.row])
        assert_array_equal(report.new, y_new[report.row])
        assert_array_equal(report.posterior, Q[report.row, new])
        assert_array_equal(report.rho, relabeler.relabel_proba(Q, np.array(list("abcd"))[Y])[report.row, new])
        assert_array_equal(report.threshold, relabeler.threshold_[new])
        v = relabeler.prior_weight_
        gain = v[new] - v[Y[report.row]]
        assert_allclose(report.rho, np.tanh(report.z - report.threshold) * gain, rtol=1e-14)


class TestErrors:
    @pytest.mark.parametrize("method", ["transform", "get_feature_names_out", "report"])
    def test_not_fitted(self, method):
        with pytest.raises(NotFittedError):
            getattr(FedReLaRelabeler(), method)(*([Q] if method == "transform" else []))

    @pytest.mark.parametrize("method", ["relabel", "relabel_proba"])
    def test_not_fitted_with_labels(self, method):
        with pytest.raises(NotFittedError):
            getattr(FedReLaRelabeler(), method)(Q, Y)

    @pytest.mark.parametrize("method", ["fit", "relabel", "relabel_proba", "fit_transform"])
    def test_rows_are_checked_everywhere(self, method):
        relabeler = FedReLaRelabeler().fit(Q, Y)
        for column, said in [(np.nan, "holds NaN"), (0.93, "sums to"), (-0.5, "holds -0.5")]:
            rows = Q.copy()
            rows[17, 2] = column
            with pytest.raises(PosteriorError, match=f"Row 17 of posteriors {said}"):
                getattr(relabeler, method)(rows, Y)

    def test_transform_checks_rows(self):
        with pytest.raises(PosteriorError, match="Row 0 of posteriors sums to 2"):
            FedReLaRelabeler().fit(Q, Y).transform(np.full((1, 4), 0.5))

    def test_scores_are_checked(self):
        with pytest.raises(PosteriorError, match="Row 0 of scores holds inf in column 1"):
            FedReLaRelabeler(input="score").fit([[0.0, np.inf]], [0])

    @pytest.mark.parametrize("method", ["fit", "relabel", "relabel_proba"])
    def test_labels_are_checked_everywhere(self, method):
        relabeler = FedReLaRelabeler(classes=range(4)).fit(Q, Y)
        with pytest.raises(LabelError, match="Got 299 labels for 300 rows"):
            getattr(relabeler, method)(Q, Y[1:])
        with pytest.raises(LabelError, match="requires y to be passed, but the target y is None"):
            getattr(relabeler, method)(Q, None)
        unknown = Y.copy()
        unknown[3] = 8
        with pytest.raises(LabelError, match=r"Label 8 of row 3 is not among the 4 classes \[0, 1, 2, 3\]"):
            getattr(relabeler, method)(Q, unknown)

    def test_classes_are_checked(self):
        with pytest.raises(LabelError, match=r"`classes` holds 1 more than once"):
            FedReLaRelabeler(classes=[0, 1, 1, 2]).fit(Q, Y)
        with pytest.raises(LabelError, match=r"`classes` names 3 classes, \[0, 1, 2\], for 4 columns"):
            FedReLaRelabeler(classes=[0, 1, 2]).fit(Q, Y)

    @pytest.mark.parametrize(
        ("parameter", "value", "said"),
        [
            ("tau", 5, r"tau.*in the range \[0.0, 1.0\]. Got 5"),
            ("tau", -0.1, r"Got -0.1"),
            ("tau", np.nan, r"Got nan"),
            ("input", "logits", r"'posterior'.*Got 'logits'"),
            ("normalization", "zscore", r"'minmax'.*Got 'zscore'"),
            ("ddof", -1, r"ddof.*Got -1"),
            ("ddof", 0.5, r"ddof.*Got 0.5"),
            ("min_scale", -1e-6, r"min_scale.*Got -1e-06"),
            ("threshold", "median", r"'order_statistic'.*Got 'median'|'quantile'.*Got 'median'"),
            ("target", "max", r"'argmax'.*Got 'max'"),
            ("min_remaining", -1, r"min_remaining.*Got -1"),
            ("max_ratio", -0.5, r"max_ratio.*Got -0.5"),
            ("classes", 3, r"classes.*Got 3"),
            ("random_state", "seed", r"random_state.*Got 'seed'"),
        ],
    )
    def test_parameters_are_checked_in_fit(self, parameter, value, said):
        with pytest.raises(ValueError, match=said):
            FedReLaRelabeler(**{parameter: value}).fit(Q, Y)

    def test_uniforms_are_checked(self):
        relabeler = FedReLaRelabeler().fit(Q, Y)
        with pytest.raises(ValueError, match=r"uniforms have shape \(300,\), expected \(300, 4\)"):
            relabeler.relabel(Q, Y, uniforms=np.zeros(300))
        with pytest.raises(ValueError, match=r"Row 0 of uniforms holds 1.0 for class 0"):
            relabeler.relabel(Q, Y, uniforms=np.ones(Q.shape))

    @pytest.mark.parametrize(
        ("weights", "said"),
        [
            (np.zeros(300), "at least one non-zero"),
            (np.full(300, -1.0), "Negative"),
            (np.full(300, np.nan), "NaN"),
            (np.ones(299), r"sample_weight.shape == \(299,\), expected \(300,\)"),
        ],
    )
    def test_weights_are_checked(self, weights, said):
        with pytest.raises(ValueError, match=said):
            FedReLaRelabeler().fit(Q, Y, sample_weight=weights)

    def test_another_number_of_columns(self):
        with pytest.raises(
            ValueError, match="X has 3 features, but FedReLaRelabeler is expecting 4 features"
        ):
            FedReLaRelabeler().fit(Q, Y).transform([[0.2, 0.3, 0.5]])

    def test_it_is_no_sampler_and_says_which_is(self):
        assert not hasattr(FedReLaRelabeler(), "fit_resample")
        with pytest.raises(
            AttributeError, match=r"no attribute 'fit_resample': it relabels from.*FedReLaSampler\("
        ):
            _ = FedReLaRelabeler().fit_resample
        with pytest.raises(AttributeError, match=r"'FedReLaRelabeler' object has no attribute 'labels_'\.$"):
            _ = FedReLaRelabeler().labels_

    def test_features_in_a_samplers_pipeline_point_to_the_sampler(self):
        pipeline = pytest.importorskip("imblearn.pipeline")
        chain = pipeline.make_pipeline(FedReLaRelabeler(), sklearn.dummy.DummyClassifier())
        with pytest.raises(PosteriorError, match="FedReLaSampler and RelabelingClassifier take features"):
            chain.fit(np.random.default_rng(0).normal(size=(20, 3)), np.arange(20) % 3)


class TestEstimator:
    def test_the_examples_run(self):
        failed, tried = doctest.testmod(_relabeler)
        assert (failed, tried) == (0, 8)

    def test_it_is_public(self):
        assert fedrela_sk.FedReLaRelabeler is FedReLaRelabeler

    def test_the_constructor_only_stores(self):
        classes = ["b", "a"]
        relabeler = FedReLaRelabeler(7, classes=classes, input="nonsense")
        assert relabeler.classes is classes
        assert relabeler.get_params()["tau"] == 7

    def test_all_but_tau_are_keywords(self):
        with pytest.raises(TypeError):
            FedReLaRelabeler(0.1, [0, 1])

    def test_it_can_be_pickled_with_its_report(self):
        relabeler = FedReLaRelabeler(0.3, random_state=0).fit(Q, Y)
        relabeler.relabel(Q, Y)
        copy = pickle.loads(pickle.dumps(relabeler))
        assert_array_equal(copy.transform(Q), relabeler.transform(Q))
        assert_array_equal(copy.report().row, relabeler.report().row)

    def test_weights_can_be_routed_and_posteriors_are_no_metadata(self):
        with sklearn.config_context(enable_metadata_routing=True):
            relabeler = FedReLaRelabeler().set_fit_request(sample_weight=True)
            assert relabeler.get_metadata_routing().fit.requests == {"sample_weight": True}
            assert relabeler.get_metadata_routing().transform.requests == {}


def test_a_report_is_short_where_it_is_printed():
    Q, y = np.array([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.2, 0.8]]), np.array([0, 0, 0, 1])
    relabeler = FedReLaRelabeler(0.3).fit(Q, y)
    relabeler.relabel(Q, y, uniforms=np.zeros((4, 2)))
    assert repr(relabeler.report()) == "RelabelReport(1 rows changed; to_frame() shows them)"
