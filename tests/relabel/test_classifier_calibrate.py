"""RelabelingClassifier: posteriors brought back to the data as they came."""

import logging

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from fedrela_sk import FedReLaRelabeler, RelabelingClassifier
from fedrela_sk.exceptions import PosteriorError
from tests.relabel.classifier_rows import X, y


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

    def test_share_is_zero_without_relabeling(self):
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
