"""Many clients relabelled in one pass over all their rows: what each client's own relabeler would do.

No client sees another's rows: a client's statistics, thresholds and new labels are, to the bit, the same whatever
other clients are in the pass and in whatever order.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from sklearn.base import clone

from fedrela_sk._checks import check_classes
from fedrela_sk.relabel import _many_numpy
from fedrela_sk.relabel._draw import TARGETS
from fedrela_sk.relabel._limits import limit_changes
from fedrela_sk.relabel._normalization import NORMALIZATIONS
from fedrela_sk.relabel._priors import class_counts, prior_weights
from fedrela_sk.relabel._repetition import check_sums
from fedrela_sk.relabel._report import RelabelReport
from fedrela_sk.relabel._rho import Candidates, Statistics, Yardsticks
from fedrela_sk.relabel._threshold import THRESHOLDS
from fedrela_sk.relabel._told import Told
from fedrela_sk.relabel._zscore import EXACT


def relabel_many(
    relabeler, Q, y, codes, sizes, uniforms, random_states, weights=None, eps=None, targets=None
):
    """``fit(Q, y, sample_weight)`` and ``relabel(Q, y, uniforms)`` of many clients.

    Parameters
    ----------
    relabeler : FedReLaRelabeler
        With its `classes`. It is left as it is.
    Q : ndarray or float64 tensor of shape (n_rows, n_classes)
        Posteriors or scores, one client after the other. What touches every row and class of a tensor runs in
        torch where the tensor is (`_many_torch`); all else is the same, on the host.
    y : ndarray of shape (n_rows,)
        Labels.
    codes : ndarray of shape (n_rows,), int
        Their positions in the relabeler's classes.
    sizes : ndarray of shape (n_clients,), int >= 1
        Rows of every client.
    uniforms : callable (row, column) -> ndarray
        Uniform draws in [0, 1) of given entries of `Q`; asked once, for the entries with rho > 0.
    random_states : sequence of int
        What each client's relabeler gets as its `random_state`.
    weights : ndarray of shape (n_rows,) or None
        Sample weights, >= 0; every client has a positive one.
    eps, targets
        As in `fit_told`.

    Returns
    -------
    new : ndarray of shape (n_rows,), int64
        Positions of the new labels in the relabeler's classes.
    relabelers : list of FedReLaRelabeler
        One per client, as if it had been fitted and had relabelled by itself.

    Raises
    ------
    ValueError
        Where `fit` raises one; rows are counted over all clients.
    """
    pattern = clone(relabeler)
    pattern._validate_params()
    steps = _steps_of(Q)
    values = steps.check_rows(pattern, Q)
    told = Told(eps, targets)
    pattern.classes_ = check_classes(pattern.classes, values.shape[1])
    client = np.repeat(np.arange(len(sizes)), sizes)
    fitted = fit_many(
        values,
        codes,
        client,
        len(sizes),
        weights=weights,
        rounding=told.rounding(pattern, steps.dtype_of(Q)),
        targets=told.targets_in(pattern.classes_),
        **pattern._settings_of_fit(),
    )
    found = steps.candidates_of_groups(values, fitted.group, fitted.yardsticks)
    taken = TARGETS[pattern.target](found, uniforms(found.row, found.column) < found.rho)
    taken = taken[_within_limits(taken, codes, client, fitted.class_count.shape, pattern)]
    new = codes.astype(np.int64)
    new[taken.row] = taken.column
    threshold = fitted.threshold[client[taken.row], taken.column]
    report = pattern._report_on(y, taken, steps.rows_of(values, taken.row), threshold)
    learned = zip(fitted.of_clients(), _cut(report, sizes), random_states, strict=True)
    relabelers = [_learned(pattern, *each) for each in learned]
    return new, relabelers


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
    yardsticks : Yardsticks
        Of every group, and of those rows at last: they have no candidates.
    """

    class_count: np.ndarray
    prior_weight: np.ndarray
    threshold: np.ndarray
    cell: np.ndarray
    group: np.ndarray
    yardsticks: Yardsticks

    def of_clients(self):
        """One `Statistics` per client."""
        n_clients, n_classes = self.class_count.shape
        shape = (n_clients, n_classes, n_classes)
        mean, scale = np.full(shape, np.nan), np.zeros(shape)
        mean.reshape(-1, n_classes)[self.cell] = self.yardsticks.mean[:-1]
        scale.reshape(-1, n_classes)[self.cell] = self.yardsticks.scale[:-1]
        rule = self.yardsticks.normalization
        return [
            Statistics(*each, rule)
            for each in zip(self.class_count, self.prior_weight, mean, scale, self.threshold, strict=True)
        ]


