"""The steps of the pass over many clients that touch every row and class, in torch: on the device of a tensor.

They are those of `_numpy`. What leaves the device is one number per group or client and
column, the entries above the floor of the thresholds, and the rows that change. Rows are checked on the device;
where one seems wrong, and where there is one column only, the host checks and names the row.

Sums are made of halves of padded lines, one line per group, by additions of whole tensors. So they are the same
bits on any device, run for run, and whatever other groups there are; NumPy adds one row after the other, so its
means, spreads and thresholds may differ by rounding. Memory is that of the rows and about a dozen times that of
`ENTRIES` numbers, or of one column if that is more.
"""

from functools import cached_property

import numpy as np
import torch

from fedrela_sk._checks import LARGEST_SCORE, SUM_TOLERANCE_FLOAT64
from fedrela_sk.relabel.formulas._rho import candidates_among
from fedrela_sk.relabel.formulas._threshold import ROUNDING
from fedrela_sk.relabel.many._numpy import Groups, blocks_of

# entries worked on at once; their number changes no result
ENTRIES = 2**25


def check_rows(relabeler, Q):
    """The values that are compared, a tensor on the device of `Q`; errors are those of the relabeler."""
    if Q.shape[1] == 1 or not IN_ORDER[relabeler.input](Q):
        return torch.from_numpy(relabeler._check_rows(Q.cpu().numpy(), reset=True)).to(Q.device)
    relabeler._check_rows(Q[:1].cpu().numpy(), reset=True)  # it learns its columns
    return torch.softmax(Q, dim=1) if relabeler._compares_softmax() else Q


def dtype_of(Q):
    """The dtype that rows came in, NumPy's."""
    return Q.new_empty(0).cpu().numpy().dtype


