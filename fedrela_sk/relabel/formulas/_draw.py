"""From rho to new labels: draws that succeed, the class that a row then takes, and limits on how many rows change.

A rule (`target`) says which class a row takes once draws have succeeded; `_expectation` holds its closed form.
"""

import numpy as np

# max_ratio * rows is meant exactly; this absorbs rounding such as 0.1 * 30 = 3.0000000000000004
ROUNDING = 1e-9


def check_uniforms(uniforms, shape):
    """Uniform draws in [0, 1), one per row and class.

    Parameters
    ----------
    uniforms : array-like
    shape : (int, int)
        Rows and classes.

    Returns
    -------
    uniforms : ndarray of shape `shape`, float64

    Raises
    ------
    ValueError
        Another shape, or an entry outside [0, 1).
    """
    uniforms = np.asarray(uniforms, dtype=np.float64)
    if uniforms.shape != shape:
        raise ValueError(
            f"uniforms have shape {uniforms.shape}, expected {shape}: pass one per row and class, used or not."
        )
    if not (uniforms.min() >= 0 and uniforms.max() < 1):  # True for NaN
        row, column = np.argwhere(~((uniforms >= 0) & (uniforms < 1)))[0].tolist()
        raise ValueError(
            f"Row {row} of uniforms holds {uniforms[row, column]} for class {column}, expected a number in [0, 1). "
            "Draw them with numpy.random.Generator.random."
        )
    return uniforms


def draw(found, uniforms, target):
    """The candidate that each changed row takes.

    Parameters
    ----------
    found : Candidates
    uniforms : callable (row, column) -> ndarray, in [0, 1)
        Asked once, for all candidates. One succeeds where its uniform lies below its rho.
    target : {"argmax", "argmax_of_successes"}
        A key of `TARGETS`.

    Returns
    -------
    taken : Candidates
        One per changed row, rows ascending.
    """
    return TARGETS[target](found, uniforms(found.row, found.column) < found.rho)


def argmax(found, success):
    """The paper: once any draw of a row succeeds, the class of largest rho; ties go to the lower class."""
    return found[found.best()[np.logical_or.reduceat(success, found.starts)]]


def argmax_of_successes(found, success):
    """The released code: the class of largest rho among those whose draw succeeded."""
    lucky = found[success]
    return lucky[lucky.best()]


TARGETS = {"argmax": argmax, "argmax_of_successes": argmax_of_successes}


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
    if min_remaining == 0 and max_ratio is None:
        return np.ones(len(drawn.row), dtype=bool)
    counts = np.bincount(codes, minlength=n_classes)
    may_leave = counts - float(min_remaining)
    room = np.full(n_classes, np.inf)
    if max_ratio is not None:
        room = np.ceil(max_ratio * np.maximum(1, counts) - ROUNDING)
    made = np.zeros(len(drawn.row), dtype=bool)
    waiting = np.lexsort((drawn.row, -drawn.rho))
    while len(waiting):
        source, target = codes[drawn.row[waiting]], drawn.column[waiting]
        # made for sure: there is room even if all those before are made, too
        sure = (_place(source) < may_leave[source]) & (_place(target) < room[target])
        made[waiting[sure]] = True
        may_leave -= np.bincount(source[sure], minlength=n_classes)
        room -= np.bincount(target[sure], minlength=n_classes)
        # a slot that one before may need is never taken: where none is left, those before have them
        waiting = waiting[~sure & (may_leave[source] > 0) & (room[target] > 0)]
    return made


def _place(groups):
    """How many entries before it are of the same group, for every entry."""
    order = np.argsort(groups, kind="stable")
    starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
    place = np.empty(len(groups), dtype=np.intp)
    place[order] = np.arange(len(groups)) - np.repeat(starts, np.diff(starts, append=len(groups)))
    return place
