import warnings

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    PredefinedSplit,
    RepeatedKFold,
    ShuffleSplit,
    StratifiedKFold,
    TimeSeriesSplit,
    cross_val_predict,
)
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier

from fedrela_sk.exceptions import LabelError, PartitionError
from fedrela_sk.relabel._out_of_fold import class_columns, make_folds, out_of_fold, response_name

X, y = make_classification(120, n_classes=3, n_informative=4, weights=[0.7, 0.2], random_state=0)


def responses(estimator, X, y, cv=5, method="predict_proba", fit_params=None, n_jobs=None):
    folds = make_folds(cv, X, y, {}, seed=0)
    return out_of_fold(
        estimator, X, y, np.unique(y), folds, method=method, fit_params=fit_params or {}, n_jobs=n_jobs
    )


class TestFolds:
    def test_int_means_stratified_in_row_order(self):
        expected = list(StratifiedKFold(4).split(X, y))
        found = make_folds(4, X, y, {}, seed=3)
        assert all(
            np.array_equal(a, b)
            for one, two in zip(expected, found, strict=True)
            for a, b in zip(one, two, strict=True)
        )

    def test_none_means_five(self):
        assert len(make_folds(None, X, y, {}, seed=0)) == 5

    def test_never_more_folds_than_rows_of_the_largest_class(self):
        labels = np.array([0, 0, 0, 1, 1])
        assert len(make_folds(5, np.zeros((5, 1)), labels, {}, seed=0)) == 3

    def test_two_rows_are_dealt_to_two_folds(self):
        folds = make_folds(5, np.zeros((4, 1)), np.array([0, 0, 1, 1]), {}, seed=0)
        assert [test.tolist() for _, test in folds] == [[0, 2], [1, 3]]

    def test_classes_of_one_row_each(self):
        folds = make_folds(5, np.zeros((3, 1)), np.array([0, 1, 2]), {}, seed=0)
        assert sorted(row for _, test in folds for row in test) == [0, 1, 2]

    @pytest.mark.parametrize("cv", [5, StratifiedKFold(5)], ids=str)
    def test_harmless_warning_is_silenced(self, cv):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            make_folds(cv, np.zeros((11, 1)), np.array([0] * 10 + [1]), {}, seed=0)

    @pytest.mark.parametrize("cv", [KFold(4, shuffle=True), StratifiedKFold(3, shuffle=True)], ids=str)
    def test_missing_random_state_is_filled_on_a_copy(self, cv):
        first, again, other = (make_folds(cv, X, y, {}, seed=seed) for seed in (1, 1, 2))
        assert all(np.array_equal(a[1], b[1]) for a, b in zip(first, again, strict=True))
        assert not all(np.array_equal(a[1], b[1]) for a, b in zip(first, other, strict=True))
        assert cv.random_state is None

    def test_own_random_state_is_kept(self):
        cv = KFold(4, shuffle=True, random_state=7)
        expected = [test for _, test in cv.split(X)]
        found = [test for _, test in make_folds(cv, X, y, {}, seed=1)]
        assert np.array_equal(np.concatenate(expected), np.concatenate(found))

    def test_splitter_groups(self):
        groups = np.arange(120) % 7
        folds = make_folds(GroupKFold(3), X, y, {"groups": groups}, seed=0)
        assert all(not set(groups[train]) & set(groups[test]) for train, test in folds)

    def test_iterable_of_indices_or_masks(self):
        even = np.arange(120) % 2 == 0
        by_mask = make_folds([(even, ~even), (~even, even)], X, y, {}, seed=0)
        rows = np.arange(120)
        by_index = make_folds(iter([(rows[::2], rows[1::2]), (rows[1::2], rows[::2])]), X, y, {}, seed=0)
        assert all(np.array_equal(a[1], b[1]) for a, b in zip(by_mask, by_index, strict=True))

    @pytest.mark.parametrize(
        ("cv", "message"),
        [
            (ShuffleSplit(3, random_state=0), r"exactly once; row \d+ is in \d of them.*Use KFold"),
            (RepeatedKFold(n_splits=2, n_repeats=2), r"row 0 is in 2 of them, and 120 rows are wrong"),
            (TimeSeriesSplit(3), r"row 0 is in 0 of them, and 30 rows"),
            ([([0, 1], [2, 500])], r"cv holds row 500, but there are 120 rows.*inside a search"),
            ([([0, 1], [120])], r"cv holds row 120, but there are 120 rows"),
            ([([0, 1], [-1])], r"cv holds row -1, but there are 120 rows"),
            (PredefinedSplit([0] * 60 + [-1] * 60), r"row 60 is in 0 of them, and 60 rows"),
        ],
        ids=str,
    )
    def test_rows_without_exactly_one_posterior_are_refused(self, cv, message):
        with pytest.raises(PartitionError, match=message):
            make_folds(cv, X, y, {}, seed=0)


