"""One pass over the rows of many clients: statistics and new labels as each client's own relabeler makes them.

No client sees another's rows: a client's statistics, thresholds and new labels are, to the bit, the same whatever
other clients are in the pass and in whatever order. A single client is a pass over one.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from sklearn.base import clone

from fedrela_sk._checks import check_classes
from fedrela_sk.relabel._contract import NOTHING
from fedrela_sk.relabel._report import RelabelReport
from fedrela_sk.relabel.formulas._draw import draw, limit_changes
from fedrela_sk.relabel.formulas._normalization import EXACT, NORMALIZATIONS, Normalization
from fedrela_sk.relabel.formulas._priors import class_counts, prior_weights
from fedrela_sk.relabel.formulas._repetition import check_sums
from fedrela_sk.relabel.formulas._rho import Candidates, Statistics, Yardsticks
from fedrela_sk.relabel.formulas._threshold import THRESHOLDS
from fedrela_sk.relabel.many import _numpy


@dataclass(frozen=True)
class ManyRows:
    """Labeled rows of many clients, one client after the other.

    Attributes
    ----------
    Q : ndarray or float64 tensor of shape (n_rows, n_classes)
        Posteriors or scores. What touches every row and class of a tensor runs in torch where the tensor is
        (`_torch`); all else is the same, on the host.
    y : ndarray of shape (n_rows,)
        Labels.
    codes : ndarray of shape (n_rows,), int
        Their positions in the relabeler's classes.
    sizes : ndarray of shape (n_clients,), int >= 1
        Rows of every client.
    weights : ndarray of shape (n_rows,) or None
        Sample weights, >= 0; every client has a positive one.
    """

    Q: object
    y: np.ndarray
    codes: np.ndarray
    sizes: np.ndarray
    weights: np.ndarray | None = None

    @cached_property
    def client(self):
        """Client of every row, counted from 0."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)


def relabel_many(relabeler, rows, uniforms, random_states, told=NOTHING):
    """``fit(Q, y, sample_weight)`` and ``relabel(Q, y, uniforms)`` of many clients.

    Parameters
    ----------
    relabeler : FedReLaRelabeler
        With its `classes`. It is left as it is.
    rows : ManyRows
    uniforms : callable (row, column) -> ndarray
        Uniform draws in [0, 1) of given entries of `Q`; asked once, for the entries with rho > 0.
    random_states : sequence of int
        What each client's relabeler gets as its `random_state`.
    told : Told

    Returns
    -------
    new : ndarray of shape (n_rows,), int64
        Positions of the new labels in the relabeler's classes.
    relabelers : list of FedReLaRelabeler
        One per client, as if it had been fitted and had relabeled by itself.

    Raises
    ------
    ValueError
        Where `fit` raises one; rows are counted over all clients.
    """
    pattern = clone(relabeler)
    pattern._validate_params()
    steps = _steps_of(rows.Q)
    values = steps.check_rows(pattern, rows.Q)
    pattern.classes_ = check_classes(pattern.classes, values.shape[1])
    fitted = fit_many(
        values,
        rows.codes,
        rows.sizes,
        weights=rows.weights,
        rounding=told.rounding(pattern, steps.dtype_of(rows.Q)),
        targets=told.targets_in(pattern.classes_),
        **pattern._settings_of_fit(),
    )
    found = steps.candidates_of_groups(values, fitted.group, fitted.yardsticks)
    taken = draw(found, uniforms, pattern.target)
    taken = taken[_within_limits(taken, rows, fitted.class_count.shape, pattern)]
    new = rows.codes.astype(np.int64)
    new[taken.row] = taken.column
    threshold = fitted.threshold[rows.client[taken.row], taken.column]
    report = pattern._report_on(rows.y, taken, steps.rows_of(values, taken.row), threshold)
    learned = zip(fitted.of_clients(), _cut(report, rows.sizes), random_states, strict=True)
    return new, [_learned(pattern, *each) for each in learned]


@dataclass(frozen=True)
class ManyStatistics:
    """`Statistics` of many clients. A group is a class that a client has.

    Attributes
    ----------
    class_count, prior_weight, threshold : ndarray of shape (n_clients, n_classes)
    cell : ndarray of shape (n_groups,), int
        Client times n_classes plus class of every group.
    group : ndarray of shape (n_rows,), int
        Of every row; n_groups for rows of weight 0 whose class has no other rows at this client.
    mean, scale : ndarray of shape (n_groups + 1, n_classes)
        Of every group and column; NaN and 0 at last, for those rows.
    normalization : Normalization
    """

    class_count: np.ndarray
    prior_weight: np.ndarray
    threshold: np.ndarray
    cell: np.ndarray
    group: np.ndarray
    mean: np.ndarray
    scale: np.ndarray
    normalization: Normalization

    @property
    def yardsticks(self):
        """`Yardsticks` of every group, and of those rows at last: they have no candidates."""
        owner, label = np.divmod(self.cell, self.mean.shape[1])
        gain, limit = np.zeros(self.mean.shape), np.full(self.mean.shape, np.inf)
        v = self.prior_weight
        gain[:-1] = np.maximum(v[owner] - v[owner, label][:, np.newaxis], 0.0)
        limit[:-1] = self.threshold[owner]
        return Yardsticks(self.mean, self.scale, gain, limit, self.normalization)

    def of_clients(self):
        """One `Statistics` per client."""
        n_clients, n_classes = self.class_count.shape
        shape = (n_clients, n_classes, n_classes)
        mean, scale = np.full(shape, np.nan), np.zeros(shape)
        mean.reshape(-1, n_classes)[self.cell] = self.mean[:-1]
        scale.reshape(-1, n_classes)[self.cell] = self.scale[:-1]
        numbers = zip(self.class_count, self.prior_weight, mean, scale, self.threshold, strict=True)
        return [Statistics(*each, self.normalization) for each in numbers]


