"""Money: what misses and alerts cost when every row has an amount."""

from numbers import Real

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_consistent_length, column_or_1d

from fedrela_sk._checks import as_float, check_labels
from fedrela_sk._sklearn import Interval, _num_samples, validate_params
from fedrela_sk._typing import Array, Label
from fedrela_sk.metrics._labels import check_pos_label, equals


@validate_params(
    {
        "y_true": ["array-like"],
        "y_pred": ["array-like"],
        "amount": ["array-like"],
        "alert_cost": [Interval(Real, 0, None, closed="left")],
        "normalize": ["boolean"],
        "labels": ["array-like", None],
    },
    prefer_skip_nested_validation=True,
)
def cost_by_amount(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    amount: ArrayLike,
    *,
    alert_cost: float = 0.0,
    pos_label: Label = 1,
    normalize: bool = False,
    labels: ArrayLike | None = None,
) -> float:
    """Amounts of the positives that were missed, plus a fixed cost for every alert.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_samples,)
        Labels; a row predicted as `pos_label` is an alert.
    amount : array-like of shape (n_samples,)
        What a missed positive costs, in any currency; finite, at least 0.
    alert_cost : float, default=0.0
        What looking at one alert costs, right or wrong, in the same currency.
    pos_label : label, default=1
        The class to be caught.
    normalize : bool, default=False
        Divide by the number of rows.
    labels : array-like of shape (n_classes,) or None, default=None
        All classes; needed only where `pos_label` may be absent among several others.

    Returns
    -------
    cost : float

    Raises
    ------
    LabelError
        `pos_label` is not among `labels`, or is not one of two or more labels that occur.
    ValueError
        An amount is negative or not finite, or an array has another length.

    References
    ----------
    Bahnsen, Aouada, Stojanovic, Ottersten, "Feature engineering strategies for credit card fraud detection",
    Expert Systems with Applications 51, 2016: the cost matrix with real amounts.

    Examples
    --------
    >>> from fedrela_sk.metrics import cost_by_amount
    >>> cost_by_amount([1, 1, 0, 0], [0, 1, 1, 0], [200.0, 50.0, 10.0, 5.0], alert_cost=3)
    206.0
    """
    check_consistent_length(y_true, y_pred, amount)
    y_true, y_pred = (check_labels(y, _num_samples(y)) for y in (y_true, y_pred))
    check_pos_label(pos_label, labels, y_true, y_pred)
    amount = _check_amount(amount)
    alert = equals(y_pred, pos_label)
    missed = equals(y_true, pos_label) & ~alert
    cost = amount[missed].sum() + as_float(alert_cost) * alert.sum()
    return float(cost / len(amount) if normalize else cost)


def _check_amount(amount) -> Array:
    amount = column_or_1d(amount, dtype=np.float64)
    bad = ~np.isfinite(amount) | (amount < 0)
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueError(
            f"Row {row} of amount is no amount: pass finite numbers of at least 0, got {amount[row]:g}."
        )
    return amount
