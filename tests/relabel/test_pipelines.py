"""What users of neighboring software ask for, at one site: pipelines, searches, labels, missing classes."""

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier, VotingClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, recall_score
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    StratifiedKFold,
    TunedThresholdClassifierCV,
    cross_val_predict,
    cross_val_score,
    train_test_split,
)
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

from fedrela_sk import FedReLaRelabeler, RelabelingClassifier

X, y = make_classification(
    500, n_classes=3, n_informative=5, weights=[0.8, 0.15], class_sep=0.7, random_state=1
)
binary = (y > 0).astype(int)


class TestInsideAndOutside:
    def test_in_sklearns_own_pipeline(self):
        clf = RelabelingClassifier(LogisticRegression(), random_state=0)
        pipe = make_pipeline(StandardScaler(), clf).fit(X, y)
        expected = RelabelingClassifier(LogisticRegression(), random_state=0)
        expected.fit(StandardScaler().fit_transform(X), y)
        assert np.array_equal(pipe.predict(X), expected.predict(StandardScaler().fit_transform(X)))

    def test_with_a_pipeline_inside(self):
        pipe = make_pipeline(StandardScaler(), LogisticRegression())
        clf = RelabelingClassifier(pipe, random_state=0).fit(X, y)
        assert isinstance(clf.estimator_, Pipeline)
        assert clf.n_features_in_ == X.shape[1]

    def test_search_over_relabeler_and_estimator_inside_a_pipeline(self):
        clf = RelabelingClassifier(LogisticRegression(), FedReLaRelabeler(), random_state=0)
        grid = {
            "relabelingclassifier__relabeler__tau": [0, 0.2],
            "relabelingclassifier__estimator__C": [0.01, 1],
        }
        search = GridSearchCV(
            make_pipeline(StandardScaler(), clf), grid, scoring="balanced_accuracy", error_score="raise"
        ).fit(X, y)
        assert search.best_params_["relabelingclassifier__relabeler__tau"] == 0.2
        mean = search.cv_results_["mean_test_score"]
        by_tau = [
            mean[search.cv_results_["param_relabelingclassifier__relabeler__tau"] == t] for t in (0, 0.2)
        ]
        assert by_tau[1].max() > by_tau[0].max()

    def test_search_with_a_pipeline_inside(self):
        pipe = make_pipeline(StandardScaler(), LogisticRegression())
        clf = RelabelingClassifier(pipe, FedReLaRelabeler(), random_state=0)
        grid = {"relabeler__tau": [0, 0.1], "estimator__logisticregression__C": [0.1, 1]}
        search = GridSearchCV(clf, grid, cv=3, error_score="raise").fit(X, y)
        assert set(search.best_params_) == set(grid)
        assert search.predict_proba(X).shape == (500, 3)

    def test_search_result_equals_a_direct_fit(self):
        clf = RelabelingClassifier(LogisticRegression(), FedReLaRelabeler(), random_state=0)
        search = GridSearchCV(clf, {"relabeler__tau": [0.1]}, cv=2, n_jobs=1).fit(X, y)
        direct = RelabelingClassifier(LogisticRegression(), FedReLaRelabeler(tau=0.1), random_state=0).fit(
            X, y
        )
        assert np.array_equal(search.predict_proba(X), direct.predict_proba(X))

    def test_a_search_inside(self):
        inner = GridSearchCV(LogisticRegression(), {"C": [0.1, 1]}, cv=2)
        clf = RelabelingClassifier(inner, cv=3, random_state=0).fit(X, y)
        assert "C" in clf.estimator_.best_params_

    def test_table_with_mixed_columns(self):
        frame = pd.DataFrame(X[:, :2], columns=["income", "debt"]).mask(X[:, :2] > 2)
        frame["state"] = np.array(["NY", "CA", None], dtype=object)[np.arange(500) % 3]
        prepare = make_column_transformer(
            (make_pipeline(SimpleImputer(), StandardScaler()), ["income", "debt"]),
            (OneHotEncoder(handle_unknown="ignore"), ["state"]),
        )
        inside = RelabelingClassifier(make_pipeline(prepare, LogisticRegression()), random_state=0)
        outside = make_pipeline(prepare, RelabelingClassifier(LogisticRegression(), random_state=0))
        for model in (inside, outside):
            assert model.fit(frame, binary).predict_proba(frame).shape == (500, 2)
        assert inside.feature_names_in_.tolist() == ["income", "debt", "state"]

    def test_voting(self):
        vote = VotingClassifier(
            [
                ("relabeled", RelabelingClassifier(LogisticRegression(), random_state=0)),
                ("plain", HistGradientBoostingClassifier(max_iter=3)),
            ],
            voting="soft",
        ).fit(X, y)
        assert vote.predict_proba(X).shape == (500, 3)


