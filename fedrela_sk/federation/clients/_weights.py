"""How much a row and a client count."""

from numbers import Real

import numpy as np

from fedrela_sk._labels import python_values


def total_weight(rows, weights):
    """Sum of the weights of rows, their number where `weights` is None.

    Parameters
    ----------
    rows : ndarray of int64
    weights : ndarray of shape (n_all_rows,) or None
    """
    return float(len(rows) if weights is None else weights[rows].sum())


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
    """Refuse factors for labels that do not exist, and factors that are none."""
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


def client_weights(client_weight, sizes):
    """Weight of every client in the aggregation.

    Parameters
    ----------
    client_weight : "size", "uniform", array-like of shape (n_clients,) or callable
        A callable gets `sizes` and returns the array.
    sizes : ndarray of shape (n_clients,)
        Sum of the row weights of each client.

    Returns
    -------
    weights : ndarray of shape (n_clients,), float64, >= 0
    """
    if isinstance(client_weight, str):
        return sizes.astype(np.float64) if client_weight == "size" else np.ones(len(sizes))
    given = client_weight(sizes.copy()) if callable(client_weight) else client_weight
    weights = np.asarray(given, dtype=np.float64)
    if weights.shape != sizes.shape:
        raise ValueError(
            f"client_weight must give one weight per client, shape {sizes.shape} in the order of "
            f"client_names_; got shape {weights.shape}."
        )
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if len(bad):
        raise ValueError(
            f"client_weight must be finite and >= 0, got {weights[bad[0]]} for client number {bad[0]}."
        )
    return weights