def fit_many(
    values,
    codes,
    client,
    n_clients,
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
    """Counts, prior weights, means, spreads and thresholds of many clients.

    Parameters
    ----------
    values : ndarray or tensor of shape (n_rows, n_classes), float64
    codes, client : ndarray of shape (n_rows,), int
        Class and client of every row; clients ascend.
    n_clients : int
    tau, normalization, ddof, min_scale, threshold
        As in `FedReLaRelabeler`.
    weights : ndarray of shape (n_rows,) or None
        Repetitions, >= 0. Rows of weight 0 are left out.
    rounding, targets
        As in `fit_statistics`.

    Returns
    -------
    statistics : ManyStatistics
    """
    n_classes = values.shape[1]
    rule = NORMALIZATIONS[normalization]
    cell_of_row = client * n_classes + codes
    counts = class_counts(cell_of_row, n_clients * n_classes, weights)
    if weights is not None:
        check_sums(counts.reshape(n_clients, n_classes))
    cell = np.flatnonzero(counts)
    number = np.full(len(counts), len(cell))
    number[cell] = np.arange(len(cell))
    group = number[cell_of_row]
    counts = counts.reshape(n_clients, n_classes)
    counted = slice(None) if weights is None else weights > 0
    own_weights = None if weights is None else weights[counted]
    sizes = np.bincount(client[counted], minlength=n_clients)
    parts = _steps_of(values).parts_of(values, counted, group[counted], len(cell), sizes, own_weights)
    mean = np.full((len(cell) + 1, n_classes), np.nan)
    scale = np.zeros((len(cell) + 1, n_classes))
    t = np.full((n_clients, n_classes), 0.0 if tau > 0 and not rule.thresholded else np.inf)
    for columns, own, groups, clients in parts:
        centre, spread = rule.of_groups(own, groups, ddof, min_scale, rounding)
        mean[:-1, columns], scale[:-1, columns] = centre, spread
        if tau > 0 and rule.thresholded:
            z = groups.standardize(own, centre, spread, rule.unit)
            t[:, columns] = THRESHOLDS[threshold](clients.of(z), tau)
    if targets is not None:
        t[:, ~targets] = np.inf
    v = prior_weights(counts, targets)
    owner, label = np.divmod(cell, n_classes)
    gain, limit = np.zeros(mean.shape), np.full(mean.shape, np.inf)
    gain[:-1] = np.maximum(v[owner] - v[owner, label][:, np.newaxis], 0.0)
    limit[:-1] = t[owner]
    return ManyStatistics(counts, v, t, cell, group, Yardsticks(mean, scale, gain, limit, rule))


def _steps_of(values):
    """The module with the steps over every row and class: NumPy's, or torch's for a tensor."""
    if isinstance(values, np.ndarray):
        return _many_numpy
    from fedrela_sk.relabel import _many_torch  # relabelling itself does not need torch

    return _many_torch


def _within_limits(drawn, codes, client, shape, relabeler):
    """Which of the drawn changes are made: the limits of one client with (client, class) for its class."""
    n_clients, n_classes = shape
    cell = client * n_classes
    ours = Candidates(drawn.row, cell[drawn.row] + drawn.column, drawn.z, drawn.rho)
    return limit_changes(ours, cell + codes, n_clients * n_classes, *relabeler._limits())


def _cut(report, sizes):
    """A `RelabelReport` over all clients as one of each, in turn; rows are counted from the client's first."""
    ends = np.cumsum(sizes)
    bounds = np.searchsorted(report.row, np.append(0, ends))
    first = np.repeat(ends - sizes, np.diff(bounds))
    columns = (report.to_dict() | {"row": report.row - first}).values()
    for start, stop in pairwise(bounds.tolist()):
        yield RelabelReport(*(column[start:stop] for column in columns))


def _learned(pattern, statistics, report, random_state):
    """A fitted copy of a relabeler; its parameters are shared."""
    own = object.__new__(type(pattern))
    vars(own).update(vars(pattern), random_state=random_state)
    own._learn(statistics)._report = report
    return own
