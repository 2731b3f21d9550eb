"""Numbers from confusion counts, by hand and against scikit-learn and imbalanced-learn."""

import numpy as np
import pytest
from imblearn.metrics import geometric_mean_score
from sklearn import metrics as sk

from fedrela_sk.exceptions import LabelError
from fedrela_sk.metrics._confusion import OF_ONE_CLASS, OVERALL, confusion_table, score_confusion

# classes a, b, c; c has no true rows but one prediction
TABLE = np.array([[6, 1, 1], [2, 2, 0], [0, 0, 0]])
LABELS = np.array(["a", "b", "c"])


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("accuracy", 8 / 12),
        ("balanced_accuracy", (6 / 8 + 2 / 4) / 2),
        ("f1_macro", (12 / 16 + 4 / 7 + 0) / 3),
        ("geometric_mean", (6 / 8 * 2 / 4) ** 0.5),
        ("min_recall", 0.5),
    ],
)
def test_by_hand(metric, expected):
    assert score_confusion(TABLE, metric, LABELS) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("metric", "label", "expected"),
    [
        ("recall", "a", 6 / 8),
        ("precision", "a", 6 / 8),
        ("f1", "b", 4 / 7),
        ("recall", "c", np.nan),
        ("precision", "c", 0.0),
        ("f1", "c", 0.0),
    ],
)
def test_of_one_class_by_hand(metric, label, expected):
    assert score_confusion(TABLE, metric, LABELS, label) == pytest.approx(expected, nan_ok=True)


def test_two_classes_need_no_pos_label():
    table = np.array([[5, 1], [2, 2]])
    assert score_confusion(table, "recall", np.array([0, 1])) == 0.5
    assert score_confusion(table, "recall", np.array([0, 1]), 0) == pytest.approx(5 / 6)


@pytest.mark.parametrize("metric", sorted(OF_ONE_CLASS))
@pytest.mark.parametrize("pos_label", [None, "d"])
def test_unclear_positive_class(metric, pos_label):
    message = rf"'{metric}' .* pos_label one of \['a', 'b', 'c'\], got {pos_label!r}"
    with pytest.raises(LabelError, match=message):
        score_confusion(TABLE, metric, LABELS, pos_label)


@pytest.mark.parametrize("metric", sorted(OVERALL))
def test_a_perfect_table_scores_one_and_a_wrong_one_less(metric):
    perfect, wrong = np.diag([3, 2, 1]), np.array([[0, 3, 0], [2, 0, 0], [0, 1, 0]])
    assert score_confusion(perfect, metric, LABELS) == pytest.approx(1)
    assert score_confusion(wrong, metric, LABELS) <= 0


@pytest.mark.parametrize("metric", sorted(set(OVERALL) - {"matthews_corrcoef"}))
def test_no_rows_have_no_score(metric):
    assert np.isnan(score_confusion(np.zeros((2, 2)), metric, LABELS[:2]))


def test_matthews_of_one_predicted_class_is_zero_as_in_scikit_learn():
    assert score_confusion(np.array([[5, 0], [3, 0]]), "matthews_corrcoef", LABELS[:2]) == 0.0


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("weighted", [False, True])
def test_against_scikit_learn_and_imbalanced_learn(seed, weighted):
    rng = np.random.default_rng(seed)
    y_true = rng.choice(4, 200, p=[0.7, 0.2, 0.06, 0.04])
    y_pred = np.where(rng.random(200) < 0.6, y_true, rng.integers(0, 4, 200))
    weight = rng.random(200) if weighted else None
    table = confusion_table(y_true, y_pred, 4, weight)
    np.testing.assert_allclose(table, sk.confusion_matrix(y_true, y_pred, sample_weight=weight))
    labels = np.arange(4)
    pairs = {
        "accuracy": sk.accuracy_score(y_true, y_pred, sample_weight=weight),
        "balanced_accuracy": sk.balanced_accuracy_score(y_true, y_pred, sample_weight=weight),
        "f1_macro": sk.f1_score(y_true, y_pred, average="macro", sample_weight=weight),
        "matthews_corrcoef": sk.matthews_corrcoef(y_true, y_pred, sample_weight=weight),
        "geometric_mean": geometric_mean_score(y_true, y_pred, average="multiclass", sample_weight=weight),
    }
    for metric, expected in pairs.items():
        assert score_confusion(table, metric, labels) == pytest.approx(expected), metric
    for label in range(4):
        for metric, function in (
            ("recall", sk.recall_score),
            ("precision", sk.precision_score),
            ("f1", sk.f1_score),
        ):
            expected = function(y_true, y_pred, labels=[label], average=None, sample_weight=weight)[0]
            assert score_confusion(table, metric, labels, label) == pytest.approx(expected)
