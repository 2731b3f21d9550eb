"""The posterior of the new label in closed form: what relabeling does to a classifier, without drawing.

With ``T_l[j] = P(new label = j | label l)`` under the draw rule, the posterior of the new label is
``sum_l q_l T_l[j]`` (the law of total probability). The diagonal of T takes what is left.
"""

import numpy as np

from fedrela_sk.relabel.formulas._normalization import standardize
from fedrela_sk.relabel.formulas._rho import BLOCK, candidates_of_label

# rho never exceeds this in the closed form, so that no posterior is moved entirely and order is kept
RHO_CAP = 1.0 - 1e-6


def expected_posteriors(posteriors, statistics, target, values=None):
    """Posteriors of the new label.

    Parameters
    ----------
    posteriors : ndarray of shape (n_rows, n_classes), float64
        What is mixed.
    statistics : Statistics
    target : {"argmax", "argmax_of_successes"}
        A key of `EXPECTATIONS`.
    values : ndarray of shape (n_rows, n_classes), float64, or None
        What the z-scores are made of; None means the posteriors.

    Returns
    -------
    mixed : ndarray of shape (n_rows, n_classes), float64
        Rows keep their sums. Memory beyond it is that of a block of rows.
    """
    if posteriors.shape[1] == 2:
        return _two_classes(posteriors, statistics, values)
    values = posteriors if values is None else values
    mixed = posteriors.copy()
    step = max(1, BLOCK // posteriors.shape[1])
    for start in range(0, len(posteriors), step):
        block = slice(start, start + step)
        _mix(values[block], posteriors[block], statistics, EXPECTATIONS[target], mixed[block])
    return mixed


def _mix(values, posteriors, statistics, expectation, mixed):
    """Turn `mixed`, a copy of the posteriors, into the sum of ``q_l T_l`` over all labels l.

    A label loses to rarer ones only, so going from the rarest to the most frequent a label has received nothing
    when its own share shrinks to what it keeps.
    """
    losing = np.any(statistics.floor < np.inf, axis=1)
    for label in np.argsort(-statistics.prior_weight, kind="stable"):
        if losing[label]:
            found = candidates_of_label(values, label, statistics)
            entry, probability, keep = expectation(found)
            row = found.row[entry]
            mixed[row, found.column[entry]] += posteriors[row, label] * probability
            mixed[found.row[found.starts], label] *= keep


def argmax_expectation(found):
    """All that leaves goes to the class of largest rho, with probability ``1 - prod(1 - rho)``.

    Parameters
    ----------
    found : Candidates

    Returns
    -------
    entry : ndarray of int
        Positions in `found`: targets that are taken at all.
    probability : ndarray of float64
        Of taking them.
    keep : ndarray of float64
        Probability of keeping the label, one per row that has candidates.
    """
    keep = np.multiply.reduceat(1.0 - np.minimum(found.rho, RHO_CAP), found.starts)
    return found.best(), 1.0 - keep, keep


def argmax_of_successes_expectation(found):
    """Class j with ``rho_j prod(1 - rho_c)`` over the classes c of larger rho, ties in the order of the classes.

    Parameters and returns are those of `argmax_expectation`.
    """
    starts = found.starts
    lengths = np.diff(starts, append=len(found.row))
    line = np.repeat(np.arange(len(starts)), lengths)
    place = np.arange(len(found.row)) - np.repeat(starts, lengths)
    # one line per row; what is left of a line keeps rho = 0 and sorts to its end
    rho = np.zeros((len(starts), lengths.max(initial=1)))
    rho[line, place] = found.rho
    order = np.argsort(-rho, axis=1, kind="stable")
    rho = np.minimum(np.take_along_axis(rho, order, axis=1), RHO_CAP)
    fail = np.cumprod(1.0 - rho, axis=1)
    probability = np.empty_like(rho)
    np.put_along_axis(probability, order, rho * np.hstack([np.ones((len(starts), 1)), fail])[:, :-1], axis=1)
    return np.arange(len(found.row)), probability[line, place], fail[:, -1]


EXPECTATIONS = {"argmax": argmax_expectation, "argmax_of_successes": argmax_of_successes_expectation}


def _two_classes(posteriors, statistics, values):
    """The same for two classes, as a map of only P(class 1) that never decreases, rounding included.

    Only the rarer class j is a target, with a probability r that increases in its own column, so that
    ``q~_j = 1 - (1 - q_j)(1 - r)``: a chain of operations each of which keeps order when rounded. Where r is 0
    the row is returned as it is.
    """
    rarer = int(np.argmax(statistics.prior_weight))
    other = 1 - rarer
    evidence = posteriors[:, 1] if values is None else values[:, rarer]
    if values is None and rarer == 0:
        evidence = 1.0 - evidence  # in low precision column 0 is not a function of P(class 1)
    r = _strength(evidence, other, rarer, statistics)
    moved = np.flatnonzero(r)
    mixed = posteriors.copy()
    stay, q, rest = 1.0 - r[moved], posteriors[moved, rarer], posteriors[moved, other]
    mixed[moved, rarer] = np.maximum(q, 1.0 - (1.0 - q) * stay)
    mixed[moved, other] = np.where(rest > 0, rest * stay, rest)
    return mixed


def _strength(evidence, label, target, statistics):
    """Capped rho from one label to one target, never decreasing in the evidence."""
    rule, t = statistics.normalization, statistics.threshold[target]
    mean, scale = statistics.mean[label, [target]], statistics.scale[label, [target]]
    z = standardize(evidence[:, np.newaxis], mean, scale, rule.unit)[:, 0]
    r = np.zeros(len(z))
    above = z > t
    r[above] = np.minimum(rule.rising(z[above], t) * statistics.gain[label, target], RHO_CAP)
    return r
