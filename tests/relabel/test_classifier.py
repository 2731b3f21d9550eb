"""RelabelingClassifier: its stages, its responses, its draws, other relabelers."""

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.base import BaseEstimator
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier

from fedrela_sk import FedReLaRelabeler, RelabelingClassifier
from fedrela_sk.exceptions import LabelError
from tests.relabel.classifier_rows import Recorder, X, binary, y


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
    def test_is_out_of_fold_posteriors_relabeled_and_refitted(self):
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

    def test_relabeled_rows_move_to_rarer_classes_and_raise_recall(self):
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
