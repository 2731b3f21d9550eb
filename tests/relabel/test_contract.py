"""Answers of relabelers are checked once, for one site and for federations."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from fedrela_sk import FedReLaSampler, RelabelingClassifier
from fedrela_sk.exceptions import LabelError
from fedrela_sk.relabel import check_answer

CLASSES = np.array([3, 5])


def test_labels_alone_keep_every_row():
    new, keep = check_answer([3, 5, 5], CLASSES, 3)
    np.testing.assert_array_equal(new, [3, 5, 5])
    assert keep.dtype == bool
    assert keep.all()


def test_a_pair_is_taken_apart():
    new, keep = check_answer(([3, 5], np.array([True, False])), CLASSES, 2)
    np.testing.assert_array_equal(new, [3, 5])
    np.testing.assert_array_equal(keep, [True, False])


BAD = [
    ([3, 5], r"must return 3 labels.*got shapes \(2,\) and \(3,\)"),
    (([3, 5, 5], np.array([True, False])), r"got shapes \(3,\) and \(2,\)"),
    (([3, 5, 5], np.array([0, 1, 1])), "mask dtype int64"),
    ([3, 5, 99], r"returned the label .*99.*not among \[3, 5\]"),
]


@pytest.mark.parametrize(("answer", "message"), BAD)
def test_bad_answers(answer, message):
    with pytest.raises(LabelError, match=message):
        check_answer(answer, CLASSES, 3)


class Fixed:
    """A relabeler that answers what it was told."""

    def __init__(self, answer):
        self.answer = answer

    def fit(self, Q, y):
        return self

    def relabel(self, Q, y, uniforms=None):
        return self.answer(y)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda y: np.where(np.arange(len(y)) == 7, 99, y), "the label .*99.*not among"),
        (lambda y: (y, np.arange(len(y)) * 2), "mask dtype int64"),
        (lambda y: y[:-1], "must return 60 labels"),
        (lambda y: (y, np.ones(5, dtype=bool)), r"got shapes \(60,\) and \(5,\)"),
    ],
)
def test_one_site_trusts_no_answer(answer, message):
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = (X[:, 0] > 0.5).astype(int)
    with pytest.raises(LabelError, match=message):
        RelabelingClassifier(LogisticRegression(), Fixed(answer)).fit(X, y)
    with pytest.raises(LabelError, match=message):
        FedReLaSampler(LogisticRegression(), Fixed(answer)).fit_resample(X, y)
