"""Splitters with one planted fault each, and what `check_splitter` says of it."""

import numpy as np
from sklearn.base import BaseEstimator


class Thirds(BaseEstimator):
    """A splitter without a fault."""

    def __init__(self, random_state=0):
        self.random_state = random_state

    def tests(self, X, y):
        return [np.arange(k, len(X), 3) for k in range(3)]

    def split(self, X, y=None, groups=None):
        for test in self.tests(X, y):
            yield np.setdiff1d(np.arange(len(X)), test), test

    def get_n_splits(self, X=None, y=None, groups=None):
        return 3


class Overlaps(Thirds):
    def tests(self, X, y):
        return [np.arange(k, len(X), 2) for k in (0, 1, 0)]


class LeavesRowsOut(Thirds):
    def tests(self, X, y):
        return [np.arange(k, len(X) - 4, 3) for k in range(3)]


class BeyondTheRows(Thirds):
    def tests(self, X, y):
        return [np.arange(k, len(X) + 3, 3) for k in range(3)]


class Masks(Thirds):
    def split(self, X, y=None, groups=None):
        for k in range(3):
            yield np.arange(len(X)) % 3 != k, np.arange(len(X)) % 3 == k


class TrainsOnItsTests(Thirds):
    def split(self, X, y=None, groups=None):
        for test in self.tests(X, y):
            yield np.arange(len(X)), test


class GloballyShuffled(Thirds):
    def tests(self, X, y):
        return np.array_split(np.random.permutation(len(X)), 3)  # noqa: NPY002 - the fault


class UnseededlyShuffled(Thirds):
    def tests(self, X, y):
        return np.array_split(np.random.default_rng().permutation(len(X)), 3)


class ShufflesLabels(Thirds):
    def tests(self, X, y):
        y[:] = np.sort(y)
        return super().tests(X, y)


class NotesItsRows(Thirds):
    def tests(self, X, y):
        self.n_rows = len(X)
        return super().tests(X, y)


class Miscounts(Thirds):
    def get_n_splits(self, X=None, y=None, groups=None):
        return 4


class NoPairs(Thirds):
    def split(self, X, y=None, groups=None):
        raise TypeError("no rows are cut here")


SPLITTERS = {
    "overlapping clients": (Overlaps(), "row 0 is in more than one test set"),
    "rows that nobody has": (LeavesRowsOut(), "row .* is in no test set"),
    "rows that are not there": (BeyondTheRows(), "holds row 7. of 72"),
    "masks for indices": (Masks(), "test set 0 is bool"),
    "test rows in training": (TrainsOnItsTests(), "training sets hold no row of their test set"),
    "global random state": (GloballyShuffled(), "split uses no global random state"),
    "another cut every time": (UnseededlyShuffled(), "cuts the same rows in the same way"),
    "changes the labels": (ShufflesLabels(), "split leaves X, y and groups as they are.*y"),
    "writes to itself": (NotesItsRows(), "split leaves its parameters as they are.*n_rows"),
    "another number of clients": (
        Miscounts(),
        "get_n_splits gives the number of test sets. Seen: it gives 4",
    ),
    "no pairs at all": (NoPairs(), "yields pairs of index arrays.*no rows are cut"),
}