def fit_one(values, codes, **settings):
    """`Statistics` of one client; `settings` are those of `fit_many`."""
    return fit_many(values, codes, np.array([len(codes)]), **settings).of_clients()[0]


def fit_many(
    values,
    codes,
    sizes,
    *,
    tau,
    normalization,
    ddof,
    min_scale,
    threshold,
    weights=None,
    rounding=EXACT,
    targets=None,
):
    """Counts, prior weights, means, spreads and thresholds of many clients: steps 2 to 4 of Algorithm 1.

    Parameters
    ----------
    values : ndarray or tensor of shape (n_rows, n_classes), float64
        Posteriors, or scores, one client after the other.
    codes : ndarray of shape (n_rows,), int
        Positions of the labels in the class list.
    sizes : ndarray of shape (n_clients,), int >= 1
        Rows of every client.
    tau, normalization, ddof, min_scale, threshold
        As in `FedReLaRelabeler`.
    weights : ndarray of shape (n_rows,) or None
        Repetitions, >= 0. Rows of weight 0 are left out.
    rounding : Rounding
        How far apart equal values of a class may be.
    targets : ndarray of shape (n_classes,), bool, or None
        Classes that rows may be relabeled into; None means all. The others are treated as if they were not
        there: no row has them, they are no target, and no other class is less rare because of them.

    Returns
    -------
    statistics : ManyStatistics
    """
    n_classes, rule = values.shape[1], NORMALIZATIONS[normalization]
    classes = _ClassesOfClients(codes, sizes, n_classes, weights)
    mean, scale = np.zeros((2, len(classes.cell) + 1, n_classes))
    mean[-1] = np.nan
    t = np.zeros((len(sizes), n_classes))
    t += 0.0 if tau > 0 else np.inf
    for columns, own, groups, clients in classes.parts_of(values):
        center, spread = rule.statistics(own, groups, ddof, min_scale, rounding)
        mean[:-1, columns], scale[:-1, columns] = center, spread
        if tau > 0 and rule.thresholded:
            z = groups.standardize(own, center, spread, rule.unit)
            t[:, columns] = THRESHOLDS[threshold](clients, z, tau)
    if targets is not None:
        t[:, ~targets] = np.inf
    v = prior_weights(classes.count, targets)
    return ManyStatistics(classes.count, v, t, classes.cell, classes.group, mean, scale, rule)


class _ClassesOfClients:
    """The classes that clients have, each of which is a group of rows; parameters are those of `fit_many`."""

    def __init__(self, codes, sizes, n_classes, weights):
        self._weights = weights
        self._client = np.repeat(np.arange(len(sizes)), sizes)
        cell_of_row = self._client * n_classes + codes
        count = class_counts(cell_of_row, len(sizes) * n_classes, weights)
        self.cell = count.nonzero()[0]
        number = np.full(len(count), len(self.cell))
        number[self.cell] = np.arange(len(self.cell))
        self.group = number[cell_of_row]
        self.count = count.reshape(len(sizes), n_classes)
        if weights is not None:
            check_sums(self.count)

    def parts_of(self, values):
        """As `parts_of` in `_numpy`, of the rows that count."""
        short = self.group.astype(np.min_scalar_type(len(self.cell)))  # sorts faster
        rows, weights = np.argsort(short, kind="stable"), self._weights
        if weights is not None:
            rows = rows[weights[rows] > 0]
            weights = weights[rows]
        total = self.count.reshape(-1, 1)[self.cell]
        of_clients = class_counts(self._client, len(self.count), self._weights)[:, np.newaxis]
        groups = _numpy.Groups(self.group[rows], total, weights)
        clients = _numpy.Clients(np.bincount(self._client[rows]), of_clients, weights)
        return _steps_of(values).parts_of(values, rows, groups, clients)


def _steps_of(values):
    """The module with the steps over every row and class: NumPy's, or torch's for a tensor."""
    if isinstance(values, np.ndarray):
        return _numpy
    from fedrela_sk.relabel.many import _torch  # relabeling itself does not need torch

    return _torch


def _within_limits(drawn, rows, shape, relabeler):
    """Which of the drawn changes are made: the limits of one client with (client, class) for its class."""
    n_clients, n_classes = shape
    cell = rows.client * n_classes
    ours = Candidates(drawn.row, cell[drawn.row] + drawn.column, drawn.z, drawn.rho)
    return limit_changes(ours, cell + rows.codes, n_clients * n_classes, *relabeler._limits())


def _cut(report, sizes):
    """A `RelabelReport` over all clients as one of each, in turn; rows are counted from the client's first."""
    ends = np.cumsum(sizes)
    bounds = np.searchsorted(report.row, np.append(0, ends))
    first = np.repeat(ends - sizes, np.diff(bounds))
    columns = {name: column for name, column in vars(report).items() if column is not None}
    columns["row"] = report.row - first
    for start, stop in pairwise(bounds.tolist()):
        yield RelabelReport(**{name: column[start:stop] for name, column in columns.items()})


def _learned(pattern, statistics, report, random_state):
    """A fitted copy of a relabeler; its parameters are shared."""
    own = object.__new__(type(pattern))
    vars(own).update(vars(pattern), random_state=random_state)
    own._learn(statistics)._report = report
    return own
