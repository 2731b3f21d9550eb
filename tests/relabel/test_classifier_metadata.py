"""RelabelingClassifier: weights and other metadata reach whom they are for."""

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fedrela_sk import FedReLaRelabeler, RelabelingClassifier
from tests.relabel.classifier_rows import X, y


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
