import doctest
import logging

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from scipy import sparse
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import NotFittedError, UnsetMetadataPassedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import get_tags

from fedrela_sk import FedReLaRelabeler, RelabelingClassifier
from fedrela_sk.exceptions import LabelError, PartitionError, PosteriorError
from fedrela_sk.relabel import _classifier

X, y = make_classification(
    400, n_classes=3, n_informative=5, weights=[0.75, 0.2], class_sep=0.8, random_state=0
)
binary = (y > 0).astype(int)


class Recorder(ClassifierMixin, BaseEstimator):
    """Writes down what reaches it; posteriors are the class shares, tilted by the row's position."""

    calls = []

    def fit(self, X, y, sample_weight=None, note=None):
        self.calls.append({"X": X, "y": y, "sample_weight": sample_weight, "note": note})
        self.classes_, counts = np.unique(y, return_counts=True)
        self.share_ = counts / counts.sum()
        return self

    def predict_proba(self, X):
        self.calls.append({"asked": X})
        n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
        tilt = np.exp(np.outer(np.linspace(-1, 1, n_rows), np.arange(len(self.share_))))
        return self.share_ * tilt / (self.share_ * tilt).sum(axis=1, keepdims=True)


@pytest.fixture
def recorder():
    Recorder.calls = []
    return Recorder()


class RandomFlips:
    """A control that needs neither posteriors nor a seed of its own: flips one row in five to class 2."""

    def fit(self, Q, y):
        return self

    def relabel(self, Q, y, uniforms=None):
        return np.where(uniforms[:, 0] < 0.2, 2, y)


class DropUnsure(BaseEstimator):
    """A control that changes nothing and drops rows without a clear posterior."""

    def __init__(self, least=0.6):
        self.least = least

    def fit(self, Q, y):
        return self

    def relabel(self, Q, y, uniforms=None):
        return y, Q.max(axis=1) >= self.least


