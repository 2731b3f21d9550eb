"""rho: the probability with which a row of one class may become another, rarer class (equation 8)."""

from dataclasses import dataclass

import numpy as np

from fedrela_sk.relabel._normalization import NORMALIZATIONS, Normalization, standardize
from fedrela_sk.relabel._priors import class_counts, prior_weights, rarity_gain, rows_by_label
from fedrela_sk.relabel._threshold import thresholds


@dataclass(frozen=True)
class Statistics:
    """What a client keeps of its rows: enough to give rho for any row.

    Attributes
    ----------
    class_count, prior_weight, threshold : ndarray of shape (n_classes,)
    mean, scale : ndarray of shape (n_classes, n_classes)
        Row: own class; column: posterior. Centre is NaN and scale 0 for an absent class.
    normalization : Normalization
    """

    class_count: np.ndarray
    prior_weight: np.ndarray
    mean: np.ndarray
    scale: np.ndarray
    threshold: np.ndarray
    normalization: Normalization


@dataclass(frozen=True)
class Candidates:
    """The (row, column) pairs with rho > 0, all arrays of one length, sorted by row, rho descending, column."""

    row: np.ndarray
    column: np.ndarray
    z: np.ndarray
    rho: np.ndarray

    @property
    def starts(self):
        """Position of the first pair of every row that has any."""
        return np.flatnonzero(np.diff(self.row, prepend=-1))


def fit_statistics(values, codes, *, tau, normalization, ddof, min_scale, threshold, weights=None):
    """Counts, prior weights, means, spreads and thresholds of one client: steps 2 to 4 of the method.

    Parameters
    ----------
    values : ndarray of shape (n_rows, n_classes), float64
        Posteriors, or scores.
    codes : ndarray of shape (n_rows,), int
        Positions of the labels in the class list.
    tau, normalization, ddof, min_scale, threshold
        As in `FedReLaRelabeler`.
    weights : ndarray of shape (n_rows,) or None
        Repetitions, positive.

    Returns
    -------
    statistics : Statistics
    """
    n_classes = values.shape[1]
    rule = NORMALIZATIONS[normalization]
    mean = np.full((n_classes, n_classes), np.nan)
    scale = np.zeros((n_classes, n_classes))
    z = np.empty(values.shape)
    for label, rows in rows_by_label(codes):
        own = values[rows]
        own_weights = None if weights is None else weights[rows]
        mean[label], scale[label] = rule.statistics(own, own_weights, ddof, min_scale)
        z[rows] = standardize(own, mean[label], scale[label], rule.unit)
    if rule.thresholded:
        t = thresholds(z, tau, threshold, weights)
    else:
        t = np.full(n_classes, np.inf if tau == 0 else -np.inf)
    counts = class_counts(codes, n_classes, weights)
    return Statistics(counts, prior_weights(counts), mean, scale, t, rule)


def candidates_of_label(values, label, statistics):
    """Targets of rows that all carry one label.

    Parameters
    ----------
    values : ndarray of shape (n_rows, n_classes), float64
    label : int
        Position of the label in the class list.
    statistics : Statistics

    Returns
    -------
    candidates : Candidates
        Rows are positions in `values`.
    """
    gain = rarity_gain(statistics.prior_weight, label)
    columns = np.flatnonzero((gain > 0) & (statistics.threshold < np.inf))
    rule, t = statistics.normalization, statistics.threshold[columns]
    z = standardize(
        values[:, columns], statistics.mean[label, columns], statistics.scale[label, columns], rule.unit
    )
    row, at = np.nonzero(z > t)
    column, z = columns[at], z[row, at]
    rho = rule.strength(z, t[at]) * gain[column]
    return _sorted(row, column, z, rho)


def candidates(values, codes, statistics):
    """Targets of every row, given its own label: see `candidates_of_label`."""
    parts = []
    for label, rows in rows_by_label(codes):
        found = candidates_of_label(values[rows], label, statistics)
        parts.append((rows[found.row], found.column, found.z, found.rho))
    return _sorted(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def _sorted(row, column, z, rho):
    positive = rho > 0
    row, column, z, rho = row[positive], column[positive], z[positive], rho[positive]
    order = np.lexsort((column, -rho, row))
    return Candidates(row[order], column[order], z[order], rho[order])


def dense(found, shape):
    """rho as a matrix of rows x classes, 0 where there is no candidate."""
    rho = np.zeros(shape)
    rho[found.row, found.column] = found.rho
    return rho
