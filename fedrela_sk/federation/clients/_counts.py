"""Rows that are in training, counted by client and by class, and the weights of classes that follow."""

from numbers import Real

import numpy as np

from fedrela_sk._labels import python_values
from fedrela_sk.relabel.formulas._priors import class_counts


def total_weight(rows, weights):
    """Sum of the weights of rows, their number where `weights` is None.

    Parameters
    ----------
    rows : ndarray of int64
    weights : ndarray of shape (n_all_rows,) or None
    """
    return float(len(rows) if weights is None else weights[rows].sum())


def kept_rows(clients, spec):
    """Rows of a client in training: without those set aside and those that a relabeler dropped."""
    return spec.train_rows[clients.keep[spec.train_rows]]


def client_sizes(plan, clients):
    """Sum of the weights of every client's rows in training, ndarray of shape (n_clients,)."""
    return np.array([total_weight(kept_rows(clients, spec), plan.weights) for spec in plan.specs])


def class_count(plan, clients):
    """Original rows of each class in training over all clients, as the sum of their weights.

    Returns
    -------
    counts : ndarray of shape (n_classes,)
    """
    return count_rows(plan, np.concatenate([kept_rows(clients, spec) for spec in plan.specs]))


def count_rows(plan, rows, codes=None):
    """Rows of each class, of the original labels or of `codes`, ndarray of shape (n_classes,)."""
    weights = None if plan.weights is None else plan.weights[rows]
    codes = plan.codes if codes is None else codes
    return class_counts(codes[rows], len(plan.classes), weights)


def original_counts(plan, specs):
    """Rows of each class that clients came with, ndarray of shape (n_specs, n_classes)."""
    return np.array([count_rows(plan, spec.train_rows) for spec in specs])


def client_class_weights(class_weight, counts, classes):
    """Factor of each class at one client.

    Parameters
    ----------
    class_weight : dict, "balanced" or None
        A dictionary maps labels to factors (1 where a label is left out); "balanced" is
        rows / (classes present x rows of the class), from this client's own original counts.
    counts : ndarray of shape (n_classes,)
        Original counts of the client.
    classes : ndarray of shape (n_classes,)

    Returns
    -------
    factors : ndarray of shape (n_classes,) or None
        A class that the client lacks has factor 0 under "balanced".
    """
    if class_weight is None:
        return None
    if isinstance(class_weight, dict):
        return np.array([class_weight.get(label, 1.0) for label in python_values(classes)], dtype=np.float64)
    present = counts > 0
    factors = np.zeros(len(counts))
    factors[present] = counts.sum() / (present.sum() * counts[present])
    return factors


def check_class_weight(class_weight, classes):
    """Refuse factors for labels that do not exist, and invalid factors."""
    if not isinstance(class_weight, dict):
        return
    unknown = [label for label in class_weight if label not in set(python_values(classes))]
    if unknown:
        raise ValueError(
            f"class_weight names {unknown[0]!r}, which is not among the classes {classes.tolist()}."
        )
    for label, factor in class_weight.items():
        if not (isinstance(factor, Real) and np.isfinite(factor) and factor >= 0):
            raise ValueError(f"class_weight[{label!r}] must be a finite number >= 0, got {factor!r}.")
