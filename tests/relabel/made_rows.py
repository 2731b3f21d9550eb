"""Rows of posteriors and labels that several test files use."""

import numpy as np

from fedrela_sk.relabel.formulas._threshold import THRESHOLDS
from fedrela_sk.relabel.many._numpy import Clients, Groups

# posteriors of six rows, whose numbers are worked out by hand
WORKED_EXAMPLE = np.array(
    [
        [0.90, 0.08, 0.02],
        [0.80, 0.15, 0.05],
        [0.70, 0.20, 0.10],
        [0.60, 0.10, 0.30],
        [0.30, 0.60, 0.10],
        [0.10, 0.80, 0.10],
    ]
)


def long_tailed_rows(seed, n_rows, n_classes, decay=0.5, shift=2.0):
    """Posteriors of an imperfect model and labels of a long tail (class 0 the largest, every class present)."""
    rng = np.random.default_rng(seed)
    share = decay ** np.arange(n_classes)
    y = np.concatenate(
        [np.arange(n_classes), rng.choice(n_classes, n_rows - n_classes, p=share / share.sum())]
    )
    logits = rng.normal(size=(n_rows, n_classes))
    logits[np.arange(n_rows), y] += shift
    posteriors = np.exp(logits)
    return posteriors / posteriors.sum(axis=1, keepdims=True), y


def one_group(n_rows, weights=None):
    """All rows as one `Groups`."""
    total = n_rows if weights is None else weights.sum()
    return Groups(np.zeros(n_rows, dtype=int), np.array([[float(total)]]), weights)


def thresholds(z, tau, rule, weights=None):
    """The thresholds of one client's columns."""
    return THRESHOLDS[rule](clients_of([len(z)], weights), z, tau)[0]


def clients_of(sizes, weights=None):
    """`Clients` with rows of the given numbers, one after the other."""
    total = np.bincount(np.repeat(np.arange(len(sizes)), sizes), weights)
    return Clients(np.array(sizes), total[:, np.newaxis].astype(float), weights)
