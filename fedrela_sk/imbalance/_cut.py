"""What all cutters share: classes and their counts, which rows stay, cutting every array along."""

import numpy as np

from fedrela_sk._checks import check_labels
from fedrela_sk._labels import sorted_names
from fedrela_sk._random import Purpose, numpy_stream, seed_from
from fedrela_sk._sklearn import _safe_indexing
from fedrela_sk.exceptions import LabelError, PartitionError


def check_classes(y, n_rows):
    """Sorted classes, the class of each row, and rows per class; at least two classes.

    Returns
    -------
    classes : ndarray of shape (n_classes,)
    codes : ndarray of shape (n_samples,), int
        Positions in `classes`.
    counts : ndarray of shape (n_classes,), int
    """
    y = check_labels(y, n_rows)
    classes, codes = sorted_names(y)
    counts = np.bincount(codes)
    if len(classes) < 2:
        raise LabelError(f"Imbalance needs at least 2 classes in y, got {len(classes)}: {classes.tolist()}.")
    return classes, codes, counts


def check_none_vanishes(targets, counts, classes):
    """Raise unless every class keeps at least one row."""
    for target, count, label in zip(targets, counts, classes.tolist(), strict=True):
        if target == 0:
            raise PartitionError(
                f"Class {label!r} would vanish: cut less (a smaller imbalance), or start from more rows; "
                f"got a target of 0 out of {count} rows."
            )


def rows_to_keep(codes, targets, shuffle, random_state):
    """Ascending indices of the rows that stay: `targets[c]` of class c.

    Every row gets one uniform number, whatever its class and the targets, and the smallest stay. So the same
    seed with smaller targets keeps a subset.

    Parameters
    ----------
    codes : ndarray of shape (n_samples,), int
    targets : array-like of shape (n_classes,), int
    shuffle : bool
        False keeps the first rows of each class.
    random_state : int, RandomState instance or None

    Returns
    -------
    rows : ndarray of int
    """
    n_rows = len(codes)
    order = np.arange(n_rows)
    if shuffle:
        order = np.argsort(numpy_stream(seed_from(random_state), Purpose.DATA).random(n_rows))
    order = order[np.argsort(codes[order], kind="stable")]
    starts = np.cumsum(np.bincount(codes)) - np.bincount(codes)
    rank = np.arange(n_rows) - np.repeat(starts, np.bincount(codes))
    return np.sort(order[rank < np.asarray(targets)[codes[order]]])


def cut_arrays(arrays, rows, return_indices):
    """Those rows of each array, and the indices if asked for."""
    kept = [_safe_indexing(array, rows) for array in arrays]
    return (*kept, rows) if return_indices else tuple(kept)
