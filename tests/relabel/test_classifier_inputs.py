"""RelabelingClassifier: rows of any kind, labels of any kind, classes that folds lack."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC, LinearSVC
from sklearn.utils import get_tags

from fedrela_sk import FedReLaRelabeler, RelabelingClassifier
from fedrela_sk.exceptions import LabelError
from tests.relabel.classifier_rows import X, binary, y


class TestUntouched:
    """X is the inner classifier's business."""

    FRAME = pd.DataFrame(
        {
            "number": pd.array([1, None, 3] * 20, dtype="Int64"),
            "flag": pd.array([True, False, None] * 20, dtype="boolean"),
            "kind": pd.Categorical(["a", "b", None] * 20),
            "text": pd.array(["x", "y", None] * 20, dtype="string"),
            "when": pd.date_range("2026-01-01", periods=60),
            "real": [0.5, np.nan, np.inf] * 20,
        }
    )
    Y = np.array([0, 0, 1] * 20)
    INPUTS = {
        "frame": FRAME,
        "csr": sparse.csr_matrix(np.eye(60)),
        "csr array": sparse.csr_array(np.eye(60)),
        "texts": [f"row {i}" for i in range(60)],
        "objects": np.array([{"i": i} for i in range(60)], dtype=object),
        "three dimensions": np.zeros((60, 2, 2)),
        "nan": np.full((60, 2), np.nan),
        "complex": np.ones((60, 1)) * 1j,
    }

    @pytest.mark.parametrize("name", INPUTS)
    def test_passes_through(self, name, recorder):
        rows = self.INPUTS[name]
        clf = RelabelingClassifier(recorder, cv=3).fit(rows, self.Y)
        folds, last = recorder.calls[:-1], recorder.calls[-1]
        assert last["X"] is rows
        for call in folds:
            part = call.get("X", call.get("asked"))
            assert type(part) is type(rows)
            if hasattr(rows, "dtype"):
                assert part.dtype == rows.dtype
            if hasattr(rows, "dtypes") and name == "frame":
                assert part.dtypes.equals(rows.dtypes)
        clf.predict_proba(rows)
        assert recorder.calls[-1]["asked"] is rows

    def test_categories_and_missing_values_reach_boosting(self):
        frame = self.FRAME[["number", "kind", "real"]].replace(np.inf, 1.0)
        boosting = HistGradientBoostingClassifier(
            max_iter=3, min_samples_leaf=2, categorical_features="from_dtype"
        )
        clf = RelabelingClassifier(boosting).fit(frame, self.Y)
        assert clf.feature_names_in_.tolist() == ["number", "kind", "real"]
        assert clf.n_features_in_ == 3
        assert clf.predict_proba(frame).shape == (60, 2)

    def test_texts(self):
        texts = np.array(["good loan", "bad debt", "late bad debt"])[self.Y + np.arange(60) % 2].tolist()
        clf = RelabelingClassifier(make_pipeline(TfidfVectorizer(), LogisticRegression())).fit(texts, self.Y)
        assert clf.predict_proba(texts).shape == (60, 2)
        assert not hasattr(clf, "n_features_in_")
        assert not hasattr(clf, "feature_names_in_")

    def test_sparse_and_dense_agree(self):
        dense = RelabelingClassifier(LogisticRegression(), random_state=0).fit(X, y)
        other = RelabelingClassifier(LogisticRegression(), random_state=0).fit(sparse.csc_array(X), y)
        assert np.array_equal(dense.y_relabeled_, other.y_relabeled_)

    def test_refused_by_the_classifier_in_its_own_words(self):
        with pytest.raises(ValueError, match=r"Input X contains NaN\.\nLogisticRegression"):
            RelabelingClassifier(LogisticRegression()).fit(self.INPUTS["nan"], self.Y)

    def test_lengths(self):
        with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[400, 3\]"):
            RelabelingClassifier(LogisticRegression()).fit(X, y[:3])

    def test_tags_are_the_classifiers(self):
        tags = get_tags(RelabelingClassifier(HistGradientBoostingClassifier()))
        assert tags.input_tags.allow_nan
        assert not tags.input_tags.sparse
        assert get_tags(RelabelingClassifier(FrozenEstimator(LogisticRegression()))).input_tags.sparse
        assert get_tags(RelabelingClassifier(SVC(kernel="precomputed"))).input_tags.pairwise
        assert not get_tags(RelabelingClassifier(RandomForestClassifier())).classifier_tags.multi_label
        assert get_tags(RelabelingClassifier(Bare())).classifier_tags is not None

    def test_precomputed_kernel(self):
        expected = RelabelingClassifier(SVC(kernel="linear"), random_state=0).fit(X, binary)
        clf = RelabelingClassifier(SVC(kernel="precomputed"), random_state=0).fit(X @ X.T, binary)
        assert (clf.y_relabeled_ != expected.y_relabeled_).mean() < 0.01


