"""Limits on how many rows of one client change: rows that stay in a class, rows that enter one."""

import math

import numpy as np

# max_ratio * rows is meant exactly; this absorbs rounding such as 0.1 * 30 = 3.0000000000000004
ROUNDING = 1e-9


def limit_changes(row, old, new, rho, counts, min_remaining=0, max_ratio=None):
    """Which of the drawn changes are made.

    The changes are taken in order of falling rho, then rising row; each is made if its own class still has more
    than `min_remaining` of its original rows and its target class still has room.

    Parameters
    ----------
    row, old, new : ndarray of shape (n_changes,), int
        Row, its own class and its target class.
    rho : ndarray of shape (n_changes,)
        Of the target class.
    counts : ndarray of shape (n_classes,), int
        Rows of each class at this client, before any change.
    min_remaining : int
        Original rows that stay in every class; 0 is no floor.
    max_ratio : float or None
        At most ``ceil(max_ratio * max(1, counts[j]))`` rows enter class j; None is no limit.

    Returns
    -------
    made : ndarray of shape (n_changes,), bool
    """
    made = np.ones(len(row), dtype=bool)
    if min_remaining == 0 and max_ratio is None:
        return made
    may_leave = np.maximum(counts - min_remaining, 0).tolist()
    room = [_room(count, max_ratio) for count in counts.tolist()]
    for k in np.lexsort((row, -rho)).tolist():
        source, target = old[k], new[k]
        made[k] = may_leave[source] > 0 and room[target] > 0
        may_leave[source] -= made[k]
        room[target] -= made[k]
    return made


def _room(count, max_ratio):
    return math.inf if max_ratio is None else math.ceil(max_ratio * max(1, count) - ROUNDING)
