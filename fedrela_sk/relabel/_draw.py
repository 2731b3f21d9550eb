"""Drawing new labels from rho and given uniforms: step 6 of the method, both rules.

A target names how the new label follows from the draws, and `_expectation` holds the closed form of each.
"""

import numpy as np


def draw(found, uniforms, target):
    """The candidate that each changed row takes.

    Parameters
    ----------
    found : Candidates
    uniforms : ndarray of shape (n_rows, n_classes), in [0, 1)
        One per row and class. A candidate succeeds where its uniform lies below its rho.
    target : {"argmax", "argmax_of_successes"}
        A row with a success takes the class of largest rho, or of largest rho among its successes; ties go to
        the lower class index.

    Returns
    -------
    chosen : ndarray of int
        Positions in `found`, one per changed row, rows ascending.
    """
    success = uniforms[found.row, found.column] < found.rho
    return TARGETS[target](found, success)


def argmax(found, success):
    """The paper: once any draw succeeds, the class of largest rho."""
    starts = found.starts
    if not len(starts):
        return starts
    return starts[np.logical_or.reduceat(success, starts)]


def argmax_of_successes(found, success):
    """The released code: the class of largest rho among those whose draw succeeded."""
    lucky = np.flatnonzero(success)
    return lucky[np.diff(found.row[lucky], prepend=-1) > 0]


TARGETS = {"argmax": argmax, "argmax_of_successes": argmax_of_successes}
