"""How much is caught when only so many alerts can be looked at: rare events with a budget."""

from numbers import Integral

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_consistent_length

from fedrela_sk._checks import check_labels
from fedrela_sk._labels import check_names, sorted_names
from fedrela_sk._sklearn import Interval, _num_samples, validate_params
from fedrela_sk._typing import Label
from fedrela_sk.metrics._confusion import divide
from fedrela_sk.metrics._labels import check_pos_label, equals

_COMMON = {
    "y_true": ["array-like"],
    "score": ["array-like"],
    "period": ["array-like", None],
    "labels": ["array-like", None],
}
_COUNT = [Interval(Integral, 1, None, closed="left")]


@validate_params({**_COMMON, "n_alerts": _COUNT}, prefer_skip_nested_validation=True)
def recall_at_alerts(
    y_true: ArrayLike,
    score: ArrayLike,
    *,
    n_alerts: int,
    period: ArrayLike | None = None,
    pos_label: Label = 1,
    labels: ArrayLike | None = None,
) -> float:
    """Share of all positives that are among the `n_alerts` highest scores (of each period).

    Rows that tie at the last place share the alerts that are left: the expected number of positives among
    them counts, so the order of rows never matters.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Labels.
    score : array-like of shape (n_samples,)
        Higher means more suspicious: a posterior, a decision value.
    n_alerts : int
        Alerts that can be looked at, per period; at least 1. A period with fewer rows is looked at whole.
    period : array-like of shape (n_samples,) or None, default=None
        The day (or shift, or client) of each row; None means one period.
    pos_label : label, default=1
        The class to be caught.
    labels : array-like of shape (n_classes,) or None, default=None
        All classes; needed only where `pos_label` may be absent among several others.

    Returns
    -------
    recall : float
        In [0, 1]; NaN if there are no positives.

    Raises
    ------
    LabelError
        `pos_label` is not among `labels`, or is not one of two or more labels that occur.
    ValueError
        A score is NaN or an array has another length.

    Examples
    --------
    >>> from fedrela_sk.metrics import recall_at_alerts
    >>> recall_at_alerts([1, 0, 1, 0, 1], [0.9, 0.8, 0.7, 0.2, 0.1], n_alerts=3)
    0.6666666666666666
    """
    positive, hits, _ = _caught(y_true, score, n_alerts, period, pos_label, labels)
    return float(divide(hits, positive.sum()))


@validate_params({**_COMMON, "k": _COUNT}, prefer_skip_nested_validation=True)
def precision_at_k(
    y_true: ArrayLike,
    score: ArrayLike,
    *,
    k: int,
    period: ArrayLike | None = None,
    pos_label: Label = 1,
    labels: ArrayLike | None = None,
) -> float:
    """Share of positives among the `k` highest scores (of each period).

    Ties at the last place count with the expected number of positives, as in `recall_at_alerts`.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Labels.
    score : array-like of shape (n_samples,)
        Higher means more suspicious.
    k : int
        Rows that are looked at, per period; at least 1. A period with fewer rows is looked at whole.
    period : array-like of shape (n_samples,) or None, default=None
        The day (or shift, or client) of each row; None means one period.
    pos_label : label, default=1
        The class to be caught.
    labels : array-like of shape (n_classes,) or None, default=None
        All classes; needed only where `pos_label` may be absent among several others.

    Returns
    -------
    precision : float
        In [0, 1]: positives caught over rows looked at, both summed over periods.

    Raises
    ------
    LabelError
        `pos_label` is not among `labels`, or is not one of two or more labels that occur.
    ValueError
        A score is NaN or an array has another length.

    Examples
    --------
    >>> from fedrela_sk.metrics import precision_at_k
    >>> precision_at_k([1, 0, 1, 0, 1], [0.9, 0.8, 0.7, 0.2, 0.1], k=2)
    0.5
    """
    _, hits, n_looked_at = _caught(y_true, score, k, period, pos_label, labels)
    return float(divide(hits, n_looked_at))


def _caught(y_true, score, n_alerts, period, pos_label, labels):
    """Which rows are positive, expected positives among the alerts, and the number of alerts."""
    check_consistent_length(y_true, score, period)
    y_true = check_labels(y_true, _num_samples(y_true))
    check_pos_label(pos_label, labels, y_true)
    positive, score = equals(y_true, pos_label), _check_score(score)
    period = np.zeros(len(score)) if period is None else check_names(period, "period", error=ValueError)
    hits = n_looked_at = 0
    for rows in _rows_of_each(period):
        hits += _expected_hits(positive[rows], score[rows], n_alerts)
        n_looked_at += min(n_alerts, len(rows))
    return positive, hits, n_looked_at


def _check_score(score):
    score = np.asarray(score, dtype=np.float64)
    if score.ndim != 1:
        raise ValueError(
            "score must be one number per row: pass the column of the positive class, "
            f"got shape {score.shape}."
        )
    if np.isnan(score).any():
        raise ValueError(
            f"Row {int(np.argmax(np.isnan(score)))} of score cannot be ranked: give it a number, got nan."
        )
    return score


def _rows_of_each(period):
    _, inverse = sorted_names(period, "period", error=ValueError)
    sizes = np.bincount(inverse)
    return np.split(np.argsort(inverse, kind="stable"), np.cumsum(sizes)[:-1])


def _expected_hits(positive, score, n_alerts):
    """Positives among the highest scores; those that tie at the last place count by their share."""
    if n_alerts >= len(score):
        return positive.sum()
    last = np.partition(score, -n_alerts)[-n_alerts]
    above, tied = score > last, score == last
    return positive[above].sum() + (n_alerts - above.sum()) * positive[tied].mean()