class TestStages:
    def test_is_out_of_fold_posteriors_relabelled_and_refitted(self):
        clf = RelabelingClassifier(LogisticRegression(), FedReLaRelabeler(tau=0.1), random_state=3).fit(X, y)
        Q = cross_val_predict(LogisticRegression(), X, y, method="predict_proba")
        by_hand = FedReLaRelabeler(tau=0.1, classes=[0, 1, 2], random_state=3).fit(Q, y)
        y_new = by_hand.relabel(Q, y)
        assert np.array_equal(clf.y_relabeled_, y_new)
        assert np.array_equal(clf.relabeled_mask_, y_new != y)
        assert clf.relabeled_mask_.sum() > 5
        expected = LogisticRegression().fit(X, y_new)
        assert np.array_equal(clf.predict_proba(X), expected.predict_proba(X))
        assert np.array_equal(clf.predict(X), expected.predict(X))
        assert np.array_equal(clf.decision_function(X), expected.decision_function(X))
        assert np.array_equal(clf.predict_log_proba(X), np.log(expected.predict_proba(X)))
        assert clf.score(X, y) == expected.score(X, y)

    @pytest.mark.parametrize(
        "cv", [None, 3, KFold(4), StratifiedKFold(3, shuffle=True, random_state=1)], ids=str
    )
    def test_any_cv(self, cv):
        clf = RelabelingClassifier(LogisticRegression(), cv=cv, random_state=0).fit(X, y)
        Q = cross_val_predict(LogisticRegression(), X, y, cv=cv, method="predict_proba")
        expected = FedReLaRelabeler(classes=[0, 1, 2], random_state=0).fit(Q, y)
        assert np.array_equal(clf.relabeler_.mean_, expected.mean_)

    def test_cv_may_be_an_iterable(self):
        splits = list(KFold(3).split(X))
        clf = RelabelingClassifier(LogisticRegression(), cv=iter(splits), random_state=0)
        expected = RelabelingClassifier(LogisticRegression(), cv=KFold(3), random_state=0).fit(X, y)
        assert np.array_equal(clf.fit(X, y).y_relabeled_, expected.y_relabeled_)

    def test_insample(self, recorder):
        clf = RelabelingClassifier(LogisticRegression(), cv="insample", random_state=0).fit(X, y)
        Q = LogisticRegression().fit(X, y).predict_proba(X)
        expected = FedReLaRelabeler(classes=[0, 1, 2], random_state=0).fit(Q, y)
        assert np.array_equal(clf.relabeler_.mean_, expected.mean_)
        RelabelingClassifier(recorder, cv="insample").fit(X, y)
        assert sum("y" in call for call in recorder.calls) == 2

    def test_in_sample_is_overconfident(self):
        forest = RandomForestClassifier(20, random_state=0)
        own = {
            cv: RelabelingClassifier(forest, cv=cv, random_state=0).fit(X, y).relabeler_.mean_.diagonal()
            for cv in (5, "insample")
        }
        assert (own["insample"] > own[5] + 0.1).all()

    def test_frozen_posteriors_are_used_as_they_are(self, recorder):
        half = LogisticRegression(C=0.1).fit(X[::2], y[::2])
        clf = RelabelingClassifier(FrozenEstimator(half), random_state=0).fit(X, y)
        expected = FedReLaRelabeler(classes=[0, 1, 2], random_state=0).fit(half.predict_proba(X), y)
        assert np.array_equal(clf.relabeler_.mean_, expected.mean_)
        refitted = LogisticRegression(C=0.1).fit(X, clf.y_relabeled_)
        assert np.array_equal(clf.predict_proba(X), refitted.predict_proba(X))
        assert isinstance(clf.estimator_, LogisticRegression)
        assert not np.array_equal(clf.estimator_.coef_, half.coef_)

    def test_frozen_is_never_fitted_without_refit(self, recorder):
        recorder.fit(X, y)
        clf = RelabelingClassifier(FrozenEstimator(FrozenEstimator(recorder)), refit=False).fit(X, y)
        assert sum("y" in call for call in recorder.calls) == 1
        assert clf.estimator_ is recorder

    def test_frozen_classifier_may_know_more_classes(self):
        known = LogisticRegression().fit(X, y)
        rows = y < 2
        clf = RelabelingClassifier(FrozenEstimator(known), random_state=0).fit(X[rows], y[rows])
        assert clf.classes_.tolist() == [0, 1, 2]
        assert clf.predict_proba(X).shape == (len(X), 3)
        assert 2 in clf.y_relabeled_  # an absent class is the most wanted one

    def test_frozen_classifier_must_know_all_labels(self):
        known = LogisticRegression().fit(X[y < 2], y[y < 2])
        with pytest.raises(
            LabelError, match=r"y holds \[2\], which the frozen .*\[0, 1\].*all classes before"
        ):
            RelabelingClassifier(FrozenEstimator(known)).fit(X, y)

    def test_number_of_fits(self, recorder):
        fits = {}
        for name, params in {
            "refit": {},
            "no refit": {"refit": False},
            "calibrate": {"calibrate": True},
            "insample": {"cv": "insample"},
            "insample, no refit": {"cv": "insample", "refit": False},
        }.items():
            Recorder.calls = []
            RelabelingClassifier(recorder, **params).fit(X, y)
            fits[name] = sum("y" in call for call in recorder.calls)
        assert fits == {
            "refit": 6,
            "no refit": 6,
            "calibrate": 7,
            "insample": 2,
            "insample, no refit": 1,
        }

    def test_estimator_and_y_are_left_alone(self):
        estimator, relabeler, target = LogisticRegression(), FedReLaRelabeler(), y.copy()
        clf = RelabelingClassifier(estimator, relabeler, random_state=0).fit(X, target)
        assert not hasattr(estimator, "coef_")
        assert not hasattr(relabeler, "classes_")
        assert relabeler.random_state is None
        assert np.array_equal(target, y)
        assert clf.y_relabeled_ is not target

    def test_none_means_the_default_relabeler(self):
        one = RelabelingClassifier(LogisticRegression(), random_state=0).fit(X, y)
        two = RelabelingClassifier(LogisticRegression(), FedReLaRelabeler(), random_state=0).fit(X, y)
        assert isinstance(one.relabeler_, FedReLaRelabeler)
        assert np.array_equal(one.y_relabeled_, two.y_relabeled_)

    def test_tau_zero_is_the_classifier_itself(self):
        clf = RelabelingClassifier(LogisticRegression(), FedReLaRelabeler(tau=0)).fit(X, y)
        assert not clf.relabeled_mask_.any()
        plain = LogisticRegression().fit(X, y)
        assert np.array_equal(clf.predict_proba(X), plain.predict_proba(X))

    def test_report(self):
        clf = RelabelingClassifier(LogisticRegression(), random_state=0).fit(X, y)
        report = clf.relabel_report()
        rows = np.flatnonzero(clf.relabeled_mask_)
        assert np.array_equal(report.row, rows)
        assert np.array_equal(report.old, y[rows])
        assert np.array_equal(report.new, clf.y_relabeled_[rows])
        frame = report.to_frame()
        assert {"row", "old", "new", "posterior", "z", "threshold", "rho"} <= set(frame)
        assert len(frame) == len(rows)

    def test_relabelled_rows_move_to_rarer_classes_and_raise_recall(self):
        clf = RelabelingClassifier(LogisticRegression(), FedReLaRelabeler(tau=0.2), random_state=0).fit(X, y)
        changed = clf.relabeled_mask_
        assert (clf.y_relabeled_[changed] > y[changed]).all()
        plain = LogisticRegression().fit(X, y)
        assert (clf.predict(X) > 0).sum() > (plain.predict(X) > 0).sum()


