"""Recall of classes and of groups of classes, by hand."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import recall_score

from fedrela_sk.exceptions import LabelError
from fedrela_sk.metrics import group_recall, majority_minority_recall, per_class_recall, shot_recall

# 4 rows of class 0 (3 right), 2 of class 1 (1 right), 1 of class 2 (right), none of class 3
Y_TRUE = [0, 0, 0, 0, 1, 1, 2]
Y_PRED = [0, 0, 0, 1, 1, 3, 2]
NAN = float("nan")


def same(result, expected):
    assert list(result) == list(expected)
    np.testing.assert_allclose(list(result.values()), list(expected.values()))


def test_per_class_by_hand():
    np.testing.assert_array_equal(
        per_class_recall(Y_TRUE, Y_PRED, labels=[0, 1, 2, 3]), [0.75, 0.5, 1.0, np.nan]
    )
    np.testing.assert_array_equal(
        per_class_recall(Y_TRUE, Y_PRED, labels=[3, 2, 1, 0]), [np.nan, 1.0, 0.5, 0.75]
    )


def test_per_class_without_labels_knows_what_occurs():
    np.testing.assert_array_equal(per_class_recall(["b", "b"], ["b", "a"]), [np.nan, 0.5])


def test_per_class_equals_scikit_learn_where_all_classes_occur():
    rng = np.random.default_rng(0)
    y_true, y_pred, weight = rng.integers(0, 5, 300), rng.integers(0, 5, 300), rng.random(300)
    for given in (None, weight):
        np.testing.assert_allclose(
            per_class_recall(y_true, y_pred, sample_weight=given),
            recall_score(y_true, y_pred, average=None, sample_weight=given),
        )


def test_an_integer_weight_equals_repeated_rows():
    weight = [2, 1, 0, 3, 1, 2, 1]
    repeated = np.repeat(Y_TRUE, weight), np.repeat(Y_PRED, weight)
    np.testing.assert_array_equal(
        per_class_recall(Y_TRUE, Y_PRED, labels=range(4), sample_weight=weight),
        per_class_recall(*repeated, labels=range(4)),
    )


@pytest.mark.parametrize("kind", [np.array, pd.Series, lambda y: pd.Series(y, dtype="category"), list])
def test_containers(kind):
    names = np.array(["d", "c", "b", "a"])
    recall = per_class_recall(kind(names[Y_TRUE]), kind(names[Y_PRED]))
    np.testing.assert_array_equal(recall, [np.nan, 1.0, 0.5, 0.75])


def test_groups_by_hand():
    groups = ["big", "big", "small", "small"]
    same(group_recall(Y_TRUE, Y_PRED, groups, labels=range(4)), {"big": 0.625, "small": 1.0})
    same(group_recall(Y_TRUE, Y_PRED, groups, labels=range(4), average="micro"), {"big": 4 / 6, "small": 1.0})
    same(group_recall(Y_TRUE, Y_PRED, {3: "x", 2: "y", 1: "y", 0: "y"}), {"x": NAN, "y": 0.75})


def test_shots_by_hand():
    counts = {0: 75, 1: 20, 2: 4, 3: 1}
    same(shot_recall(Y_TRUE, Y_PRED, counts), {"head": 0.75, "medium": 0.5, "tail": 1.0})
    same(
        shot_recall(Y_TRUE, Y_PRED, [75, 20, 4, 1], labels=range(4)),
        {"head": 0.75, "medium": 0.5, "tail": 1.0},
    )
    same(
        shot_recall(Y_TRUE, Y_PRED, [1, 1, 1, 97], labels=range(4)),
        {"head": NAN, "medium": NAN, "tail": 0.75},
    )


def test_shots_with_other_cuts_averages_and_weights():
    same(
        shot_recall(Y_TRUE, Y_PRED, [75, 20, 4, 1], labels=range(4), cuts=(0.9, 0.9), average="micro"),
        {"head": 4 / 6, "medium": NAN, "tail": 1.0},
    )
    same(
        shot_recall(Y_TRUE, Y_PRED, [75, 20, 4, 1], labels=range(4), sample_weight=[1, 1, 0, 2, 1, 3, 1]),
        {"head": 0.5, "medium": 0.25, "tail": 1.0},
    )


def test_sizes_by_hand():
    same(
        majority_minority_recall(Y_TRUE, Y_PRED, [50, 50, 5, 5], labels=range(4)),
        {"majority": 0.625, "minority": 1.0},
    )
    same(
        majority_minority_recall(Y_TRUE, Y_PRED, minority=[0, 3], labels=range(4)),
        {"majority": 0.75, "minority": 0.75},
    )
    same(majority_minority_recall([0, 1], [0, 1], {0: 5, 1: 5}), {"majority": 1.0, "minority": NAN})


def test_overall_is_the_weighted_mean_of_the_groups_on_a_balanced_test_set():
    rng = np.random.default_rng(0)
    y_true = np.repeat(np.arange(10), 30)
    y_pred = np.where(rng.random(300) < 0.6, y_true, rng.integers(0, 10, 300))
    result = majority_minority_recall(y_true, y_pred, minority=[7, 8, 9])
    overall = 0.7 * result["majority"] + 0.3 * result["minority"]
    assert overall == pytest.approx(np.mean(y_true == y_pred))
    micro = majority_minority_recall(y_true, y_pred, minority=[7, 8, 9], average="micro")
    assert micro == pytest.approx(result)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: per_class_recall([0, 5], [0, 0], labels=[0, 1]),
            r"Row 1 of y_true .* labels \[0, 1\]: .* got 5",
        ),
        (lambda: per_class_recall([0, 1], [0, 5], labels=[0, 1]), r"Row 1 of y_pred .* got 5"),
        (lambda: per_class_recall([0, 1], ["a", "b"]), r"make them one type, got \['int', 'str'\]"),
        (lambda: per_class_recall([], []), r"at least one true label, got 0"),
        (lambda: per_class_recall([0, 1], [0]), r"1 labels for 2 rows"),
        (lambda: per_class_recall([0, np.nan], [0, 1]), r"row 1 is missing, got nan"),
        (
            lambda: shot_recall(Y_TRUE, Y_PRED, [1, 2, 3]),
            r"counts must have one entry per class, 4 .* pass all classes as labels, got .* \(3,\)",
        ),
        (
            lambda: shot_recall(Y_TRUE, Y_PRED, {0: 5, 1: 2}, labels=range(4)),
            r"counts has no entry for the classes \[2, 3\]: add them, got \{0: 5, 1: 2\}",
        ),
        (lambda: group_recall([0], [0], {1: "a"}), r"Row 0 of y_true is not among the labels \[1\]"),
        (lambda: majority_minority_recall([0], [0]), r"either counts .* or minority .* got neither"),
        (
            lambda: majority_minority_recall([0, 1], [0, 1], [1, 2], minority=[1]),
            r"either counts .* got both",
        ),
        (lambda: majority_minority_recall([0, 1], [0, 1], minority=[7]), r"not among \[0, 1\]: .* got \[7\]"),
    ],
)
def test_errors(call, message):
    with pytest.raises(LabelError, match=message):
        call()


def test_bad_average():
    with pytest.raises(ValueError, match=r"'average' parameter .* Got 'mean' instead"):
        shot_recall([0], [0], [1], average="mean")


def test_negative_weights():
    with pytest.raises(ValueError, match="sample_weight"):
        per_class_recall([0, 1], [0, 1], sample_weight=[1, -1])