def parts_of(values, rows, groups, clients):
    """As in `_numpy`, of a tensor."""
    rows = _on(values.device, rows)
    groups = TensorGroups(groups.of_row, groups.total, groups.weights, values.device)
    clients = TensorClients(clients, values.device)
    step = max(1, ENTRIES // len(rows))
    for start in range(0, values.shape[1], step):
        columns = slice(start, start + step)
        yield columns, values[:, columns][rows], groups, clients


def candidates_of_groups(values, groups, yardsticks):
    """As in `_rho`, of a tensor: entries above their floor are found on its device, and judged on the host."""
    floor, of_row = _on(values.device, yardsticks.floor), _on(values.device, groups)
    step = max(1, ENTRIES // values.shape[1])
    parts = []
    for start in range(0, len(values), step):
        own = values[start : start + step]
        row, column = torch.nonzero(own > floor[of_row[start : start + step]], as_tuple=True)
        parts.append([part.cpu().numpy() for part in (own[row, column], row + start, column)])
    entries, row, column = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return candidates_among(entries, row, column, groups[row], yardsticks)


def rows_of(values, rows):
    """Some rows, as an ndarray."""
    return values[_on(values.device, rows)].cpu().numpy()


class TensorGroups(Groups):
    """Groups of the rows of a tensor. What is per group is an ndarray on the host.

    Parameters
    ----------
    of_row, total, weights
        As in `Groups`.
    device : torch.device
    """

    def __init__(self, of_row, total, weights, device):
        super().__init__(of_row, total, weights)
        self.device = device

    def sum(self, values):
        """Weighted sum of every group."""
        if self.weights is not None:
            values = _on(self.device, self.weights)[:, None] * values
        return self._of_lines(values, 0.0, _sum_of_lines)

    def range(self, values):
        """Smallest and largest value of every group."""
        low = self._of_lines(values, np.inf, lambda lines: lines.amin(dim=1))
        return low, self._of_lines(values, -np.inf, lambda lines: lines.amax(dim=1))

    def deviations(self, values, center):
        """Values less the center of their group, a tensor."""
        return values - self._per_row(center)

    def standardize(self, values, center, scale, unit):
        """z-scores, a tensor: 0 where the scale is 0, cut to [0, 1] where they are shares."""
        flat = scale == 0
        z = self.deviations(values, center)
        z /= self._per_row(np.where(flat, 1.0, scale))
        z.masked_fill_(self._per_row(flat), 0.0)
        return z.clamp_(0.0, 1.0) if unit else z

    def stretch(self, values, base, power):
        """``(values - base) / 2**power``, a tensor: made on the host, since torch's powers of two overflow."""
        return _on(self.device, super().stretch(values.cpu().numpy(), base, power))

    @cached_property
    def _number(self):
        return _on(self.device, self.of_row)

    @cached_property
    def _blocks(self):
        return _blocks_on(self.device, blocks_of(np.bincount(self.of_row, minlength=self.n_groups)))

    def _per_row(self, numbers):
        return _on(self.device, numbers)[self._number]

    def _of_lines(self, values, filler, reduce):
        """What `reduce` makes of the line of every group, whose end is filled up."""
        result = np.empty((self.n_groups, values.shape[1]))
        values = _with_last(values, filler)
        for groups, rows in self._blocks:
            result[groups] = reduce(values[rows]).cpu().numpy()
        return result


class TensorClients:
    """Clients of the rows of a tensor: what `Clients` does, on the device of the tensor.

    Parameters
    ----------
    clients : Clients
    device : torch.device
    """

    def __init__(self, clients, device):
        self.total = clients.total
        self.device = device
        self._sizes = clients.sizes
        self._blocks = _blocks_on(device, clients.blocks)
        self._weights = None if clients.weights is None else _on(device, clients.weights)

    def pair_at(self, z, k):
        """As in `Clients`, of a tensor; the pairs are an ndarray."""
        pair = np.empty((2, len(self._sizes), z.shape[1]))
        z = _with_last(z, np.inf)
        for clients, rows in self._blocks:
            ascending, order = torch.sort(z[rows], dim=1)
            at = [_on(self.device, k[clients] + place) for place in (0, 1)]
            if self._weights is not None:
                own = self._weights[rows][:, :, None].take_along_dim(order, dim=1)
                reached = _running_sum(own)
                at = [(reached <= place[:, None] + ROUNDING).sum(dim=1) for place in at]
            last = _on(self.device, self._sizes[clients, np.newaxis] - 1)
            for half, place in zip(pair, at, strict=True):
                taken = ascending.take_along_dim(torch.minimum(place, last)[:, None], dim=1)
                half[clients] = taken[:, 0].cpu().numpy()
        return pair


def _are_posteriors(Q):
    near_one = (Q.sum(dim=1) - 1.0).abs() <= SUM_TOLERANCE_FLOAT64
    inside = (Q >= -SUM_TOLERANCE_FLOAT64) & (Q <= 1.0 + SUM_TOLERANCE_FLOAT64)
    return bool(near_one.all() & inside.all())  # False for NaN


def _are_scores(Q):
    return bool((Q.abs() <= LARGEST_SCORE).all())


IN_ORDER = {"posterior": _are_posteriors, "score": _are_scores}


def _on(device, array):
    return torch.from_numpy(array).to(device)


def _blocks_on(device, blocks):
    return [(runs, _on(device, rows)) for runs, rows in blocks]


def _with_last(values, filler):
    """One more row, which fills up lines."""
    return torch.cat([values, values.new_full((1, values.shape[1]), filler)])


def _sum_of_lines(lines):
    """Sums over a width that is a power of two."""
    while lines.shape[1] > 1:
        half = lines.shape[1] // 2
        lines = lines[:, :half] + lines[:, half:]
    return lines[:, 0]


def _running_sum(lines):
    """Sums of the first k, for every k; torch's own is not the same for every run on a GPU."""
    step = 1
    while step < lines.shape[1]:
        lines = torch.cat([lines[:, :step], lines[:, step:] + lines[:, :-step]], dim=1)
        step *= 2
    return lines