class TestThresholdAndCalibration:
    def test_tuned_threshold_around(self):
        clf = RelabelingClassifier(LogisticRegression(), random_state=0)
        tuned = TunedThresholdClassifierCV(clf, cv=2, thresholds=20, random_state=0).fit(X, binary)
        assert 0 < tuned.best_threshold_ < 1
        assert tuned.estimator_.relabeled_mask_.any()

    def test_tuned_threshold_inside_is_used(self):
        inner = TunedThresholdClassifierCV(LogisticRegression(), cv=2, thresholds=20, random_state=0)
        clf = RelabelingClassifier(inner, random_state=0).fit(X, binary)
        assert np.array_equal(clf.predict(X), clf.estimator_.predict(X))
        assert not np.array_equal(clf.predict(X), clf.predict_proba(X).argmax(axis=1))

    @pytest.mark.parametrize("params", [{}, {"refit": False}, {"calibrate": True}], ids=str)
    def test_calibrated_around_brings_the_shares_back(self, params):
        clf = RelabelingClassifier(LogisticRegression(), FedReLaRelabeler(tau=0.2), random_state=0, **params)
        calibrated = CalibratedClassifierCV(clf, cv=3).fit(X, binary)
        relabeled = clf.fit(X, binary).predict_proba(X)[:, 1].mean()
        assert abs(calibrated.predict_proba(X)[:, 1].mean() - binary.mean()) < 0.02
        if not params.get("calibrate"):
            assert relabeled > binary.mean() + 0.03

    def test_calibrated_inside_gives_posteriors_to_scores(self):
        inner = CalibratedClassifierCV(LinearSVC(), cv=3)
        clf = RelabelingClassifier(inner, calibrate=True, random_state=0).fit(X, y)
        assert np.allclose(clf.predict_proba(X).sum(axis=1), 1)

    def test_many_classes_where_threshold_tuning_is_binary_only(self):
        with pytest.raises(ValueError, match="Only binary classification is supported"):
            TunedThresholdClassifierCV(LogisticRegression()).fit(X, y)
        plain = LogisticRegression().fit(X, y).predict(X)
        for params in ({}, {"refit": False}):
            clf = RelabelingClassifier(
                LogisticRegression(), FedReLaRelabeler(tau=0.2), random_state=0, **params
            )
            found = clf.fit(X, y).predict(X)
            assert recall_score(y, found, average="macro") > recall_score(y, plain, average="macro") + 0.05


class TestLabels:
    """Labels of any kind go in and come out again."""

    NAMES = {
        "strings": np.array(["ok", "late", "bad"]),
        "object strings": np.array(["ok", "late", "bad"], dtype=object),
        "gaps": np.array([0, 5, 7]),
        "five and seven": np.array([5, 7, 7]),
        "negative": np.array([-1, 1, 1]),
        "bools": np.array([False, True, True]),
        "object bools": np.array([True, False, False], dtype=object),
        "object ints": np.array([10, 20, 30], dtype=object),
        "whole floats": np.array([0.0, 1.0, 2.0]),
    }

    @pytest.mark.parametrize("params", [{}, {"refit": False}, {"calibrate": True}], ids=str)
    @pytest.mark.parametrize("name", NAMES)
    def test_round_trip(self, name, params):
        labels = self.NAMES[name][y]
        kept = labels.copy()
        clf = RelabelingClassifier(LogisticRegression(), random_state=0, **params).fit(X, labels)
        assert clf.classes_.tolist() == sorted(set(labels.tolist()))
        assert clf.y_relabeled_.dtype == labels.dtype
        assert set(clf.y_relabeled_.tolist()) <= set(labels.tolist())
        assert set(clf.predict(X).tolist()) <= set(labels.tolist())
        assert clf.score(X, np.asarray(labels.tolist())) > 0.7
        assert np.array_equal(labels, kept)

    def test_report_speaks_the_users_labels(self):
        labels = self.NAMES["strings"][y]
        report = RelabelingClassifier(LogisticRegression(), random_state=0).fit(X, labels).relabel_report()
        frame = report.to_frame()
        assert set(frame["old"]) <= {"ok", "late"}
        assert set(frame["new"]) <= {"late", "bad"}
        assert (frame["z"] > frame["threshold"]).all()
        assert frame[["posterior", "rho"]].to_numpy().min() >= 0


