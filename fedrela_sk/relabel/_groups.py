"""Means, spreads and ranges of many groups of rows at once: one column of values, one group per row.

A group's numbers come from its own rows alone, added up in their order, so they are the same bits whatever other
groups there are. Where rows have no weights they are also the bits of `_zscore` and `_normalization`, which take
one group and all its columns.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fedrela_sk.relabel._priors import class_counts
from fedrela_sk.relabel._zscore import EXACT, TINY_RANGE, standardize


@dataclass(frozen=True)
class Groups:
    """Which group every row belongs to.

    Attributes
    ----------
    of_row : ndarray of shape (n_rows,), int
    n_groups : int
        Each of them has a row.
    weights : ndarray of shape (n_rows,) or None
        Repetitions, positive; None means one each.
    """

    of_row: np.ndarray
    n_groups: int
    weights: np.ndarray | None = None

    @cached_property
    def total(self):
        """Rows, or summed weights, of every group; float64."""
        return class_counts(self.of_row, self.n_groups, self.weights)

    def sum(self, values):
        """Weighted sum of every group."""
        values = values if self.weights is None else self.weights * values
        return np.bincount(self.of_row, values, self.n_groups)

    def range(self, values):
        """Smallest and largest value of every group."""
        low, high = np.full(self.n_groups, np.inf), np.full(self.n_groups, -np.inf)
        np.minimum.at(low, self.of_row, values)
        np.maximum.at(high, self.of_row, values)
        return low, high

    def moments(self, values, ddof):
        """Mean and standard deviation of every group, the latter 0 where no more than `ddof` rows are there."""
        total = self.total
        mean = self.sum(values) / total
        deviations = self.deviations(values, mean)
        first, second = self.sum(deviations), self.sum(deviations * deviations)
        mean = mean + first / total  # `first` is what rounding left of it
        known = total > ddof
        variance = np.maximum(second - first**2 / total, 0.0) / np.where(known, total - ddof, 1.0)
        return mean, np.where(known, np.sqrt(variance), 0.0)

    def deviations(self, values, centre):
        """Values less the centre of their group."""
        return values - centre[self.of_row]

    def standardize(self, values, centre, scale, unit):
        """`standardize` with the centre and the scale of every row's group."""
        return standardize(values, centre[self.of_row], scale[self.of_row], unit)

    def tiny_moments(self, values, ddof, tiny, low, reach):
        """`moments` of the groups of a mask, which are stretched by exact powers of two first."""
        part, rows = self.part(tiny)
        power = np.frexp(reach[tiny])[1]
        stretched = np.ldexp(values[rows] - low[tiny][part.of_row], -power[part.of_row])
        mean, std = part.moments(stretched, ddof)
        return low[tiny] + np.ldexp(mean, power), np.ldexp(std, power)

    def part(self, chosen):
        """Only the groups of a mask, renumbered, and the mask of their rows."""
        rows = chosen[self.of_row]
        number = np.cumsum(chosen) - 1
        weights = None if self.weights is None else self.weights[rows]
        return Groups(number[self.of_row[rows]], np.count_nonzero(chosen), weights), rows


def group_mean_and_std(values, groups, ddof, min_scale, rounding=EXACT):
    """Mean and standard deviation of every group: `mean_and_std` of one column.

    Parameters
    ----------
    values : ndarray of shape (n_rows,)
    groups : Groups
    ddof, min_scale, rounding
        As in `mean_and_std`.

    Returns
    -------
    mean, scale : ndarray of shape (n_groups,)
        The scale is exactly 0 where all values are equal.
    """
    low, high = groups.range(values)
    reach = rounding.reach(low, high)
    mean, std = groups.moments(values, ddof)
    tiny = (reach > 0) & (reach < TINY_RANGE)
    if tiny.any():
        mean[tiny], std[tiny] = groups.tiny_moments(values, ddof, tiny, low, reach)
    spread = (reach > 0) & (std > 0)
    return mean, np.where(spread, np.maximum(std, min_scale), 0.0)


def group_lowest_and_range(values, groups, ddof, min_scale, rounding=EXACT):
    """Smallest value and range of every group: `lowest_and_range` of one column."""
    low, high = groups.range(values)
    reach = rounding.reach(low, high)
    return low, np.where(reach > 0, np.maximum(reach, min_scale), 0.0)


def group_zero_and_one(values, groups, ddof, min_scale, rounding=EXACT):
    """Centre 0 and scale 1 of every group."""
    return np.zeros_like(groups.total), np.ones_like(groups.total)
