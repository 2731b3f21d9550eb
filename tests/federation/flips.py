"""A relabeler that moves every row to the next class and keeps a log of what it was given."""

import numpy as np
from sklearn.base import BaseEstimator


class Flip(BaseEstimator):
    """The next class for every row, and a log of what it was given."""

    log = []

    def __init__(self, keep=None, classes=None):
        self.keep = keep
        self.classes = classes

    def fit(self, Q, y):
        self.Q_ = Q
        return self

    def relabel(self, Q, y, uniforms=None):
        Flip.log.append((Q, y.copy(), uniforms))
        new = self.classes[(np.searchsorted(self.classes, y) + 1) % len(self.classes)]
        return new if self.keep is None else (new, self.keep(y))