class TestNoRefit:
    @pytest.mark.parametrize("target", [binary, y], ids=["binary", "multi-class"])
    def test_is_transform_of_the_first_model(self, target):
        clf = RelabelingClassifier(LogisticRegression(), refit=False, random_state=0).fit(X, target)
        first = LogisticRegression().fit(X, target)
        expected = clf.relabeler_.transform(first.predict_proba(X))
        assert np.array_equal(clf.predict_proba(X), expected)
        assert np.array_equal(clf.predict(X), clf.classes_[expected.argmax(axis=1)])
        assert np.array_equal(clf.estimator_.coef_, first.coef_)
        assert clf.first_estimator_ is clf.estimator_

    def test_two_classes_act_like_a_moved_threshold(self):
        clf = RelabelingClassifier(
            LogisticRegression(), FedReLaRelabeler(tau=0.3), refit=False, random_state=0
        )
        clf.fit(X, binary)
        before = clf.estimator_.predict_proba(X)[:, 1]
        after = clf.predict_proba(X)[:, 1]
        assert (np.diff(after[np.argsort(before)]) >= 0).all()
        assert after[clf.predict(X) == 1].min() > after[clf.predict(X) == 0].max()
        assert (clf.predict(X) != clf.estimator_.predict(X)).any()

    def test_scores_become_posteriors(self):
        clf = RelabelingClassifier(LinearSVC(), refit=False, random_state=0).fit(X, y)
        expected = clf.relabeler_.transform(LinearSVC().fit(X, y).decision_function(X))
        assert np.array_equal(clf.predict_proba(X), expected)
        assert not hasattr(clf, "decision_function")

    def test_scores_are_not_shown(self):
        assert not hasattr(RelabelingClassifier(LogisticRegression(), refit=False), "decision_function")
        assert not hasattr(RelabelingClassifier(LogisticRegression(), calibrate=True), "decision_function")
        assert hasattr(RelabelingClassifier(LogisticRegression()), "decision_function")


class TestResponse:
    @pytest.mark.parametrize("target", [binary, y], ids=["binary", "multi-class"])
    def test_scores_where_there_are_no_probabilities(self, target):
        clf = RelabelingClassifier(LinearSVC(), random_state=0).fit(X, target)
        scores = cross_val_predict(LinearSVC(), X, target, method="decision_function")
        scores = np.column_stack([-scores / 2, scores / 2]) if scores.ndim == 1 else scores
        by_hand = FedReLaRelabeler(input="score", classes=np.unique(target), random_state=0)
        by_hand.fit(scores, target)
        assert clf.relabeler_.input == "score"
        assert np.array_equal(clf.relabeler_.mean_, by_hand.mean_)
        assert np.array_equal(clf.y_relabeled_, by_hand.relabel(scores, target))
        expected = LinearSVC().fit(X, clf.y_relabeled_).decision_function(X)
        assert np.array_equal(clf.decision_function(X), expected)
        assert not hasattr(clf, "predict_proba")
        assert not hasattr(clf, "predict_log_proba")

    @pytest.mark.parametrize("target", [binary, y], ids=["binary", "multi-class"])
    def test_log_odds_mix_as_posteriors_do(self, target):
        clf = RelabelingClassifier(
            LogisticRegression(),
            FedReLaRelabeler(tau=0.1),
            response_method="decision_function",
            refit=False,
            random_state=0,
        ).fit(X, target)
        posteriors = LogisticRegression().fit(X, target).predict_proba(X)
        untouched = np.isclose(clf.predict_proba(X), posteriors).all(axis=1)
        assert 0.5 < untouched.mean() < 1

    def test_scores_on_request(self):
        clf = RelabelingClassifier(LogisticRegression(), response_method="decision_function").fit(X, y)
        assert clf.relabeler_.input == "score"
        assert clf.predict_proba(X).shape == (len(X), 3)

    def test_input_is_set_from_what_is_passed(self):
        clf = RelabelingClassifier(LogisticRegression(), FedReLaRelabeler(input="score")).fit(X, y)
        assert clf.relabeler_.input == "posterior"

    def test_scores_of_pairs_are_refused(self):
        labels = np.arange(len(X)) % 4
        with pytest.raises(LabelError, match=r"got 6 columns for 4 classes.*decision_function_shape='ovr'"):
            RelabelingClassifier(SVC(decision_function_shape="ovo")).fit(X, labels)

    def test_missing_method(self):
        with pytest.raises(AttributeError, match="LinearSVC has none of the following attributes"):
            RelabelingClassifier(LinearSVC(), response_method="predict_proba").fit(X, y)