class Bare(BaseEstimator):
    """A classifier that does not say so in its tags."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        return np.full((len(X), len(self.classes_)), 1 / len(self.classes_))


class TestLabels:
    NAMES = {
        "strings": np.array(["ok", "late", "bad"]),
        "objects": np.array(["ok", "late", "bad"], dtype=object),
        "gaps": np.array([7, 50, 12]),
        "negative": np.array([-1, 4, -3]),
        "whole floats": np.array([1.0, 5.0, 2.0]),
        "int8": np.array([3, 1, 2], dtype=np.int8),
    }

    @pytest.mark.parametrize("name", NAMES)
    def test_names_change_nothing_but_names(self, name):
        names = self.NAMES[name]
        clf = RelabelingClassifier(LogisticRegression(), random_state=0).fit(X, names[y])
        assert clf.classes_.tolist() == sorted(names.tolist())
        assert clf.classes_.dtype == names.dtype
        assert clf.y_relabeled_.dtype == names.dtype
        assert set(clf.predict(X)) <= set(names)
        assert clf.predict(X).dtype == names.dtype
        columns = np.argsort(names)
        reference = RelabelingClassifier(LogisticRegression()).fit(X, y)
        # the same rows may be changed with the same probability: statistics are those of the renamed classes
        assert np.allclose(
            clf.relabeler_.mean_, reference.relabeler_.mean_[np.ix_(columns, columns)], rtol=1e-3
        )

    @pytest.mark.parametrize(
        "target",
        [
            pd.Series(binary, dtype="Int64"),
            pd.Series(binary == 1, dtype="boolean"),
            pd.Series(binary).map({0: "no", 1: "yes"}).astype("category"),
            pd.Series(binary).map({0: "no", 1: "yes"}).astype("string"),
            pd.Series(binary, index=np.arange(400)[::-1], name="loan"),
            (binary == 1).astype(object),
            binary == 1,
            binary.tolist(),
        ],
        ids=lambda t: f"{type(t).__name__} {getattr(t, 'dtype', '')}",
    )
    def test_new_labels_are_numpys_whatever_holds_the_old_ones(self, target):
        clf = RelabelingClassifier(LogisticRegression(), random_state=0).fit(X, target)
        expected = RelabelingClassifier(LogisticRegression(), random_state=0).fit(X, binary)
        assert type(clf.y_relabeled_) is np.ndarray
        if isinstance(target, np.ndarray):
            assert clf.y_relabeled_.dtype == target.dtype
        assert np.array_equal(clf.relabeled_mask_, expected.relabeled_mask_)
        one = clf.classes_[1]
        assert np.array_equal(clf.predict(X) == one, expected.predict(X) == 1)
        assert np.array_equal(np.asarray(clf.y_relabeled_) == one, expected.y_relabeled_ == 1)

    def test_class_weight_by_name(self):
        names = np.array(["ok", "bad"])[binary]
        estimator = LogisticRegression(class_weight={"ok": 1, "bad": 20})
        heavy = RelabelingClassifier(estimator, random_state=0).fit(X, names)
        plain = RelabelingClassifier(LogisticRegression(), random_state=0).fit(X, names)
        assert (heavy.predict(X) == "bad").sum() > (plain.predict(X) == "bad").sum()


class TestMissingClasses:
    def test_class_of_one_row(self):
        target = np.where(np.arange(400) == 17, 9, y)
        clf = RelabelingClassifier(LogisticRegression(), FedReLaRelabeler(tau=0), random_state=0).fit(
            X, target
        )
        assert clf.predict_proba(X).shape == (400, 4)
        clf = RelabelingClassifier(LogisticRegression(), random_state=0).fit(X, target)
        assert clf.predict_proba(X).shape == (400, 4)

    def test_class_of_one_row_against_one_other(self):
        target = (np.arange(400) == 17).astype(int)
        clf = RelabelingClassifier(LogisticRegression(), random_state=0).fit(X, target)
        assert clf.predict_proba(X).shape == (400, 2)

    @pytest.mark.parametrize("estimator", [LogisticRegression(), LinearSVC()], ids=str)
    def test_scores_with_a_class_of_one_row(self, estimator):
        target = np.where(np.arange(400) == 17, 9, y)
        clf = RelabelingClassifier(estimator, response_method="decision_function", random_state=0)
        assert clf.fit(X, target).decision_function(X).shape == (400, 4)

    def test_every_class_of_one_row(self):
        clf = RelabelingClassifier(LogisticRegression()).fit(X[:3], ["a", "b", "c"])
        assert not clf.relabeled_mask_.any()  # all counts are equal
        assert clf.predict_proba(X).shape == (400, 3)

    def test_smallest_data_that_two_classes_allow(self):
        clf = RelabelingClassifier(LogisticRegression()).fit(X[:2], [0, 1])
        assert clf.predict_proba(X).shape == (400, 2)

    @pytest.mark.parametrize("estimator", [LogisticRegression(), LinearSVC()], ids=str)
    def test_class_that_vanishes_keeps_its_column(self, estimator):
        class VanishingFirst(BaseEstimator):
            def fit(self, Q, y):
                return self

            def relabel(self, Q, y, uniforms=None):
                return np.where(y == 0, 1, y)

        clf = RelabelingClassifier(estimator, VanishingFirst()).fit(X, y)
        assert clf.classes_.tolist() == [0, 1, 2]
        assert set(clf.predict(X)) <= {1, 2}
        assert set(clf.estimator_.classes_) == {1, 2}
        scores = clf.decision_function(X)
        assert scores.shape == (400, 3)
        assert np.array_equal(scores[:, 0], scores.min(axis=1))
        if hasattr(clf, "predict_proba"):
            assert not clf.predict_proba(X)[:, 0].any()
            assert np.allclose(clf.predict_proba(X).sum(axis=1), 1)
            assert np.array_equal(clf.predict_log_proba(X)[:, 0], np.full(400, -np.inf))

    def test_one_class_is_refused(self):
        with pytest.raises(
            LabelError, match=r"y has 1 class \(.*3.*\).*at least 2 classes.*rows were selected"
        ):
            RelabelingClassifier(LogisticRegression()).fit(X, np.full(400, 3))

    def test_one_class_after_relabeling_is_refused(self):
        class Everything(BaseEstimator):
            def fit(self, Q, y):
                return self

            def relabel(self, Q, y, uniforms=None):
                return np.full(len(y), 2)

        with pytest.raises(LabelError, match=r"only 1 class \(\[2\]\) is left.*tau.*min_remaining=1"):
            RelabelingClassifier(LogisticRegression(), Everything()).fit(X, y)
