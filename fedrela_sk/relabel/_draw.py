"""New labels from rho and given uniforms: step 6 of the method, by either rule.

A rule (`target`) says which class a row takes once draws have succeeded; `_expectation` holds its closed form.
"""

import numpy as np


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
    uniforms : ndarray of shape (n_rows, n_classes), in [0, 1)
        One per row and class. A candidate succeeds where its uniform lies below its rho.
    target : {"argmax", "argmax_of_successes"}
        A key of `TARGETS`.

    Returns
    -------
    taken : Candidates
        One per changed row, rows ascending.
    """
    success = uniforms[found.row, found.column] < found.rho
    return TARGETS[target](found, success)


def argmax(found, success):
    """The paper: once any draw of a row succeeds, the class of largest rho; ties go to the lower class."""
    return found[found.best()[np.logical_or.reduceat(success, found.starts)]]


def argmax_of_successes(found, success):
    """The released code: the class of largest rho among those whose draw succeeded."""
    lucky = found[success]
    return lucky[lucky.best()]


TARGETS = {"argmax": argmax, "argmax_of_successes": argmax_of_successes}
