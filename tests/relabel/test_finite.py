"""Posteriors that are not finite do not leave a classifier: the first class would be the most probable one."""

import numpy as np
import pytest
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from skorch import NeuralNetClassifier
from torch import nn

from fedrela_sk import FederatedClassifier, RelabelingClassifier
from fedrela_sk.exceptions import NotFiniteError

X = np.random.default_rng(0).normal(size=(60, 2))
Y = np.arange(60) % 2


class Breaks(ClassifierMixin, BaseEstimator):
    """Gives posteriors, and for large rows something that is none."""

    def __init__(self, value=np.nan):
        self.value = value

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        Q = np.full((len(X), 2), 0.5)
        Q[np.abs(np.asarray(X)).max(1) > 1e3] = self.value
        return Q

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(1)]


class BreaksInLogarithms(Breaks):
    """Has logarithms of its own."""

    def predict_log_proba(self, X):
        return np.log(self.predict_proba(X))


class Overflows(nn.Module):
    """Infinite logits for large rows."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(2, 2)

    def forward(self, x):
        return torch.exp(torch.abs(x)) * self.head(x)


def one_site(value):
    return RelabelingClassifier(Breaks(value), random_state=0).fit(X, Y)


def one_site_with_logarithms(value):
    return RelabelingClassifier(BreaksInLogarithms(value), random_state=0).fit(X, Y)


def federation(value):
    net = NeuralNetClassifier(Overflows, criterion=nn.CrossEntropyLoss, lr=1e-4, max_epochs=1)
    return FederatedClassifier(net, clients=3, n_rounds=1, random_state=0).fit(X, Y)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("make", [one_site, one_site_with_logarithms, federation])
def test_the_row_is_named(make, value):
    fitted = make(value)
    assert np.isfinite(fitted.predict_proba(X)).all()
    rows = X.copy()
    rows[7] = 1e30
    for method in ("predict_proba", "predict_log_proba"):
        with pytest.raises(NotFiniteError, match=r"The posterior of row 7 is not finite, .*\(1 such rows\)"):
            getattr(fitted, method)(rows)


def test_a_federation_does_not_answer_either():
    rows = X.copy()
    rows[7] = 1e30
    with pytest.raises(NotFiniteError, match="row 7"):
        federation(None).predict(rows)
