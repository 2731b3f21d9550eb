"""Recall and precision of the highest scores, by hand; ties; periods."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrela_sk.exceptions import LabelError
from fedrela_sk.metrics import precision_at_k, recall_at_alerts

Y = [1, 0, 1, 0, 1]
SCORE = [0.9, 0.8, 0.7, 0.2, 0.1]


@pytest.mark.parametrize(
    ("budget", "recall", "precision"),
    [(1, 1 / 3, 1), (2, 1 / 3, 1 / 2), (3, 2 / 3, 2 / 3), (4, 2 / 3, 1 / 2), (5, 1, 3 / 5), (9, 1, 3 / 5)],
)
def test_by_hand(budget, recall, precision):
    assert recall_at_alerts(Y, SCORE, n_alerts=budget) == pytest.approx(recall)
    assert precision_at_k(Y, SCORE, k=budget) == pytest.approx(precision)


def test_ties_at_the_last_place_count_by_their_share():
    # 0.9 is taken; two of the four at 0.5 are, one of the four is positive: 1 + 2/4
    y, score = [1, 0, 1, 0, 0, 1], [0.9, 0.5, 0.5, 0.5, 0.5, 0.1]
    assert recall_at_alerts(y, score, n_alerts=3) == pytest.approx(1.5 / 3)
    assert precision_at_k(y, score, k=3) == pytest.approx(1.5 / 3)
    assert recall_at_alerts([1, 0, 0, 0], [0.0, 0.0, 0.0, 0.0], n_alerts=1) == 0.25


@settings(max_examples=25, deadline=None)
@given(
    rows=st.lists(st.tuples(st.booleans(), st.integers(0, 2)), min_size=1, max_size=5),
    budget=st.integers(1, 6),
)
def test_it_is_the_mean_over_all_orders_of_the_rows(rows, budget):
    y, score = np.array(rows, dtype=int).T
    hits = [
        sum(label for label, _ in sorted(order, key=lambda row: -row[1])[:budget])
        for order in itertools.permutations(zip(y.tolist(), score.tolist(), strict=True))
    ]
    recall = recall_at_alerts(y, score, n_alerts=budget)
    if y.sum():
        assert recall == pytest.approx(np.mean(hits) / y.sum())
    else:
        assert np.isnan(recall)
    assert precision_at_k(y, score, k=budget) == pytest.approx(np.mean(hits) / min(budget, len(y)))


def test_the_order_of_rows_never_matters():
    rng = np.random.default_rng(0)
    y, score, day = rng.integers(0, 2, 60), rng.integers(0, 5, 60), rng.integers(0, 4, 60)
    value = recall_at_alerts(y, score, n_alerts=4, period=day)
    for _ in range(5):
        order = rng.permutation(60)
        mixed = recall_at_alerts(y[order], score[order], n_alerts=4, period=day[order])
        assert mixed == pytest.approx(value)


def test_a_budget_for_each_period():
    # day 1: 0.9 (positive) of three rows; day 2: 0.6 (negative) of two; day 3: its only row
    y = [1, 1, 0, 0, 1, 1]
    score = [0.9, 0.8, 0.1, 0.6, 0.5, 0.0]
    day = ["mon", "mon", "mon", "tue", "tue", "wed"]
    assert recall_at_alerts(y, score, n_alerts=1, period=day) == pytest.approx(2 / 4)
    assert precision_at_k(y, score, k=1, period=day) == pytest.approx(2 / 3)
    assert recall_at_alerts(y, score, n_alerts=2, period=day) == pytest.approx(4 / 4)
    assert precision_at_k(y, score, k=2, period=day) == pytest.approx(4 / 5)


def test_no_positives():
    assert np.isnan(recall_at_alerts([0, 0], [0.1, 0.2], n_alerts=1))
    assert precision_at_k([0, 0], [0.1, 0.2], k=1) == 0
    assert np.isnan(recall_at_alerts(["good"], [0.1], n_alerts=1, pos_label="bad"))
    assert np.isnan(recall_at_alerts([0, 2], [0.1, 0.2], n_alerts=1, labels=[0, 1, 2]))


def test_string_labels_and_infinite_scores():
    y = np.array(["good", "bad", "bad"])
    assert recall_at_alerts(y, [-np.inf, np.inf, 0.0], n_alerts=1, pos_label="bad") == 0.5


@pytest.mark.parametrize(
    ("y", "options", "message"),
    [
        (["bad", "good"], {}, r"one of the labels \['bad', 'good'\] .* got 1"),
        ([0, 2], {}, r"one of the labels \[0, 2\] .* got 1"),
        ([0, 0], {"labels": [0, 2]}, r"one of the labels \[0, 2\] .* got 1"),
        ([0, np.nan], {}, r"row 1 is missing, got nan"),
    ],
)
def test_unknown_positive_class(y, options, message):
    for function, budget in ((recall_at_alerts, {"n_alerts": 1}), (precision_at_k, {"k": 1})):
        with pytest.raises(LabelError, match=message):
            function(y, [0.1, 0.2], **budget, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"score": [0.1, np.nan]}, r"Row 1 of score cannot be ranked: .* got nan"),
        ({"score": [[0.1, 0.9], [0.2, 0.8]]}, r"column of the positive class, got shape \(2, 2\)"),
        ({"score": [0.1]}, r"inconsistent numbers of samples"),
        ({"period": [1]}, r"inconsistent numbers of samples"),
        ({"n_alerts": 0}, r"'n_alerts' parameter .* Got 0 instead"),
        ({"n_alerts": 0.5}, r"'n_alerts' parameter .* Got 0.5 instead"),
    ],
)
def test_errors(options, message):
    with pytest.raises(ValueError, match=message):
        recall_at_alerts([0, 1], **{"score": [0.1, 0.2], "n_alerts": 1, **options})