class TestRandomness:
    def test_seed_decides_the_draw(self):
        def fit(seed):
            return RelabelingClassifier(LogisticRegression(), random_state=seed).fit(X, y).y_relabeled_

        assert np.array_equal(fit(1), fit(1))
        assert not np.array_equal(fit(1), fit(2))

    def test_relabeler_keeps_its_own_seed(self):
        def fit(seed):
            relabeler = FedReLaRelabeler(random_state=5)
            return RelabelingClassifier(LogisticRegression(), relabeler, random_state=seed).fit(X, y)

        assert np.array_equal(fit(1).y_relabeled_, fit(2).y_relabeled_)
        assert fit(1).relabeler_.random_state == 5

    def test_relabeler_without_a_seed_gets_the_classifiers(self):
        one = RelabelingClassifier(LogisticRegression(), FedReLaRelabeler(), random_state=5).fit(X, y)
        two = RelabelingClassifier(LogisticRegression(), FedReLaRelabeler(random_state=5)).fit(X, y)
        assert np.array_equal(one.y_relabeled_, two.y_relabeled_)

    def test_random_state_instance_draws_anew(self):
        clf = RelabelingClassifier(LogisticRegression(), random_state=np.random.RandomState(0))
        assert not np.array_equal(clf.fit(X, y).y_relabeled_, clf.fit(X, y).y_relabeled_)

    def test_shuffling_splitter_is_seeded(self):
        def fit(seed):
            cv = StratifiedKFold(3, shuffle=True)
            return (
                RelabelingClassifier(LogisticRegression(), cv=cv, random_state=seed)
                .fit(X, y)
                .relabeler_.mean_
            )

        assert np.array_equal(fit(1), fit(1))
        assert not np.array_equal(fit(1), fit(2))

    def test_estimator_keeps_its_own_seed(self):
        tree = DecisionTreeClassifier(max_features=1, random_state=4)
        clf = RelabelingClassifier(tree, random_state=0).fit(X, y)
        assert clf.estimator_.random_state == 4

    def test_n_jobs_does_not_matter(self):
        tree = DecisionTreeClassifier(max_depth=4, max_features=2, random_state=4)
        one, two = (RelabelingClassifier(tree, n_jobs=jobs, random_state=0) for jobs in (None, 2))
        with parallel_config(backend="threading"):
            one.fit(X, y), two.fit(X, y)
        assert np.array_equal(one.y_relabeled_, two.y_relabeled_)
        assert np.array_equal(one.predict_proba(X), two.predict_proba(X))

    def test_tau_nests_the_changed_rows(self):
        masks = [
            RelabelingClassifier(LogisticRegression(), FedReLaRelabeler(tau=tau), random_state=0)
            .fit(X, y)
            .relabeled_mask_
            for tau in (0.02, 0.1, 0.3)
        ]
        assert masks[0].sum() < masks[1].sum() < masks[2].sum()
        assert not (masks[0] & ~masks[1]).any()
        assert not (masks[1] & ~masks[2]).any()


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
    def test_containers_come_back(self, target):
        clf = RelabelingClassifier(LogisticRegression(), random_state=0).fit(X, target)
        expected = RelabelingClassifier(LogisticRegression(), random_state=0).fit(X, binary)
        assert type(clf.y_relabeled_) is type(target)
        if hasattr(target, "dtype"):
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

    def test_one_class_after_relabelling_is_refused(self):
        class Everything(BaseEstimator):
            def fit(self, Q, y):
                return self

            def relabel(self, Q, y, uniforms=None):
                return np.full(len(y), 2)

        with pytest.raises(LabelError, match=r"only 1 class \(\[2\]\) is left.*tau.*min_remaining=1"):
            RelabelingClassifier(LogisticRegression(), Everything()).fit(X, y)