class TestMissingClasses:
    """A fold, a training set or a test set may lack a class."""

    def test_columns_where_the_outer_training_part_lacks_a_class(self):
        order = np.argsort(y, kind="stable")  # KFold without shuffling: the last class is in one fold alone
        clf = RelabelingClassifier(LogisticRegression(), random_state=0)
        with pytest.warns(RuntimeWarning, match="Number of classes in training fold"):
            Q = cross_val_predict(clf, X[order], y[order], cv=KFold(5), method="predict_proba")
        assert Q.shape == (500, 3)
        assert not Q[-30:, 2].any()

    def test_columns_where_an_inner_fold_lacks_a_class(self):
        labels = np.where(np.arange(500) == 3, "single", np.array(["a", "b", "c"])[y])
        for params in ({}, {"refit": False}, {"calibrate": True}):
            clf = RelabelingClassifier(LogisticRegression(), random_state=0, **params).fit(X, labels)
            Q = clf.predict_proba(X)
            assert clf.classes_.tolist() == ["a", "b", "c", "single"]
            assert Q.shape == (500, 4)
            assert np.allclose(Q.sum(axis=1), 1)

    def test_log_loss_where_the_test_part_lacks_a_class(self):
        clf = RelabelingClassifier(LogisticRegression(), random_state=0).fit(X, y)
        rows = y < 2
        assert np.isfinite(log_loss(y[rows], clf.predict_proba(X[rows]), labels=clf.classes_))

    @pytest.mark.parametrize("weight", [{0: 1, 1: 5, 2: 20}, "balanced"], ids=str)
    def test_class_weight_where_a_fold_lacks_a_class(self, weight):
        labels = np.where(np.arange(500) == 3, 2, binary)
        clf = RelabelingClassifier(LogisticRegression(class_weight=weight), random_state=0).fit(X, labels)
        assert clf.predict_proba(X).shape == (500, 3)

    @pytest.mark.parametrize("rare", [1, 2, 3, 4])
    def test_few_rows_never_fail_in_a_search(self, rare):
        labels = (np.arange(100) < rare).astype(int)
        clf = RelabelingClassifier(LogisticRegression(), FedReLaRelabeler(), random_state=0)
        train, _, labels_train, _ = train_test_split(X[:100], labels, test_size=0.01, random_state=0)
        grid = {"relabeler__tau": [0, 0.1], "refit": [True, False]}
        cv = [(np.arange(99), np.arange(99))]
        search = GridSearchCV(clf, grid, cv=cv, error_score="raise").fit(train, labels_train)
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()

    def test_scores_over_stratified_folds(self):
        clf = RelabelingClassifier(make_pipeline(StandardScaler(), LogisticRegression()), random_state=0)
        scores = cross_val_score(
            clf, X, y, cv=StratifiedKFold(3), scoring="neg_log_loss", error_score="raise"
        )
        assert np.isfinite(scores).all()


def test_texts_as_a_list():
    texts = [f"loan {word}" for word in np.array(["paid", "late", "default"])[y]]
    pipe = make_pipeline(TfidfVectorizer(), LogisticRegression())
    clf = RelabelingClassifier(pipe, FedReLaRelabeler(), random_state=0)
    search = GridSearchCV(clf, {"relabeler__tau": [0, 0.05]}, cv=3, error_score="raise").fit(texts, y)
    assert search.predict(texts[:5]).shape == (5,)


def test_binary_transform_ranks_as_the_first_model():
    clf = RelabelingClassifier(LogisticRegression(), FedReLaRelabeler(tau=0.2), refit=False, random_state=0)
    clf.fit(X, binary)
    before, after = clf.estimator_.predict_proba(X)[:, 1], clf.predict_proba(X)[:, 1]
    assert np.array_equal(np.argsort(before, kind="stable"), np.argsort(after, kind="stable"))
