"""From the posterior of a new label back to the posterior of the original one: q̃ = T'q, row by row."""

import numpy as np
from scipy.optimize import nnls

from fedrela_sk.relabel.formulas._expectation import EXPECTATIONS
from fedrela_sk.relabel.formulas._rho import candidates_of_label

# below this share of rows that keep their label, T is too far from invertible to be inverted
MIN_DIAGONAL = 0.1

_ROUNDING = 1e-12
_BLOCK = 2**21  # entries of T held at once where single rows are solved


def transition_row(values, label, statistics, target):
    """P(new label = j | row, label): one row of T for each row of values.

    Parameters
    ----------
    values : ndarray of shape (n_rows, n_classes), float64
        Posteriors.
    label : int
        Position of the label in the class list.
    statistics : Statistics
    target : {"argmax", "argmax_of_successes"}

    Returns
    -------
    probabilities : ndarray of shape (n_rows, n_classes), float64
        Rows sum to one; rho is capped as in `transform`.
    """
    found = candidates_of_label(values, label, statistics)
    row = np.zeros(values.shape)
    row[:, label] = 1.0
    if len(found.row):
        entry, probability, keep = EXPECTATIONS[target](found)
        row[found.row[found.starts], label] = keep
        row[found.row[entry], found.column[entry]] = probability
    return row


def recover_posteriors(transition, order, first, relabeled):
    """Posteriors q of the original labels from posteriors q̃ of the new ones.

    For each row x, T_lj(x) = P(new label = j | x, label l) has rows that sum to one, and q̃ = T(x)'q. Since a
    label only moves to a rarer class, T is triangular once classes are put in order, and q follows by
    substitution, one class after the other. Where that solution leaves the simplex (q̃ comes from a
    classifier, not from nature) the q of the simplex with the smallest ‖T'q - q̃‖ is taken. Where a diagonal
    entry of T is below `MIN_DIAGONAL` the inverse is meaningless and the row of `first` is returned.

    Parameters
    ----------
    transition : callable (first, label) -> ndarray of shape (n_rows, n_classes)
        Row `label` of T(x) for the rows x with first-stage posteriors `first`.
    order : sequence of int
        All class indices, such that T_lj = 0 where j stands before l.
    first : ndarray of shape (n_rows, n_classes), float64
        First-stage posteriors, at which T is taken.
    relabeled : ndarray of shape (n_rows, n_classes), float64
        q̃, rows on the simplex.

    Returns
    -------
    posteriors : ndarray of shape (n_rows, n_classes), float64
        Finite, rows on the simplex up to rounding.
    saturated : ndarray of shape (n_rows,), bool
        Rows where the first-stage posterior was returned.
    """
    posteriors, diagonal = _substitute(transition, order, first, relabeled)
    saturated = diagonal < MIN_DIAGONAL
    inside = posteriors.min(axis=1) >= -_ROUNDING  # False where substitution overflowed, too
    outside = np.flatnonzero(~saturated & ~inside)
    posteriors = np.maximum(posteriors, 0.0)
    size = max(1, _BLOCK // first.shape[1] ** 2)
    for rows in (outside[start : start + size] for start in range(0, len(outside), size)):
        posteriors[rows] = _nearest(transition, first[rows], relabeled[rows])
    posteriors[saturated] = first[saturated]
    return posteriors, saturated


def _substitute(transition, order, first, relabeled):
    """Solution of the triangular system, and the smallest diagonal entry of each row's T."""
    posteriors, rest = np.zeros_like(first), relabeled.copy()
    smallest = np.ones(len(first))
    for label in order:
        row = transition(first, label)
        stays = row[:, label]
        smallest = np.minimum(smallest, stays)
        share = np.divide(rest[:, label], stays, out=np.zeros(len(first)), where=stays >= MIN_DIAGONAL)
        rest -= share[:, None] * row
        posteriors[:, label] = share
    return posteriors, smallest


def _nearest(transition, first, relabeled):
    """The q on the simplex with the smallest ‖T'q - q̃‖, for each row."""
    labels = range(first.shape[1])
    transitions = np.stack([transition(first, label) for label in labels], axis=1)
    return np.array([_nearest_row(T, target) for T, target in zip(transitions, relabeled, strict=True)])


def _nearest_row(T, target):
    # On the simplex T'q - q̃ = (T' - q̃1')q =: Bq. Minimizing ‖Bq‖² + (1'q - 1)² over q >= 0 gives a multiple
    # of the wanted point: for q = s p the best s leaves r / (1 + r) with r = ‖Bp‖², which grows with r.
    system = np.vstack([T.T - target[:, None], np.ones(len(target))])
    solution, _ = nnls(system, np.append(np.zeros(len(target)), 1.0))
    return solution / solution.sum()
