"""The posterior of the new label in closed form: what relabelling does to a classifier, without drawing.

With ``T_l[j] = P(new label = j | label l)`` under the draw rule, the posterior of the new label is
``sum_l q_l T_l[j]`` (the paper's section 3.2 for any number of classes). The diagonal of T takes what is left.
"""

import numpy as np

from fedrela_sk.relabel._normalization import standardize
from fedrela_sk.relabel._priors import rarity_gain
from fedrela_sk.relabel._rho import candidates_of_label

# rho never exceeds this in the closed form, so that no posterior is moved entirely and order is kept
RHO_CAP = 1.0 - 1e-6
# entries of one block of rows
BLOCK = 2**18


def expected_posteriors(values, posteriors, statistics, target):
    """Posteriors of the new label.

    Parameters
    ----------
    values : ndarray of shape (n_rows, n_classes), float64
        Posteriors or scores: what the z-scores are made of.
    posteriors : ndarray of shape (n_rows, n_classes), float64
        What is mixed.
    statistics : Statistics
    target : {"argmax", "argmax_of_successes"}

    Returns
    -------
    mixed : ndarray of shape (n_rows, n_classes), float64
        Rows sum to what they summed to before.
    """
    if posteriors.shape[1] == 2:
        return _two_classes(values, posteriors, statistics)
    mixed = np.zeros(posteriors.shape)
    step = max(1, BLOCK // posteriors.shape[1])
    for start in range(0, len(posteriors), step):
        block = slice(start, start + step)
        _mix(values[block], posteriors[block], statistics, EXPECTATIONS[target], mixed[block])
    return mixed


def _mix(values, posteriors, statistics, expectation, mixed):
    """Add ``q_l T_l`` of every label l to `mixed`, label by label."""
    for label in range(posteriors.shape[1]):
        share = posteriors[:, label]
        found = candidates_of_label(values, label, statistics)
        starts = found.starts
        rows = found.row[starts]
        entry, probability, keep = expectation(found, starts)
        kept = share.copy()
        kept[rows] *= keep
        mixed[:, label] += kept
        mixed[found.row[entry], found.column[entry]] += share[found.row[entry]] * probability


def argmax_expectation(found, starts):
    """All that leaves goes to the class of largest rho, with probability ``1 - prod(1 - rho)``.

    Returns
    -------
    entry : ndarray of int
        Positions in `found`.
    probability : ndarray of float64
        Of moving to the entry's column.
    keep : ndarray of shape (n_starts,), float64
        Probability of keeping the label.
    """
    stay = 1.0 - np.minimum(found.rho, RHO_CAP)
    keep = np.multiply.reduceat(stay, starts) if len(starts) else np.empty(0)
    return starts, 1.0 - keep, keep


def argmax_of_successes_expectation(found, starts):
    """Class j is taken with ``rho_j prod(1 - rho_c)`` over the classes c of larger rho (ties: lower index first).

    Returns
    -------
    entry, probability, keep
        As in `argmax_expectation`.
    """
    rho = np.minimum(found.rho, RHO_CAP)
    lengths = np.diff(starts, append=len(rho))
    line = np.repeat(np.arange(len(starts)), lengths)
    rank = np.arange(len(rho)) - np.repeat(starts, lengths)
    # one line per row: entry k holds the probability that the first k draws fail
    fail = np.ones((len(starts), lengths.max(initial=0) + 1))
    fail[line, rank + 1] = 1.0 - rho
    np.cumprod(fail, axis=1, out=fail)
    return np.arange(len(rho)), rho * fail[line, rank], fail[:, -1]


EXPECTATIONS = {"argmax": argmax_expectation, "argmax_of_successes": argmax_of_successes_expectation}


def _two_classes(values, posteriors, statistics):
    """The same for two classes, as a map of P(class 1) alone that never decreases, rounding included.

    Only the rarer class j is a target, with a probability r that increases in its own column, so that
    ``q~_j = 1 - (1 - q_j)(1 - r)``: a chain of operations that keep order when rounded. Where r = 0 the row is
    returned as it is.
    """
    rarer = int(np.argmax(statistics.prior_weight))
    other = 1 - rarer
    gain = rarity_gain(statistics.prior_weight, other)[rarer]
    if gain == 0:
        return posteriors.copy()
    evidence = values[:, rarer]
    if values is posteriors and rarer == 0:
        evidence = 1.0 - posteriors[:, 1]  # in low precision column 0 is not a function of P(class 1)
    r = np.minimum(_rising_strength(evidence, other, rarer, statistics) * gain, RHO_CAP)
    mixed = posteriors.copy()
    moved = r > 0
    q, r = posteriors[moved], r[moved]
    mixed[moved, rarer] = np.maximum(q[:, rarer], 1.0 - (1.0 - q[:, rarer]) * (1.0 - r))
    mixed[moved, other] = np.where(q[:, other] > 0, q[:, other] * (1.0 - r), q[:, other])
    return mixed


def _rising_strength(evidence, label, column, statistics):
    rule, t = statistics.normalization, statistics.threshold[column]
    z = standardize(
        evidence[:, np.newaxis],
        statistics.mean[label, [column]],
        statistics.scale[label, [column]],
        rule.unit,
    )[:, 0]
    above = z > t
    r = np.zeros(len(z))
    r[above] = rule.rising(z[above], t)
    return r
