"""Controls for the fair ablation: relabelers that change as many rows as FedReLa, but others or otherwise.

Each runs FedReLa first, with the federation's own uniforms, so that at every client it knows how many rows of each
class went to which other class.
"""

import numpy as np
from sklearn.base import BaseEstimator

from fedrela_sk import FedReLaRelabeler


class _Control(BaseEstimator):
    """Base: FedReLa's answer, and a generator of the client's own.

    Parameters
    ----------
    tau : float, default=0.05
    classes, random_state : as in `FedReLaRelabeler`
        Set by the federation.
    """

    def __init__(self, tau=0.05, classes=None, random_state=None):
        self.tau = tau
        self.classes = classes
        self.random_state = random_state

    def fit(self, Q, y):
        """Fit the relabeler whose choices are matched."""
        self.relabeler_ = FedReLaRelabeler(self.tau, classes=self.classes).fit(Q, y)
        return self

    def relabel(self, Q, y, uniforms=None):
        """New labels, or labels and a mask of the rows that stay."""
        new = self.relabeler_.relabel(Q, y, uniforms=uniforms)
        return self.answer(Q, y, new, np.random.default_rng(self.random_state))


class RandomFlips(_Control):
    """As many flips of each (from, to) pair at each client, on rows drawn at random."""

    def answer(self, Q, y, new, generator):
        flipped = y.copy()
        for old, target, n in pairs(y, new):
            free = np.flatnonzero((y == old) & (flipped == y))
            flipped[generator.choice(free, n, replace=False)] = target
        return flipped


class TopPosteriors(_Control):
    """As many flips of each (from, to) pair, on the rows with the highest posterior: no z-score."""

    def answer(self, Q, y, new, generator):
        flipped = y.copy()
        for old, target, n in pairs(y, new):
            free = np.flatnonzero((y == old) & (flipped == y))
            column = Q[free, np.searchsorted(self.classes, target)]
            flipped[free[np.argsort(-column, kind="stable")[:n]]] = target
        return flipped


class DropSameRows(_Control):
    """The rows that FedReLa would relabel leave training; their labels stay."""

    def answer(self, Q, y, new, generator):
        return y, new == y


class DropCleanlabIssues(_Control):
    """The rows that cleanlab calls label issues leave training (default rule, posteriors as FedReLa sees them)."""

    def answer(self, Q, y, new, generator):
        from cleanlab.filter import find_label_issues

        present, codes = np.unique(y, return_inverse=True)
        if len(present) < 2:
            return y, np.ones(len(y), dtype=bool)
        Q = Q[:, np.searchsorted(self.classes, present)]  # it wants a row of every class
        issues = find_label_issues(codes, Q / Q.sum(1, keepdims=True), n_jobs=1)
        return y, ~issues if not issues.all() else np.ones(len(y), dtype=bool)


def pairs(y, new):
    """(old label, new label, number of rows) of all changes."""
    changed = np.flatnonzero(y != new)
    found, counts = np.unique(np.stack([y[changed], new[changed]], axis=1), axis=0, return_counts=True)
    return [(old, target, int(n)) for (old, target), n in zip(found, counts, strict=True)]


CONTROLS = {
    "random_flips": RandomFlips,
    "top_posteriors": TopPosteriors,
    "drop_same_rows": DropSameRows,
    "drop_cleanlab_issues": DropCleanlabIssues,
}
