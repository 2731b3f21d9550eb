"""Labels as positions in a list of all classes: how every metric knows classes that are absent."""

from collections.abc import Mapping

import numpy as np

from fedrela_sk import _labels
from fedrela_sk._checks import check_labels
from fedrela_sk._labels import array_of, check_names, positions_in, python_values, sorted_names
from fedrela_sk._sklearn import _num_samples
from fedrela_sk._typing import Array
from fedrela_sk.exceptions import GroupsError, LabelError


def check_pair(y_true, y_pred, labels=None) -> tuple[Array, Array, Array]:
    """True and predicted labels as positions in one list of classes.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_samples,)
    labels : array-like of shape (n_classes,) or None
        All classes; None means those that occur in `y_true` or `y_pred`, sorted.

    Returns
    -------
    true, predicted : ndarray of shape (n_samples,), int
    labels : ndarray of shape (n_classes,)

    Raises
    ------
    LabelError
        No rows; a label is missing, or not among `labels`; or labels of both arrays cannot be sorted together.
    """
    y_true = check_labels(y_true, None if y_true is None else _num_samples(y_true))
    y_pred = check_labels(y_pred, len(y_true))
    if len(y_true) == 0:
        raise LabelError("A metric needs rows: pass at least one true label, got 0.")
    labels = union(y_true, y_pred) if labels is None else check_names(labels, "labels")
    return positions(y_true, labels, "y_true"), positions(y_pred, labels, "y_pred"), labels


def union(*arrays):
    """All labels that occur, sorted."""
    arrays = [check_names(array) for array in arrays]
    if all(array.dtype.kind in "mM" for array in arrays):
        return np.unique(np.concatenate(arrays))
    values = {label for array in arrays for label in python_values(array)}
    try:
        return array_of(sorted(values))
    except TypeError as error:
        kinds = sorted({type(label).__name__ for label in values})
        raise LabelError(
            f"True and predicted labels cannot be compared: make them one type, got {kinds}."
        ) from error


def positions(y, labels, name):
    """Position of each entry of `y` in `labels`."""
    places = positions_in(labels, y)
    if (places < 0).any():
        row = int(np.argmax(places < 0))
        raise LabelError(
            f"Row {row} of {name} is not among the labels {labels.tolist()}: pass all classes as labels, "
            f"got {y.tolist()[row]!r}."
        )
    return places


def check_groups(groups, n_rows):
    """Sorted client names, and the client of each row as a position among them.

    Raises
    ------
    GroupsError
        Not one entry per row, a missing one, or names that cannot be sorted together.
    """
    return sorted_names(_labels.check_groups(groups, n_rows), "groups", error=GroupsError)


def rows_by_client(client, n_clients):
    """Ascending row indices of each client in turn; `client` holds its position for each row."""
    sizes = np.bincount(client, minlength=n_clients)
    return np.split(np.argsort(client, kind="stable"), np.cumsum(sizes)[:-1])


def check_class_values(values, labels, name):
    """One value per class, in the order of `labels`.

    Parameters
    ----------
    values : mapping from class to value, or array-like of shape (n_classes,)
        An array is in the order of `labels`.
    labels : ndarray of shape (n_classes,)
    name : str
        Of `values`, for the message.

    Returns
    -------
    values : ndarray of shape (n_classes,)

    Raises
    ------
    LabelError
        A class has no value, or there are more or fewer values than classes.
    """
    if isinstance(values, Mapping):
        names = python_values(labels)
        missing = [label for label in names if label not in values]
        if missing:
            raise LabelError(f"{name} has no entry for the classes {missing}: add them, got {dict(values)}.")
        return np.array([values[label] for label in names])
    values = np.asarray(values)
    if values.shape != labels.shape:
        raise LabelError(
            f"{name} must have one entry per class, {len(labels)} for {labels.tolist()}: pass all classes as "
            f"labels, got an array of shape {values.shape}."
        )
    return values


def check_counts(counts) -> Array:
    """Rows (or weights) per class: one dimension, finite, none negative, not all zero."""
    counts = np.asarray(counts)
    if counts.ndim != 1 or counts.dtype.kind not in "biuf":
        raise LabelError(
            f"counts must be one number per class: pass a one-dimensional array, got shape {counts.shape} "
            f"and dtype {counts.dtype}."
        )
    if not np.isfinite(counts).all() or (counts < 0).any() or not counts.any():
        raise LabelError(
            f"counts must be finite, none negative and not all zero: pass the rows of each class, "
            f"got {counts.tolist()}."
        )
    return counts


def check_pos_label(pos_label, labels, *arrays):
    """Raise if the positive class is unknown.

    Known are `labels` where given, else the labels in `arrays`; there a single other label passes, as a fold
    or a client without positives.
    """
    known = union(*arrays) if labels is None else check_names(labels, "labels")
    if not (positions_in([pos_label], known) == 0).any() and (len(known) > 1 or labels is not None):
        raise LabelError(
            f"pos_label must be one of the labels {known[:10].tolist()} (pass all classes as labels where it may "
            f"be absent): got {pos_label!r}."
        )


def equals(y, label):
    """Which entries are this label, as a boolean array."""
    return positions_in([label], y) == 0