class TestOtherRelabelers:
    def test_uniforms_come_from_the_seed(self):
        def fit(seed):
            return RelabelingClassifier(LogisticRegression(), RandomFlips(), random_state=seed).fit(X, y)

        assert np.array_equal(fit(0).y_relabeled_, fit(0).y_relabeled_)
        assert not np.array_equal(fit(0).y_relabeled_, fit(1).y_relabeled_)
        assert 0.1 < (fit(0).y_relabeled_ == 2).mean() - (y == 2).mean() < 0.3

    def test_rows_may_be_dropped(self):
        clf = RelabelingClassifier(LogisticRegression(), DropUnsure(0.6), random_state=0)
        weight = np.linspace(1, 2, 400)
        clf.fit(X, y, sample_weight=weight)
        folds = StratifiedKFold(5).split(X, y)
        Q = np.empty((400, 3))
        for train, test in folds:
            Q[test] = LogisticRegression().fit(X[train], y[train], weight[train]).predict_proba(X[test])
        keep = Q.max(axis=1) >= 0.6
        assert 10 < keep.sum() < 390
        expected = LogisticRegression().fit(X[keep], y[keep], weight[keep])
        assert np.array_equal(clf.estimator_.coef_, expected.coef_)
        assert not clf.relabeled_mask_.any()


class TestWeights:
    WEIGHT = np.random.RandomState(0).uniform(0.5, 2, 400)

    def test_reach_classifier_and_relabeler(self):
        clf = RelabelingClassifier(LogisticRegression(), random_state=0).fit(X, y, sample_weight=self.WEIGHT)
        Q = np.empty((400, 3))
        for train, test in StratifiedKFold(5).split(X, y):
            fold = LogisticRegression().fit(X[train], y[train], self.WEIGHT[train])
            Q[test] = fold.predict_proba(X[test])
        by_hand = FedReLaRelabeler(classes=[0, 1, 2], random_state=0).fit(Q, y, sample_weight=self.WEIGHT)
        assert np.array_equal(clf.y_relabeled_, by_hand.relabel(Q, y))
        assert np.allclose(clf.relabeler_.class_count_, np.bincount(y, weights=self.WEIGHT))
        expected = LogisticRegression().fit(X, clf.y_relabeled_, self.WEIGHT)
        assert np.array_equal(clf.predict_proba(X), expected.predict_proba(X))

    def test_integer_weight_equals_repetition_without_folds_and_draws(self):
        weight = np.random.RandomState(0).randint(0, 3, 400)
        rows = np.repeat(np.arange(400), weight)
        clf = RelabelingClassifier(
            LogisticRegression(tol=1e-10), FedReLaRelabeler(tau=0.2), cv="insample", refit=False
        )
        one = clone(clf).fit(X, y, sample_weight=weight).predict_proba(X)
        two = clone(clf).fit(X[rows], y[rows]).predict_proba(X)
        assert np.allclose(one, two, atol=1e-6)

    def test_refused_where_the_classifier_does_not_take_them(self):
        pipe = make_pipeline(StandardScaler(), LogisticRegression())
        message = r"the fit of Pipeline has no such parameter.*<step>__sample_weight.*enable_metadata_routing"
        with pytest.raises(ValueError, match=message):
            RelabelingClassifier(pipe).fit(X, y, sample_weight=self.WEIGHT)

    def test_step_of_a_pipeline_by_name(self):
        pipe = make_pipeline(StandardScaler(), LogisticRegression())
        clf = RelabelingClassifier(pipe, random_state=0)
        clf.fit(X, y, logisticregression__sample_weight=self.WEIGHT)
        expected = clone(pipe).fit(X, clf.y_relabeled_, logisticregression__sample_weight=self.WEIGHT)
        assert np.array_equal(clf.predict_proba(X), expected.predict_proba(X))

    def test_wrong_length(self):
        with pytest.raises(ValueError, match=r"sample_weight.shape == \(3,\), expected \(400,\)"):
            RelabelingClassifier(LogisticRegression()).fit(X, y, sample_weight=[1, 2, 3])


