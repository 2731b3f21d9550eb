"""Confusion counts per client, their sum, and the scores a server gets from them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import balanced_accuracy_score, confusion_matrix

from fedrela_sk.exceptions import GroupsError, LabelError
from fedrela_sk.metrics import client_confusion, federated_score
from fedrela_sk.metrics._confusion import OF_ONE_CLASS, OVERALL


def test_counts_of_each_client_by_hand():
    clients, counts = client_confusion(
        [0, 1, 1, 0, 1], [0, 1, 0, 0, 1], ["z", "a", "a", "a", "z"], labels=[0, 1, 2]
    )
    assert clients.tolist() == ["a", "z"]
    assert counts.dtype.kind == "i"
    assert counts[0].tolist() == [[1, 0, 0], [1, 1, 0], [0, 0, 0]]
    assert counts[1].tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 0]]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 5)), min_size=1, max_size=60))
def test_the_sum_over_clients_is_the_pooled_table(rows):
    y_true, y_pred, groups = np.array(rows).T
    clients, counts = client_confusion(y_true, y_pred, groups, labels=range(4))
    assert clients.tolist() == sorted(set(groups.tolist()))
    np.testing.assert_array_equal(counts.sum(axis=0), confusion_matrix(y_true, y_pred, labels=range(4)))
    np.testing.assert_array_equal(counts.sum(axis=(1, 2)), np.bincount(groups)[clients])


@pytest.mark.parametrize("metric", sorted({*OVERALL, *OF_ONE_CLASS}))
def test_the_score_does_not_depend_on_who_holds_what(metric):
    rng = np.random.default_rng(0)
    y_true, y_pred = rng.integers(0, 3, 90), rng.integers(0, 3, 90)
    options = {"metric": metric, "pos_label": 2}
    one = federated_score(y_true, y_pred, **options)
    for n_clients in (2, 90):
        groups = rng.integers(0, n_clients, 90)
        assert federated_score(y_true, y_pred, groups=groups, **options) == pytest.approx(one, rel=1e-12)


def test_it_is_not_the_mean_over_clients():
    # client a: 1 of 1 right; client b: 1 of 3
    y_true, y_pred, groups = [0, 1, 1, 1], [0, 1, 0, 0], ["a", "b", "b", "b"]
    assert federated_score(y_true, y_pred, groups=groups, metric="accuracy") == 0.5


def test_default_is_balanced_accuracy_with_weights():
    rng = np.random.default_rng(1)
    y_true, y_pred, weight = rng.integers(0, 3, 60), rng.integers(0, 3, 60), rng.random(60)
    score = federated_score(y_true, y_pred, groups=rng.integers(0, 5, 60), sample_weight=weight)
    assert score == pytest.approx(balanced_accuracy_score(y_true, y_pred, sample_weight=weight))


def test_absent_classes_are_known_and_change_nothing():
    assert federated_score([0, 0, 1], [0, 1, 1], labels=range(10)) == pytest.approx(0.75)
    assert np.isnan(federated_score([0, 0], [0, 0], labels=[0, 1], metric="recall"))


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (["a"], r"one entry per row: got shape \(1,\) for 3 rows"),
        ([["a", "b"]] * 3, r"got an array of shape \(3, 2\)"),
        (np.array([1, "a", 2], dtype=object), r"one type, got \['int', 'str'\]"),
    ],
)
def test_bad_groups(groups, message):
    with pytest.raises(GroupsError, match=message):
        client_confusion([0, 1, 1], [0, 1, 1], groups)
    with pytest.raises(GroupsError, match=message):
        federated_score([0, 1, 1], [0, 1, 1], groups=groups)


def test_bad_metric_and_labels():
    with pytest.raises(ValueError, match=r"'metric' parameter .* Got 'roc_auc' instead"):
        federated_score([0, 1], [0, 1], metric="roc_auc")
    with pytest.raises(LabelError, match=r"Row 1 of y_true is not among the labels \[0\]"):
        federated_score([0, 1], [0, 0], labels=[0])
