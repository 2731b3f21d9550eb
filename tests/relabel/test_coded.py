"""Classifiers that want labels 0..K-1 without gaps, and nets with one output per class: any labels, any fold."""

import pickle

import numpy as np
import pytest
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, KFold, cross_val_score
from skorch import NeuralNetClassifier
from torch import nn

from fedrela_sk import FedReLaRelabeler, FedReLaSampler, RelabelingClassifier
from fedrela_sk.relabel._coded import CodedClassifier, fit_labels
from tests.federation.helpers import make_rows

X, Y = make_rows(240)


class NoGaps(ClassifierMixin, BaseEstimator):
    """Like a boosting library: labels must be exactly 0..K-1."""

    def __init__(self, C=1.0, class_weight=None):
        self.C = C
        self.class_weight = class_weight

    def fit(self, X, y, sample_weight=None):
        classes = np.unique(y)
        if classes.dtype.kind not in "iu" or not np.array_equal(classes, np.arange(len(classes))):
            raise ValueError(f"Invalid classes inferred from unique values of `y`. Got {classes}")
        self.inner_ = LogisticRegression(C=self.C, class_weight=self.class_weight).fit(X, y, sample_weight)
        self.classes_, self.n_features_in_ = classes, X.shape[1]
        return self

    def predict(self, X):
        return self.inner_.predict(X)

    def predict_proba(self, X):
        return self.inner_.predict_proba(X)

    def decision_function(self, X):
        return self.inner_.decision_function(X)


class Net(nn.Sequential):
    def __init__(self, n_classes=3):
        super().__init__(nn.Linear(3, n_classes))


def net(n_classes=3):
    torch.manual_seed(0)
    return NeuralNetClassifier(
        Net,
        module__n_classes=n_classes,
        criterion=nn.CrossEntropyLoss,
        max_epochs=3,
        lr=0.1,
        train_split=None,
        verbose=0,
    )


LABELS = {
    "0, 1, 2": np.array([0, 1, 2]),
    "gaps": np.array([0, 2, 7]),
    "from 1": np.array([1, 2, 3]),
    "negative": np.array([-1, 0, 1]),
    "strings": np.array(["a", "b", "c"]),
    "floats": np.array([0.0, 1.0, 2.0]),
    "large": np.array([2**60, 2**60 + 1, 2**60 + 2]),
}
WAYS = [
    {},
    {"refit": False},
    {"calibrate": True},
    {"cv": "insample"},
    {"response_method": "decision_function"},
]


@pytest.mark.parametrize("params", WAYS, ids=str)
@pytest.mark.parametrize("kind", LABELS)
def test_labels_of_any_kind_are_the_same_fit(kind, params):
    classes = LABELS[kind]
    reference = RelabelingClassifier(NoGaps(), FedReLaRelabeler(0.2), random_state=0, **params).fit(X, Y)
    clf = RelabelingClassifier(NoGaps(), FedReLaRelabeler(0.2), random_state=0, **params).fit(X, classes[Y])
    np.testing.assert_array_equal(clf.classes_, classes)
    np.testing.assert_array_equal(clf.relabeled_mask_, reference.relabeled_mask_)
    assert clf.relabeled_mask_.any()
    np.testing.assert_array_equal(clf.predict_proba(X), reference.predict_proba(X))
    np.testing.assert_array_equal(clf.predict(X), classes[reference.predict(X)])
    assert clf.predict(X).dtype == classes.dtype
    assert clf.n_features_in_ == 3
    assert isinstance(clf.estimator_, CodedClassifier) == (kind not in ("0, 1, 2",))
    again = pickle.loads(pickle.dumps(clf))
    np.testing.assert_array_equal(again.predict(X), clf.predict(X))
    np.testing.assert_array_equal(clone(clf).fit(X, classes[Y]).predict(X), clf.predict(X))


