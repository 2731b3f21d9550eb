"""Rows, and a classifier that writes down what reaches it, for the tests of `RelabelingClassifier`."""

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import make_classification

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
