"""Relabelers with one planted fault each, and what `check_relabeler` says of it."""

import threading

import numpy as np
from sklearn.base import BaseEstimator


class Likeliest(BaseEstimator):
    """A relabeler without a fault: takes the likeliest class where it is likely."""

    def __init__(self, least=0.9, classes=None):
        self.least, self.classes = least, classes

    def fit(self, Q, y):
        self.classes_ = np.asarray(self.classes)
        return self

    def relabel(self, Q, y, uniforms=None):
        return np.where(Q.max(1) > self.least, self.classes_[Q.argmax(1)], y)


class Unknown(Likeliest):
    def relabel(self, Q, y, uniforms=None):
        return np.full(len(y), "wolf") if y.dtype.kind == "U" else np.full(len(y), 99)


class TooFew(Likeliest):
    def relabel(self, Q, y, uniforms=None):
        return y[:-1]


class NumbersForMask(Likeliest):
    def relabel(self, Q, y, uniforms=None):
        return y, np.ones(len(y), dtype=int)


class ChangesLabels(Likeliest):
    def relabel(self, Q, y, uniforms=None):
        y[:] = self.classes_[0]
        return y.copy()


class ChangesPosteriors(Likeliest):
    def relabel(self, Q, y, uniforms=None):
        Q *= 2
        return y.copy()


class DrawsGlobally(Likeliest):
    def relabel(self, Q, y, uniforms=None):
        return np.where(np.random.random(len(y)) < 0.1, self.classes_[0], y)  # noqa: NPY002 - the fault


class DrawsUnseeded(Likeliest):
    def relabel(self, Q, y, uniforms=None):
        return np.where(np.random.default_rng().random(len(y)) < 0.5, self.classes_[0], self.classes_[1])


class NeedsAllClasses(Likeliest):
    def fit(self, Q, y):
        self.first_ = [np.flatnonzero(y == label)[0] for label in self.classes]
        return super().fit(Q, y)


class ChangesItsParameter(Likeliest):
    def relabel(self, Q, y, uniforms=None):
        self.least = float(Q.max())
        return y


_seen = []


class RemembersOtherClients(Likeliest):
    def fit(self, Q, y):
        _seen.append(float(Q[0, 0]))
        return super().fit(Q, y)

    def relabel(self, Q, y, uniforms=None):
        first = _seen[-2] if len(_seen) > 1 and len(y) > 1 else 0.0
        return np.where(Q[:, 0] < first, self.classes_[0], y)


class RelabelerWithALock(Likeliest):
    def __init__(self, least=0.9, classes=None, lock=None):
        super().__init__(least, classes)
        self.lock = lock


RELABELERS = {
    "unknown labels": (Unknown(), "a known label for each row.*99"),
    "too few labels": (TooFew(), "a known label for each row.*must return 40 labels"),
    "a mask of numbers": (NumbersForMask(), "a known label for each row.*mask dtype int64"),
    "changes labels": (ChangesLabels(), "stay as they are. Seen: labels"),
    "changes posteriors": (ChangesPosteriors(), "stay as they are. Seen: posteriors"),
    "global random state": (DrawsGlobally(), "relabel uses no global random state"),
    "draws of its own": (DrawsUnseeded(), "all chance comes from uniforms or random_state"),
    "needs all classes": (NeedsAllClasses(), "relabels rows of any client.*(IndexError|mean|out of bounds)"),
    "changes its parameter": (ChangesItsParameter(), "relabel changes no parameter. Seen: least"),
    "remembers other clients": (
        RemembersOtherClients(),
        "does not reach another client|all chance comes from",
    ),
    "cannot be copied": (RelabelerWithALock(lock=threading.Lock()), "can be copied for every client"),
}
