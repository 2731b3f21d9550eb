"""rho: the probability with which a row of one class may become another, rarer class (equations 7 and 8)."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fedrela_sk.relabel.formulas._normalization import Normalization, standardize
from fedrela_sk.relabel.formulas._priors import rarity_gains

# entries of a block of rows: what is held at once besides results
BLOCK = 2**18


@dataclass(frozen=True)
class Yardsticks:
    """What a value is held against, given the group of its row (row) and its column.

    A group is a class of one client, or a class of one among many clients.

    Attributes
    ----------
    mean, scale, gain, threshold : ndarray of shape (n_groups, n_columns)
        `gain` is the gain in rarity from the group's class to the column's.
    normalization : Normalization
    """

    mean: np.ndarray
    scale: np.ndarray
    gain: np.ndarray
    threshold: np.ndarray
    normalization: Normalization

    @cached_property
    def floor(self):
        """Values at or below this cannot exceed the threshold, ndarray of shape (n_groups, n_columns).

        The threshold in the units of the values, less a few units in the last place; +inf where rho is 0 for
        every value. It saves the z-scores of all but a few values.
        """
        finite = self.threshold < np.inf
        t = np.where(finite, self.threshold, 0.0)
        reach = self.scale * t
        slack = 16 * np.finfo(float).eps * (np.abs(self.mean) + np.abs(reach))
        floor = np.nextafter(self.mean + reach - slack, -np.inf)
        floor = np.where(self.scale > 0, floor, np.where(t < 0, -np.inf, np.inf))
        return np.where((self.gain > 0) & finite, floor, np.inf)


@dataclass(frozen=True)
class Statistics:
    """What a client keeps of its rows: enough to give rho for any row.

    Attributes
    ----------
    class_count, prior_weight, threshold : ndarray of shape (n_classes,)
    mean, scale : ndarray of shape (n_classes, n_classes)
        Row: own class; column: posterior. NaN and 0 for an absent class.
    normalization : Normalization
    """

    class_count: np.ndarray
    prior_weight: np.ndarray
    mean: np.ndarray
    scale: np.ndarray
    threshold: np.ndarray
    normalization: Normalization

    @cached_property
    def gain(self):
        """Gain in rarity from own class (row) to target (column), ndarray of shape (n_classes, n_classes)."""
        return rarity_gains(self.prior_weight)

    @cached_property
    def yardsticks(self):
        """`Yardsticks` with one group per class."""
        threshold = np.broadcast_to(self.threshold, self.mean.shape)
        return Yardsticks(self.mean, self.scale, self.gain, threshold, self.normalization)

    @property
    def floor(self):
        """That of the yardsticks, ndarray of shape (n_classes, n_classes)."""
        return self.yardsticks.floor


@dataclass(frozen=True)
class Candidates:
    """The pairs (row, target) with rho > 0, as arrays of one length.

    Rows ascend, and so do the targets of each row.
    """

    row: np.ndarray
    column: np.ndarray
    z: np.ndarray
    rho: np.ndarray

    def __getitem__(self, selected):
        return Candidates(self.row[selected], self.column[selected], self.z[selected], self.rho[selected])

    @cached_property
    def starts(self):
        """Position of the first pair of every row that has any, ndarray of int."""
        return np.flatnonzero(np.diff(self.row, prepend=-1))

    def best(self):
        """Position of the pair of largest rho of every row, ties to the lower class; ndarray of int."""
        lengths = np.diff(self.starts, append=len(self.row))
        largest = np.repeat(np.maximum.reduceat(self.rho, self.starts), lengths)
        largest = np.flatnonzero(self.rho == largest)
        return largest[np.diff(self.row[largest], prepend=-1) != 0]

    def dense(self, shape):
        """rho of every row and class, ndarray of shape `shape`, float64."""
        rho = np.zeros(shape)
        rho[self.row, self.column] = self.rho
        return rho


def candidates(values, codes, statistics):
    """Targets of every row, given its own label.

    Parameters
    ----------
    values : ndarray of shape (n_rows, n_classes), float64
    codes : ndarray of shape (n_rows,), int
        Positions of the labels in the class list.
    statistics : Statistics

    Returns
    -------
    found : Candidates
    """
    return candidates_of_groups(values, codes, statistics.yardsticks)


def candidates_of_groups(values, groups, yardsticks):
    """Targets of every row, given its group.

    Parameters
    ----------
    values : ndarray of shape (n_rows, n_classes), float64
    groups : ndarray of shape (n_rows,), int
    yardsticks : Yardsticks

    Returns
    -------
    found : Candidates
    """
    step = max(1, BLOCK // values.shape[1])
    parts = []
    for start in range(0, len(values), step):
        found = _candidates(values[start : start + step], groups[start : start + step], yardsticks)
        parts.append((found.row + start, found.column, found.z, found.rho))
    return Candidates(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


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
    found : Candidates
    """
    return _candidates(values, label, statistics.yardsticks)


def _candidates(values, groups, yardsticks):
    """The same, `groups` being one for all rows or one for each; memory is that of a few `values`."""
    row, column = np.divmod(np.flatnonzero(values > yardsticks.floor[groups]), values.shape[1])
    group = groups if np.isscalar(groups) else groups[row]
    return candidates_among(values[row, column], row, column, group, yardsticks)


def candidates_among(values, row, column, group, yardsticks):
    """Those of given pairs (row, target) whose rho is positive.

    Parameters
    ----------
    values : ndarray of shape (n_pairs,), float64
    row, column : ndarray of shape (n_pairs,), int
        Rows ascend, and so do the targets of each row.
    group : int or ndarray of shape (n_pairs,), int
        Of the row.
    yardsticks : Yardsticks

    Returns
    -------
    found : Candidates
    """
    rule, t = yardsticks.normalization, yardsticks.threshold[group, column]
    z = standardize(values, yardsticks.mean[group, column], yardsticks.scale[group, column], rule.unit)
    rho = np.zeros(len(z))
    above = z > t
    rho[above] = rule.strength(z[above], t[above]) * yardsticks.gain[group, column][above]
    return Candidates(row, column, z, rho)[rho > 0]
