"""Rows that are in training, counted: of every client, of every class."""

import numpy as np

from fedrela_sk.federation.clients._weights import total_weight
from fedrela_sk.relabel._priors import class_counts


def kept_rows(state, spec):
    """Rows of a client in training: without those set aside and those that a relabeler dropped."""
    return spec.train_rows[state.keep[spec.train_rows]]


def client_sizes(plan, state):
    """Sum of the weights of every client's rows in training, ndarray of shape (n_clients,)."""
    return np.array([total_weight(kept_rows(state, spec), plan.weights) for spec in plan.specs])


def class_count(plan, state):
    """Original rows of each class in training over all clients, as the sum of their weights.

    Returns
    -------
    counts : ndarray of shape (n_classes,)
    """
    return count_rows(plan, np.concatenate([kept_rows(state, spec) for spec in plan.specs]))


def count_rows(plan, rows, codes=None):
    """Rows of each class, of the original labels or of `codes`, ndarray of shape (n_classes,)."""
    weights = None if plan.weights is None else plan.weights[rows]
    codes = plan.codes if codes is None else codes
    return class_counts(codes[rows], len(plan.classes), weights)


def original_counts(plan, specs):
    """Rows of each class that clients came with, ndarray of shape (n_specs, n_classes)."""
    return np.array([count_rows(plan, spec.train_rows) for spec in specs])
