"""The steps of the pass over many clients that touch every row and class, in NumPy: a few columns at a time.

A group's or client's numbers come only from its own rows, added up in their order, so they are the same bits
whatever other groups there are and however many columns are taken at once.
"""

import numpy as np

from fedrela_sk.relabel.formulas._rho import candidates_of_groups
from fedrela_sk.relabel.formulas._threshold import ROUNDING

__all__ = ["Clients", "Groups", "candidates_of_groups", "check_rows", "dtype_of", "parts_of", "rows_of"]

# entries worked on at once; their number changes no result
ENTRIES = 2**16

PAIR = np.array([0, 1])


def check_rows(relabeler, Q):
    """The values that are compared, as the relabeler checks and makes them; it learns its columns."""
    return relabeler._check_rows(Q, reset=True)


def dtype_of(Q):
    """The dtype that rows came in, NumPy's."""
    return Q.dtype


def parts_of(values, rows, groups, clients):
    """The values that statistics are made of, some columns at a time.

    Parameters
    ----------
    values : ndarray of shape (n_rows, n_columns), float64
    rows : ndarray of int
        Those that count, one group after the other.
    groups : Groups
        Of those rows.
    clients : Clients
        Of those rows.

    Yields
    ------
    columns : slice
    own : ndarray
        Those columns of the rows.
    groups : Groups
    clients : Clients
    """
    step = max(1, ENTRIES // len(rows))
    for start in range(0, values.shape[1], step):
        columns = slice(start, start + step)
        yield columns, values[:, columns][rows], groups, clients


def rows_of(values, rows):
    """Some rows, as an ndarray."""
    return values[rows]


class Groups:
    """Rows that are compared with each other: sums, ranges and z-scores of many groups and columns.

    Parameters
    ----------
    of_row : ndarray of shape (n_rows,), int
        Group of every row, ascending.
    total : ndarray of shape (n_groups, 1), float64
        Rows, or summed weights, of every group; each has a row.
    weights : ndarray of shape (n_rows,) or None
        Repetitions, positive; None means one each.
    """

    def __init__(self, of_row, total, weights=None):
        self.of_row = of_row
        self.total = total
        self.n_groups = len(total)
        self.weights = weights
        self._starts = np.searchsorted(of_row, np.arange(len(total)))
        self._cells = {}

    def sum(self, values):
        """Weighted sum of every group, ndarray of shape (n_groups, n_columns)."""
        n_columns = values.shape[1]
        values = values if self.weights is None else self.weights[:, np.newaxis] * values
        size = self.n_groups * n_columns
        return np.bincount(self._cells_of(n_columns), values.ravel(), size).reshape(-1, n_columns)

    def range(self, values):
        """Smallest and largest value of every group."""
        return np.minimum.reduceat(values, self._starts), np.maximum.reduceat(values, self._starts)

    def deviations(self, values, center):
        """Values less the center of their group."""
        return values - self._per_row(center)

    def standardize(self, values, center, scale, unit):
        """z-scores: 0 where the scale is 0, cut to [0, 1] where they are shares."""
        flat = scale == 0
        z = self.deviations(values, center)
        z /= self._per_row(np.where(flat, 1.0, scale))
        if flat.any():
            z[self._per_row(flat)] = 0.0
        return np.clip(z, 0.0, 1.0, out=z) if unit else z

    def stretch(self, values, base, power):
        """``(values - base) / 2**power`` with the base and the power of every group and column."""
        return np.ldexp(values - base.take(self.of_row, axis=0), -power.take(self.of_row, axis=0))

    def _per_row(self, numbers):
        return numbers.take(self.of_row, axis=0)

    def _cells_of(self, n_columns):
        """Where the sum of every entry is: its group and column as one number."""
        if n_columns not in self._cells:
            cells = self.of_row[:, np.newaxis] * n_columns + np.arange(n_columns)
            self._cells[n_columns] = cells.ravel()
        return self._cells[n_columns]


class Clients:
    """Rows of many clients, one client after the other: their order statistics.

    Clients of about one size are sorted together, as lines of one of `blocks_of`.

    Parameters
    ----------
    sizes : ndarray of shape (n_clients,), int >= 1
        Rows of every client.
    total : ndarray of shape (n_clients, 1), float64
        Rows, or summed weights, of every client.
    weights : ndarray of shape (n_rows,) or None
        Repetitions, positive.
    """

    def __init__(self, sizes, total, weights=None):
        self.sizes = sizes
        self.total = total
        self.weights = None if weights is None else np.append(weights, 0.0)
        self.blocks = (
            blocks_of(sizes) if len(sizes) > 1 else [(np.array([0]), np.arange(sizes[0])[np.newaxis])]
        )

    def pair_at(self, z, k):
        """Positions k and k + 1 of every client's ascending values, the last one repeated.

        Parameters
        ----------
        z : ndarray of shape (n_rows, n_columns)
        k : ndarray of shape (n_clients, 1), int

        Returns
        -------
        pair : ndarray of shape (2, n_clients, n_columns)
        """
        pair = np.empty((2, len(self.sizes), z.shape[1]))
        columns = np.empty((z.shape[1], len(z) + 1))
        columns[:, :-1], columns[:, -1] = z.T, np.inf  # the last entry fills up lines
        for clients, rows in self.blocks:
            lines, at = self._ascending(columns[:, rows], rows, k[clients] + PAIR)
            at = np.minimum(at, self.sizes[clients, np.newaxis] - 1)
            column, line = np.arange(len(lines)), np.arange(len(clients))
            pair[:, clients] = lines[column[:, np.newaxis, np.newaxis], line[:, np.newaxis], at].T
        return pair

    def _ascending(self, lines, rows, positions):
        """Sorted lines, (n_columns, n_clients, width), and the places in them of positions, (n_clients, 2).

        With weights a row holds as many positions as it is repeated.
        """
        order = None if self.weights is None else np.argsort(lines, axis=-1)
        lines.sort(axis=-1)
        if order is None:
            return lines, positions[np.newaxis]
        own = self.weights[rows][np.arange(len(rows))[:, np.newaxis], order]
        reached = np.cumsum(own, axis=-1)[..., np.newaxis, :]
        return lines, np.count_nonzero(reached <= positions[..., np.newaxis] + ROUNDING, axis=-1)


def blocks_of(sizes):
    """Consecutive runs of rows as lines of blocks, whose width is the next power of two.

    A line's width depends only on its run, and all blocks hold at most twice as many positions as there are rows.

    Parameters
    ----------
    sizes : ndarray of shape (n_runs,), int >= 1

    Returns
    -------
    blocks : list of (ndarray of shape (n_lines,), ndarray of shape (n_lines, width)), int
        Which runs, and positions of their rows; those beyond a run's rows are the position after the last row.
    """
    starts, blocks = np.cumsum(sizes) - sizes, []
    power = np.frexp(sizes - 1)[1]
    for exponent in sorted(set(power.tolist())):
        runs = np.flatnonzero(power == exponent)
        place, size = np.arange(2**exponent), sizes[runs, np.newaxis]
        blocks.append((runs, np.where(place < size, starts[runs, np.newaxis] + place, sizes.sum())))
    return blocks