class TestMetadata:
    GROUPS = np.arange(400) % 8

    def test_groups_go_to_the_splitter(self):
        clf = RelabelingClassifier(LogisticRegression(), cv=GroupKFold(4), random_state=0)
        clf.fit(X, y, groups=self.GROUPS)
        Q = cross_val_predict(
            LogisticRegression(), X, y, groups=self.GROUPS, cv=GroupKFold(4), method="predict_proba"
        )
        assert np.array_equal(clf.relabeler_.mean_, FedReLaRelabeler().fit(Q, y).mean_)

    def test_everything_else_goes_to_the_classifier(self, recorder):
        RelabelingClassifier(recorder, cv=2).fit(X, y, note="hello")
        assert [call["note"] for call in recorder.calls if "y" in call] == ["hello"] * 3

    def test_routed(self, recorder):
        with config_context(enable_metadata_routing=True):
            recorder.set_fit_request(sample_weight=True, note=False)
            clf = RelabelingClassifier(recorder, cv=GroupKFold(2))
            clf.fit(X, y, sample_weight=X[:, 0] ** 2, groups=self.GROUPS)
        fits = [call for call in recorder.calls if "y" in call]
        assert len(fits) == 3
        assert all(np.array_equal(call["sample_weight"], call["X"][:, 0] ** 2) for call in fits)
        assert np.allclose(clf.relabeler_.class_count_.sum(), (X[:, 0] ** 2).sum())

    def test_weights_may_be_for_the_relabeler_alone(self, recorder):
        with config_context(enable_metadata_routing=True):
            recorder.set_fit_request(sample_weight=False)
            clf = RelabelingClassifier(recorder, cv=2).fit(X, y, sample_weight=np.full(400, 2.0))
        assert all(call["sample_weight"] is None for call in recorder.calls if "y" in call)
        assert clf.relabeler_.class_count_.sum() == 800

    def test_unrequested_is_an_error(self):
        with (
            config_context(enable_metadata_routing=True),
            pytest.raises(UnsetMetadataPassedError, match=r"sample_weight.*LogisticRegression"),
        ):
            RelabelingClassifier(LogisticRegression()).fit(X, y, sample_weight=np.ones(400))

    def test_frozen_routes_to_what_it_wraps(self, recorder):
        recorder.fit(X, y)
        with config_context(enable_metadata_routing=True):
            recorder.set_fit_request(note=True)
            RelabelingClassifier(FrozenEstimator(recorder)).fit(X, y, note="n")
        assert recorder.calls[-1]["note"] == "n"

    def test_search_routes_groups_and_weights_to_both_levels(self):
        with config_context(enable_metadata_routing=True):
            estimator = LogisticRegression().set_fit_request(sample_weight=True)
            clf = RelabelingClassifier(estimator, FedReLaRelabeler(), cv=GroupKFold(3), random_state=0)
            search = GridSearchCV(
                make_pipeline(
                    StandardScaler(),
                    clf.set_fit_request(sample_weight=True).set_score_request(sample_weight=True),
                ),
                {"relabelingclassifier__relabeler__tau": [0, 0.1]},
                cv=GroupKFold(2),
                error_score="raise",
            )
            search.estimator[0].set_fit_request(sample_weight=False)
            search.fit(X, y, groups=self.GROUPS, sample_weight=np.full(400, 3.0))
        best = search.best_estimator_[-1]
        assert best.relabeler_.class_count_.sum() == 1200


def gaussians(n_rows, seed, shares=(0.85, 0.11, 0.04)):
    """Rows of three Gaussians in the plane, labels, and the true posteriors."""
    rng = np.random.RandomState(seed)
    means = np.array([[0.0, 0.0], [1.8, 0.0], [0.0, 2.0]])[: len(shares)]
    labels = rng.choice(len(shares), size=n_rows, p=shares)
    rows = means[labels] + rng.normal(size=(n_rows, 2))
    density = np.exp(-0.5 * ((rows[:, None, :] - means) ** 2).sum(axis=2)) * np.array(shares)
    return rows, labels, density / density.sum(axis=1, keepdims=True)