class TestOutOfFold:
    @pytest.mark.parametrize("cv", [5, KFold(3)], ids=str)
    def test_equals_cross_val_predict(self, cv):
        tree = DecisionTreeClassifier(max_depth=3, random_state=0)
        expected = cross_val_predict(tree, X, y, cv=cv, method="predict_proba")
        assert np.array_equal(responses(tree, X, y, cv), expected)

    def test_no_row_is_seen_by_its_own_classifier(self):
        class Memory(DecisionTreeClassifier):
            """Gives rows it was trained on posterior 1 for their class, others the uniform posterior."""

            def fit(self, X, y):
                self.classes_, self.seen_ = np.unique(y), {tuple(row) for row in X}
                return self

            def predict_proba(self, X):
                known = np.array([tuple(row) in self.seen_ for row in X])
                return np.where(known[:, None], [1.0, 0, 0], 1 / 3)

        assert np.allclose(responses(Memory(), X, y), 1 / 3)

    @pytest.mark.parametrize("backend", ["threading", "loky"])
    def test_result_does_not_depend_on_n_jobs(self, backend):
        forest = DecisionTreeClassifier(max_features=1, random_state=np.random.RandomState(3))
        expected = responses(clone(forest), X, y)
        with parallel_config(backend=backend):
            assert np.array_equal(responses(clone(forest), X, y, n_jobs=2), expected)

    def test_fold_without_a_class_gives_it_zero(self):
        labels = np.array(["common"] * 20 + ["some"] * 9 + ["rare"])
        rows = np.random.RandomState(0).normal(size=(30, 2))
        Q = responses(LogisticRegression(), rows, labels)
        assert Q.shape == (30, 3)
        assert Q[29, 1] == 0  # "rare" is column 1: the one row's own fold has never seen it
        assert np.allclose(Q.sum(axis=1), 1)
        assert (Q[:, 1] > 0).sum() == 30 - 6

    def test_fold_of_one_class_needs_no_classifier(self):
        labels = np.array([0] * 9 + [1])
        rows = np.arange(10.0).reshape(-1, 1)
        Q = responses(LogisticRegression(), rows, labels)
        fold = next(test for _, test in make_folds(5, rows, labels, {}, seed=0) if 9 in test)
        assert np.array_equal(Q[fold], np.tile([1.0, 0.0], (len(fold), 1)))

    def test_fold_of_one_class_keeps_single_precision(self):
        class Single(LogisticRegression):
            def predict_proba(self, X):
                return super().predict_proba(X).astype(np.float32)

        Q = responses(Single(), np.arange(10.0).reshape(-1, 1), np.array([0] * 9 + [1]))
        assert Q.dtype == np.float32

    def test_weights_and_other_arrays_are_cut_to_the_fold(self):
        seen = []

        class Recorder(LogisticRegression):
            def fit(self, X, y, sample_weight=None, name=None, offset=None):
                seen.append((X[:, 0], sample_weight, name, offset))
                return super().fit(X, y)

        params = {"sample_weight": X[:, 0], "name": "n", "offset": X[:, 0].tolist()}
        responses(Recorder(), X, y, 3, fit_params=params)
        assert len(seen) == 3
        for column, weight, name, offset in seen:
            assert np.array_equal(column, weight)
            assert np.array_equal(column, offset)
            assert name == "n"

    def test_precomputed_kernels_are_cut_on_both_sides(self):
        expected = responses(SVC(kernel="linear"), X, y, method="decision_function")
        found = responses(SVC(kernel="precomputed"), X @ X.T, y, method="decision_function")
        assert np.allclose(found, expected, atol=1e-6)

    def test_scores_of_two_classes_get_two_columns(self):
        labels = (y > 0).astype(int)
        S = responses(LinearSVC(), X, labels, method="decision_function")
        expected = cross_val_predict(LinearSVC(), X, labels, method="decision_function")
        assert np.array_equal(S, np.column_stack([-expected / 2, expected / 2]))


class TestColumns:
    def test_absent_class_has_probability_zero(self):
        Q = class_columns(np.array([[0.4, 0.6]]), ["a", "c"], np.array(["a", "b", "c"]), "predict_proba")
        assert Q.tolist() == [[0.4, 0.0, 0.6]]

    def test_absent_class_has_the_lowest_score_of_the_row(self):
        scores = np.array([[3.0, -1.0], [-4.0, 2.0]])
        S = class_columns(scores, [0, 2], np.arange(3), "decision_function")
        assert S.tolist() == [[3.0, -1.0, -1.0], [-4.0, -4.0, 2.0]]

    def test_one_score_of_two_seen_classes_among_three(self):
        S = class_columns(np.array([2.0, -1.0]), [1, 2], np.arange(3), "decision_function")
        assert S.tolist() == [[-1.0, -1.0, 1.0], [-0.5, 0.5, -0.5]]

    def test_columns_are_put_in_order(self):
        Q = class_columns(np.array([[0.9, 0.1]]), ["b", "a"], np.array(["a", "b"]), "predict_proba")
        assert Q.tolist() == [[0.1, 0.9]]

    def test_dtype_is_kept(self):
        Q = class_columns(np.ones((1, 1), np.float32), [1], np.arange(2), "predict_proba")
        assert Q.dtype == np.float32

    def test_scores_of_pairs_are_refused(self):
        with pytest.raises(LabelError, match=r"got 6 columns for 4 classes.*decision_function_shape='ovr'"):
            class_columns(np.zeros((2, 6)), range(4), np.arange(4), "decision_function")

    @pytest.mark.parametrize("seen", [[0, 9], [-1, 0]])
    def test_unknown_class_is_refused(self, seen):
        with pytest.raises(LabelError, match=rf"knows classes \[{seen[0]}, {seen[1]}\].*not among \[0, 1\]"):
            class_columns(np.ones((1, 2)), seen, np.arange(2), "predict_proba")


def test_response_name():
    assert response_name(LogisticRegression(), "auto") == "predict_proba"
    assert response_name(LinearSVC(), "auto") == "decision_function"
    assert response_name(LogisticRegression(), "decision_function") == "decision_function"
    with pytest.raises(AttributeError, match="LinearSVC has none of the following attributes: predict_proba"):
        response_name(LinearSVC(), "predict_proba")
