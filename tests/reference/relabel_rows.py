"""The relabeling step written row by row in plain Python, to be read beside the paper and compared with ours.

Nothing here is shared with the package: sums are `math.fsum`, weights are rows repeated, order statistics come
from sorted lists, and the expectation adds up every pattern of successes and failures.
"""

import math
from fractions import Fraction
from itertools import product

CAP = 1 - 1e-6


class RowByRow:
    """Fit on rows (lists of floats) and labels (0..n_classes-1); ask for one row at a time."""

    def __init__(
        self,
        rows,
        labels,
        n_classes,
        *,
        tau,
        normalization="zscore_tanh",
        ddof=1,
        min_scale=0.0,
        threshold="quantile",
        target="argmax",
        repeats=None,
        eps=2.0**-52,
        scores=False,
        targets=None,
    ):
        repeats = [1] * len(rows) if repeats is None else repeats
        rows = [row for row, times in zip(rows, repeats, strict=True) for _ in range(times)]
        labels = [label for label, times in zip(labels, repeats, strict=True) for _ in range(times)]
        self.rows, self.labels, self.classes = rows, labels, range(n_classes)
        self.tau, self.normalization, self.ddof, self.min_scale = tau, normalization, ddof, min_scale
        self.target, self.eps, self.scores = target, eps, scores
        self.targets = set(self.classes) if targets is None else set(targets)
        self.counts = [labels.count(label) for label in self.classes]
        self.v = self._prior_weights()
        find = {"quantile": self._quantile, "order_statistic": self._order_statistic}[threshold]
        self.t = [self._threshold(column, find) for column in self.classes]

    def _prior_weights(self):
        there = [self.counts[label] for label in self.targets]
        low, high = min(there), max(there)
        return [
            1.0 if low == high or label not in self.targets else 1 - (count - low) / (high - low)
            for label, count in enumerate(self.counts)
        ]

    def equal(self, own):
        """Whether values of one class differ by no more than rounding."""
        low, high = min(own), max(own)
        if self.scores:
            return high - low <= 32 * self.eps * max(abs(low), abs(high))
        return high <= 0 or high - low <= 32 * self.eps * (1 + abs(math.log(high))) * high

    def z(self, row, label, column):
        """The value of one row in one column, compared with the fitted rows of one label."""
        value = row[column]
        own = [other[column] for other, name in zip(self.rows, self.labels, strict=True) if name == label]
        if self.normalization == "none":
            return value
        if not own or self.equal(own):
            return 0.0
        if self.normalization == "minmax":
            share = (value - min(own)) / max(max(own) - min(own), self.min_scale)
            return min(max(share, 0.0), 1.0)
        if len(own) <= self.ddof:
            return 0.0
        mean = math.fsum(own) / len(own)
        variance = math.fsum((other - mean) ** 2 for other in own) / (len(own) - self.ddof)
        return (value - mean) / max(math.sqrt(variance), self.min_scale)

    def _threshold(self, column, find):
        if self.tau == 0 or column not in self.targets:
            return math.inf
        if self.normalization == "none":
            return -math.inf
        pairs = zip(self.rows, self.labels, strict=True)
        return find(sorted(self.z(row, label, column) for row, label in pairs))

    def _quantile(self, ascending):
        position = (len(ascending) - 1) * (1 - Fraction(str(self.tau)))
        lower = math.floor(position)
        upper = min(lower + 1, len(ascending) - 1)
        return ascending[lower] + float(position - lower) * (ascending[upper] - ascending[lower])

    def _order_statistic(self, ascending):
        n = len(ascending)
        m = min(max(math.floor(Fraction(str(self.tau)) * n), 0), n - 1)
        return math.inf if m == 0 else ascending[::-1][m]

    def rho(self, row, label):
        """rho of one row towards every class, given its label."""
        rho = []
        for target in self.classes:
            gain = max(self.v[target] - self.v[label], 0.0)
            z = self.z(row, label, target)
            if gain == 0 or not z > self.t[target]:
                rho.append(0.0)
            elif self.normalization == "zscore_tanh":
                rho.append(math.tanh(z - self.t[target]) * gain)
            else:
                rho.append(min(max(z, 0.0), 1.0) * gain)
        return rho

    def chosen(self, rho, successes, label):
        """The new label, given which draws succeeded."""
        if not any(successes):
            return label
        allowed = successes if self.target == "argmax_of_successes" else [True] * len(rho)
        best = max(value for value, may in zip(rho, allowed, strict=True) if may)
        return next(c for c in self.classes if allowed[c] and rho[c] == best)

    def draw(self, row, label, uniforms):
        """The new label of one row, given one uniform per class."""
        rho = self.rho(row, label)
        return self.chosen(rho, [u < r for u, r in zip(uniforms, rho, strict=True)], label)

    def transition(self, row, label):
        """P(new label = j | row, label) for every j, by adding up all patterns of successes."""
        rho = self.rho(row, label)
        capped = [min(value, CAP) for value in rho]
        probabilities = [0.0 for _ in self.classes]
        for successes in product([False, True], repeat=len(rho)):
            weight = math.prod(r if won else 1 - r for r, won in zip(capped, successes, strict=True))
            if weight > 0:
                probabilities[self.chosen(rho, successes, label)] += weight
        return probabilities

    def expected(self, row, posterior=None):
        """The posterior of the new label of a row whose label is not known."""
        posterior = row if posterior is None else posterior
        transitions = [self.transition(row, label) for label in self.classes]
        return [
            math.fsum(posterior[label] * transitions[label][j] for label in self.classes)
            for j in self.classes
        ]
