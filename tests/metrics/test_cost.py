"""Cost by amount, by hand."""

import numpy as np
import pandas as pd
import pytest

from fedrela_sk.exceptions import LabelError
from fedrela_sk.metrics import cost_by_amount

Y_TRUE = [1, 1, 0, 0, 1]
Y_PRED = [0, 1, 1, 0, 0]
AMOUNT = [200.0, 50.0, 10.0, 5.0, 0.5]


def test_by_hand():
    assert cost_by_amount(Y_TRUE, Y_PRED, AMOUNT) == 200.5
    assert cost_by_amount(Y_TRUE, Y_PRED, AMOUNT, alert_cost=3) == 206.5
    assert cost_by_amount(Y_TRUE, Y_PRED, AMOUNT, alert_cost=3, normalize=True) == pytest.approx(206.5 / 5)


def test_ends():
    assert cost_by_amount(Y_TRUE, Y_TRUE, AMOUNT) == 0
    assert cost_by_amount(Y_TRUE, np.zeros(5), AMOUNT, alert_cost=7) == 250.5
    assert cost_by_amount(Y_TRUE, np.ones(5), AMOUNT, alert_cost=7) == 35


def test_other_labels_and_containers():
    names = np.array(["good", "bad"])
    cost = cost_by_amount(
        pd.Series(names[Y_TRUE]), names[Y_PRED].astype(object), pd.Series(AMOUNT), pos_label="bad"
    )
    assert cost == 200.5


def test_a_fold_without_positives():
    assert cost_by_amount([0, 0], [0, 0], [1, 1], alert_cost=2) == 0
    assert cost_by_amount([0, 0], [0, 1], [1, 1], alert_cost=2) == 2
    assert cost_by_amount([0, 2], [0, 2], [1, 1], labels=[0, 1, 2]) == 0


@pytest.mark.parametrize(
    ("amount", "message"),
    [
        ([1, -2, 3], r"Row 1 of amount is no amount: .* got -2"),
        ([1, 2, np.nan], r"Row 2 of amount .* got nan"),
        ([np.inf, 2, 3], r"Row 0 of amount .* got inf"),
        ([1, 2], r"inconsistent numbers of samples"),
    ],
)
def test_bad_amounts(amount, message):
    with pytest.raises(ValueError, match=message):
        cost_by_amount([0, 1, 1], [0, 1, 1], amount)


def test_unknown_positive_class():
    with pytest.raises(LabelError, match=r"one of the labels \['a', 'b'\] .* got 1"):
        cost_by_amount(["a", "b"], ["a", "a"], [1, 1])


def test_bad_alert_cost():
    with pytest.raises(ValueError, match=r"'alert_cost' parameter .* Got -1 instead"):
        cost_by_amount([0], [1], [1], alert_cost=-1)
