"""Limits on how many rows of one client change: rows that stay in a class, rows that enter one."""

import math

import numpy as np

# max_ratio * rows is meant exactly; this absorbs rounding such as 0.1 * 30 = 3.0000000000000004
ROUNDING = 1e-9


def limit_changes(drawn, codes, n_classes, min_remaining, max_ratio):
    """Which of the drawn changes are made.

    The changes are taken in order of falling rho, then rising row; each is made if its own class still has
    more than `min_remaining` of its original rows and its target class still has room.

    Parameters
    ----------
    drawn : Candidates
        One per row that would change.
    codes : ndarray of shape (n_rows,), int
        Own class of every row of this client, changed or not.
    n_classes : int
    min_remaining : int
        Original rows that stay in every class; 0 is no floor.
    max_ratio : float or None
        At most ``ceil(max_ratio * max(1, rows of class j))`` rows enter class j; None is no limit.

    Returns
    -------
    made : ndarray of shape (n_drawn,), bool
    """
    made = np.ones(len(drawn.row), dtype=bool)
    if min_remaining == 0 and max_ratio is None:
        return made
    counts = np.bincount(codes, minlength=n_classes)
    may_leave = (counts - min_remaining).tolist()
    room = [_room(count, max_ratio) for count in counts.tolist()]
    source, target = codes[drawn.row].tolist(), drawn.column.tolist()
    for k in np.lexsort((drawn.row, -drawn.rho)).tolist():
        made[k] = may_leave[source[k]] > 0 and room[target[k]] > 0
        may_leave[source[k]] -= int(made[k])
        room[target[k]] -= int(made[k])
    return made


def _room(count, max_ratio):
    return math.inf if max_ratio is None else math.ceil(max_ratio * max(1, count) - ROUNDING)
