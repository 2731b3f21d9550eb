"""FedReLaRelabeler: classes, posteriors and scores as they may come, and what is refused."""

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import softmax
from sklearn.exceptions import NotFittedError

from fedrela_sk.exceptions import LabelError, PosteriorError
from fedrela_sk.relabel import FedReLaRelabeler
from tests.relabel.made_rows import WORKED_EXAMPLE, long_tailed_rows

Q, Y = long_tailed_rows(0, 300, 4)


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
        relabeler = FedReLaRelabeler(0.5, classes=["no", "fraud", "x"]).fit(WORKED_EXAMPLE, y)
        y_new = relabeler.relabel(WORKED_EXAMPLE, y, uniforms=np.zeros((6, 3)))
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