def brier(Q, labels):
    return ((Q - np.eye(Q.shape[1])[labels]) ** 2).sum(axis=1).mean()


def reliability_gap(Q, labels, column, bins=10):
    """Mean distance between posterior and frequency over bins of equal width, weighted by rows."""
    place = np.minimum((Q[:, column] * bins).astype(int), bins - 1)
    gaps = [
        abs(Q[place == b, column].mean() - (labels[place == b] == column).mean()) * (place == b).mean()
        for b in np.unique(place)
    ]
    return sum(gaps)


class TestCalibrate:
    @pytest.mark.parametrize("shares", [(0.9, 0.1), (0.85, 0.11, 0.04)], ids=["two", "three"])
    def test_brings_back_brier_and_reliability(self, shares):
        rows, labels, _ = gaussians(20_000, 0, shares)
        test_rows, test_labels, truth = gaussians(20_000, 1, shares)
        boosting = HistGradientBoostingClassifier(max_iter=40, max_leaf_nodes=8, early_stopping=False)
        clf = RelabelingClassifier(boosting, FedReLaRelabeler(tau=0.2), cv=3, calibrate=True, random_state=0)
        clf.fit(rows, labels)
        Q = {
            "before": clf.first_estimator_.predict_proba(test_rows),
            "after": clf.estimator_.predict_proba(test_rows),
            "corrected": clf.predict_proba(test_rows),
        }
        score = {name: brier(posterior, test_labels) for name, posterior in Q.items()}
        assert score["after"] > score["before"] + 0.02
        assert abs(score["corrected"] - score["before"]) < 0.1 * (score["after"] - score["before"])
        rare = len(shares) - 1
        gap = {name: reliability_gap(posterior, test_labels, rare) for name, posterior in Q.items()}
        assert gap["after"] > gap["before"] + 0.02
        assert gap["corrected"] < 0.15 * gap["after"]
        assert np.abs(Q["corrected"] - truth).mean() < 0.03 < np.abs(Q["after"] - truth).mean()

    def test_saturated_rows_get_the_first_stage_and_are_reported(self, caplog):
        rows, labels, _ = gaussians(3000, 0)
        clf = RelabelingClassifier(
            LogisticRegression(), FedReLaRelabeler(tau=0.9), calibrate=True, random_state=0
        ).fit(rows, labels)
        assert 0.01 < clf.saturated_share_ < 0.99
        with caplog.at_level(logging.INFO, logger="fedrela_sk"):
            Q = clf.predict_proba(rows)
        first = LogisticRegression().fit(rows, labels).predict_proba(rows)
        same = (first == Q).all(axis=1)
        assert abs(same.mean() - clf.saturated_share_) < 0.02
        assert f"{same.sum()} of 3000 rows got their first-stage posterior" in caplog.text
        assert np.isfinite(Q).all()
        assert (Q >= 0).all()
        assert np.allclose(Q.sum(axis=1), 1)
        assert np.array_equal(clf.predict(rows), Q.argmax(axis=1))

    def test_new_labels_are_the_same_with_and_without(self):
        plain = RelabelingClassifier(LogisticRegression(), random_state=0).fit(X, y)
        corrected = RelabelingClassifier(LogisticRegression(), calibrate=True, random_state=0).fit(X, y)
        assert np.array_equal(corrected.y_relabeled_, plain.y_relabeled_)
        assert np.array_equal(corrected.estimator_.coef_, plain.estimator_.coef_)

    def test_share_is_zero_without_relabelling(self):
        clf = RelabelingClassifier(LogisticRegression(), FedReLaRelabeler(tau=0), calibrate=True).fit(X, y)
        assert clf.saturated_share_ == 0
        assert np.allclose(clf.predict_proba(X), LogisticRegression().fit(X, y).predict_proba(X))

    def test_without_refit_gives_the_first_stage_back(self):
        clf = RelabelingClassifier(LogisticRegression(), refit=False, calibrate=True, random_state=0).fit(
            X, y
        )
        assert clf.relabeled_mask_.any()
        first = LogisticRegression().fit(X, y).predict_proba(X)
        assert np.allclose(clf.predict_proba(X), first, atol=1e-9)

    def test_first_model_is_kept_only_where_it_is_needed(self):
        plain = RelabelingClassifier(LogisticRegression()).fit(X, y)
        assert plain.first_estimator_ is None
        assert plain.saturated_share_ is None
        clf = RelabelingClassifier(LogisticRegression(), calibrate=True).fit(X, y)
        assert np.array_equal(clf.first_estimator_.coef_, LogisticRegression().fit(X, y).coef_)

    def test_frozen(self):
        known = LogisticRegression().fit(X[::2], y[::2])
        clf = RelabelingClassifier(FrozenEstimator(known), calibrate=True, random_state=0).fit(X, y)
        assert clf.first_estimator_ is known
        assert np.allclose(clf.predict_proba(X).sum(axis=1), 1)

    @pytest.mark.parametrize(
        ("estimator", "response"),
        [(LinearSVC(), "auto"), (LogisticRegression(), "decision_function")],
        ids=str,
    )
    def test_needs_posteriors(self, estimator, response):
        clf = RelabelingClassifier(estimator, calibrate=True, response_method=response)
        message = rf"needs posteriors, got the decision_function of {type(estimator).__name__}.*Calibrated"
        with pytest.raises(ValueError, match=message):
            clf.fit(X, y)

    def test_posteriors_that_are_none_are_refused(self):
        class Broken(LogisticRegression):
            def predict_proba(self, X):
                Q = super().predict_proba(X)
                return np.full_like(Q, np.nan) if len(X) == 1 else Q

        clf = RelabelingClassifier(Broken(), calibrate=True).fit(X, y)
        with pytest.raises(PosteriorError, match=r"Row 0 of posteriors holds NaN"):
            clf.predict_proba(X[:1])