@pytest.mark.parametrize("gone", [0, 1, 2])
@pytest.mark.parametrize(
    "estimator", [NoGaps(), net(), LogisticRegression()], ids=["no gaps", "net", "any labels"]
)
def test_folds_that_lack_a_class(estimator, gone):
    """One group alone holds a class: its rows get posteriors of a classifier that never saw it."""
    groups = np.where(gone == Y, 0, 1 + np.arange(240) % 3)
    data = X.astype(np.float32)
    clf = RelabelingClassifier(estimator, FedReLaRelabeler(0.2), cv=GroupKFold(4), random_state=0)
    clf.fit(data, Y, groups=groups)
    Q = clf.predict_proba(data)
    assert Q.shape == (240, 3)
    np.testing.assert_allclose(Q.sum(axis=1), 1.0, rtol=1e-5)
    assert set(clf.predict(data).tolist()) <= {0, 1, 2}
    _, new = FedReLaSampler(estimator, FedReLaRelabeler(0.2), cv=GroupKFold(4)).fit_resample(
        data, Y, groups=groups
    )
    assert set(new.tolist()) <= {0, 1, 2}


@pytest.mark.parametrize("gone", [0, 1, 2])
def test_scores_of_folds_that_lack_a_class(gone):
    y = Y[np.argsort(gone != Y, kind="stable")]
    scores = cross_val_score(RelabelingClassifier(NoGaps(), cv=2), X, y, cv=KFold(3), error_score="raise")
    assert np.isfinite(scores).all()


class Vanishes:
    """Relabels all rows of a class."""

    def __init__(self, gone):
        self.gone = gone

    def fit(self, Q, y):
        return self

    def relabel(self, Q, y, uniforms=None):
        return np.where(y == self.gone, (self.gone + 1) % 3, y)


@pytest.mark.parametrize("gone", [0, 1, 2])
@pytest.mark.parametrize(
    "estimator", [NoGaps(), net(), LogisticRegression()], ids=["no gaps", "net", "any labels"]
)
def test_a_class_that_vanishes_in_relabeling(estimator, gone):
    data = X.astype(np.float32)
    clf = RelabelingClassifier(estimator, Vanishes(gone), random_state=0).fit(data, Y)
    Q = clf.predict_proba(data)
    assert Q.shape == (240, 3)
    np.testing.assert_allclose(Q.sum(axis=1), 1.0, rtol=1e-5)
    if not isinstance(estimator, NeuralNetClassifier):  # a net has an output for it all the same
        assert not Q[:, gone].any()
        assert gone not in clf.predict(data)


def test_two_classes_of_any_names():
    for classes in (np.array([0, 2]), np.array(["no", "yes"])):
        y = classes[(Y > 0).astype(int)]
        clf = RelabelingClassifier(NoGaps(), random_state=0).fit(X, y)
        assert clf.decision_function(X).shape == (240,)
        np.testing.assert_array_equal(clf.predict(X) == classes[1], clf.decision_function(X) > 0)


def test_a_net_is_trained_on_positions_where_labels_are_none():
    clf = RelabelingClassifier(net(), random_state=0).fit(X.astype(np.float32), np.array([5, 9, 11])[Y])
    assert set(clf.predict(X.astype(np.float32)).tolist()) <= {5, 9, 11}
    assert clf.score(X.astype(np.float32), np.array([5, 9, 11])[Y]) > 0.3


# --------------------------------------------------------------------------------- what stays an error


def test_who_takes_the_labels_gets_them():
    model = fit_labels(LogisticRegression(), X, np.array([1, 5, 7])[Y], np.array([1, 5, 7]), {})
    assert isinstance(model, LogisticRegression)
    assert model.classes_.tolist() == [1, 5, 7]


def test_other_refusals_are_the_classifiers_own():
    broken = X.copy()
    broken[3, 0] = np.nan
    with pytest.raises(ValueError, match="Input X contains NaN"):
        RelabelingClassifier(LogisticRegression()).fit(broken, LABELS["strings"][Y])


def test_weights_by_class_name_no_positions():
    """Positions would be taken for labels: 0, 1 and 2 are labels here, too."""
    classes = np.array([0, 1, 5])
    weighted = NoGaps(class_weight={0: 1.0, 1: 2.0, 5: 3.0})
    with pytest.raises(ValueError, match="Invalid classes inferred"):
        RelabelingClassifier(weighted).fit(X, classes[Y])


def test_labels_without_gaps_are_never_renamed():
    class Refuses(NoGaps):
        def fit(self, X, y, sample_weight=None):
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        fit_labels(Refuses(), X, Y, np.arange(3), {})
