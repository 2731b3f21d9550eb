"""Beside imbalanced-learn's ensembles, skops and classifiers with logarithms of their own."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import skops.io
from imblearn.ensemble import BalancedBaggingClassifier
from sklearn.ensemble import BaggingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from fedrela_sk import FedReLaRelabeler, FedReLaSampler, RelabelingClassifier
from tests.federation.helpers import make_rows

X, Y = make_rows(300)
NAMES = np.array(["common", "rare", "scarce"], dtype=object)


@pytest.mark.parametrize("bootstrap", [True, False])
def test_a_bag_of_relabeled_samples(bootstrap):
    sampler = FedReLaSampler(LogisticRegression(), FedReLaRelabeler(0.2))
    bag = BalancedBaggingClassifier(
        LogisticRegression(), sampler=sampler, n_estimators=3, bootstrap=bootstrap, random_state=0
    ).fit(X, Y)
    samplers = [pipeline[0] for pipeline in bag.estimators_]
    assert [own.relabeled_mask_.any() for own in samplers] == [True] * 3
    assert bag.score(X, Y) > 0.4
    plain = BaggingClassifier(LogisticRegression(), n_estimators=3, random_state=0).fit(X, Y)
    assert (bag.predict(X) == 2).sum() > (plain.predict(X) == 2).sum()


LABELS = {
    "NumPy": Y,
    "NumPy strings": NAMES.astype(str)[Y],
    "objects": NAMES[Y],
    "Int64": pd.Series(Y, dtype="Int64"),
    "category": pd.Series(NAMES[Y]).astype("category"),
    "pandas str": pd.Series(NAMES[Y], dtype="str"),
    "boolean": pd.Series(Y > 0, dtype="boolean"),
    "polars": pl.Series(NAMES[Y].tolist()),
    "list": Y.tolist(),
}
OURS = ("fedrela_sk.", "sklearn.linear_model.")


@pytest.mark.parametrize("kind", LABELS)
@pytest.mark.parametrize("params", [{}, {"refit": False}, {"calibrate": True}], ids=str)
def test_skops_stores_what_was_fitted_without_the_containers_of_the_labels(params, kind):
    clf = RelabelingClassifier(LogisticRegression(), random_state=0, **params).fit(X, LABELS[kind])
    stored = skops.io.dumps(clf)
    unknown = skops.io.get_untrusted_types(data=stored)
    assert [name for name in unknown if not name.startswith(OURS)] == []
    loaded = skops.io.loads(stored, trusted=unknown)
    np.testing.assert_array_equal(loaded.predict_proba(X), clf.predict_proba(X))
    np.testing.assert_array_equal(loaded.predict(X), clf.predict(X))
    np.testing.assert_array_equal(loaded.y_relabeled_, clf.y_relabeled_)


@pytest.mark.parametrize("kind", LABELS)
def test_skops_stores_a_sampler(kind):
    sampler = FedReLaSampler(LogisticRegression(), random_state=0)
    sampler.fit_resample(X, LABELS[kind])
    stored = skops.io.dumps(sampler)
    unknown = skops.io.get_untrusted_types(data=stored)
    assert [name for name in unknown if not name.startswith(OURS)] == []
    loaded = skops.io.loads(stored, trusted=unknown)
    np.testing.assert_array_equal(loaded.relabeled_mask_, sampler.relabeled_mask_)


def test_logarithms_are_the_classifiers_own():
    """Its probabilities may be 0 where their logarithm is not minus infinity."""
    clf = RelabelingClassifier(GaussianNB(), random_state=0).fit(X, Y)
    far = X * 1000
    assert (clf.predict_proba(far) == 0).any()
    log_posteriors = clf.predict_log_proba(far)
    assert np.isfinite(log_posteriors).all()
    np.testing.assert_array_equal(log_posteriors, clf.estimator_.predict_log_proba(far))


@pytest.mark.parametrize("params", [{}, {"refit": False}, {"calibrate": True}], ids=str)
def test_logarithms_are_those_of_the_probabilities(params):
    clf = RelabelingClassifier(LogisticRegression(), random_state=0, **params).fit(X, Y)
    with np.errstate(divide="ignore"):
        expected = np.log(clf.predict_proba(X))
    np.testing.assert_allclose(clf.predict_log_proba(X), expected, rtol=1e-9)


def test_a_class_that_vanished_has_minus_infinity():
    class Drops:
        def fit(self, Q, y):
            return self

        def relabel(self, Q, y, uniforms=None):
            return np.where(y == 1, 0, y)

    clf = RelabelingClassifier(LogisticRegression(), Drops()).fit(X, Y)
    assert (clf.predict_log_proba(X)[:, 1] == -np.inf).all()
    assert (clf.predict_proba(X)[:, 1] == 0).all()