class TestPublic:
    def test_first_screen_of_the_docstring(self):
        screen = "\n".join(RelabelingClassifier.__doc__.splitlines()[:12])
        assert "Re-labelling moves posteriors" in screen
        assert "calibrated" in screen
        assert "acts like a moved threshold" in screen

    def test_example_runs(self):
        assert doctest.testmod(_classifier) == (0, 7)

    def test_unfitted(self):
        for method in ("predict", "predict_proba", "decision_function"):
            with pytest.raises(NotFittedError):
                getattr(RelabelingClassifier(LogisticRegression()), method)(X)
        with pytest.raises(NotFittedError):
            RelabelingClassifier(LogisticRegression()).relabel_report()

    @pytest.mark.parametrize(
        ("params", "message"),
        [
            ({"cv": "prefit"}, r"The 'cv' parameter .*'insample'.*Got 'prefit' instead"),
            ({"cv": 1}, r"The 'cv' parameter .*Got 1 instead"),
            (
                {"relabeler": "fedrela"},
                r"The 'relabeler' parameter .*'fit' and 'relabel'.*Got 'fedrela' instead",
            ),
            ({"response_method": "predict"}, r"The 'response_method' parameter .*Got 'predict' instead"),
            ({"refit": "yes"}, r"The 'refit' parameter .*Got 'yes' instead"),
            ({"calibrate": 2}, r"The 'calibrate' parameter .*Got 2 instead"),
            ({"n_jobs": 0.5}, r"The 'n_jobs' parameter .*Got 0.5 instead"),
            ({"random_state": -1}, r"The 'random_state' parameter .*Got -1 instead"),
            ({"estimator": StandardScaler()}, r"The 'estimator' parameter .*Got StandardScaler\(\) instead"),
        ],
        ids=str,
    )
    def test_parameters(self, params, message):
        clf = RelabelingClassifier(LogisticRegression()).set_params(**params)
        with pytest.raises(ValueError, match=message):
            clf.fit(X, y)

    def test_overlapping_folds(self):
        splits = [(np.arange(400), np.arange(400))] * 2
        with pytest.raises(PartitionError, match=r"row 0 is in 2 of them.*Use KFold"):
            RelabelingClassifier(LogisticRegression(), cv=splits).fit(X, y)

    def test_clone_and_params(self):
        clf = RelabelingClassifier(LogisticRegression(C=2), FedReLaRelabeler(tau=0.3), cv=3)
        params = clone(clf).get_params()
        assert params["estimator__C"] == 2
        assert params["relabeler__tau"] == 0.3
        assert params["cv"] == 3
