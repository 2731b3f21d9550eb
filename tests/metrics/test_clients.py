"""client_report: one row per client, all classes known everywhere."""

import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, log_loss
from sklearn.svm import LinearSVC

from fedrela_sk.exceptions import GroupsError, LabelError
from fedrela_sk.metrics import client_report


class Fixed:
    """A classifier whose X holds its posteriors."""

    classes_ = np.array(["a", "b", "c"])

    def predict_proba(self, X):
        return np.asarray(X)

    def predict(self, X):
        return self.classes_[np.argmax(X, axis=1)]


POSTERIORS = np.array([[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.5, 0.25, 0.25], [0.3, 0.1, 0.6]])


def test_by_hand():
    report = client_report(Fixed(), POSTERIORS, ["a", "a", "b", "c"], groups=[7, 7, 3, 7])
    assert report.clients.tolist() == [3, 7]
    assert report.classes.tolist() == ["a", "b", "c"]
    assert report.n_rows.tolist() == [1, 3]
    assert report.class_count.tolist() == [[0, 1, 0], [2, 0, 1]]
    np.testing.assert_allclose(report.accuracy, [0, 2 / 3])
    np.testing.assert_allclose(report.balanced_accuracy, [0, 0.75])
    np.testing.assert_array_equal(report.recall, [[np.nan, 0, np.nan], [0.5, np.nan, 1]])
    np.testing.assert_allclose(report.log_loss, [-np.log(0.25), -np.log([0.8, 0.2, 0.6]).mean()])


def test_equals_scikit_learn_at_each_client():
    rng = np.random.default_rng(0)
    y = rng.choice(3, 200, p=[0.7, 0.2, 0.1])
    X = rng.normal(size=(200, 2)) + y[:, None]
    groups = np.sort(rng.integers(0, 6, 200))
    model = LogisticRegression().fit(X, y)
    report = client_report(model, X, pd.Series(y), groups)
    for row, client in enumerate(report.clients):
        mine = groups == client
        y_pred = model.predict(X[mine])
        assert report.accuracy[row] == pytest.approx(np.mean(y_pred == y[mine]))
        assert report.balanced_accuracy[row] == pytest.approx(balanced_accuracy_score(y[mine], y_pred))
        expected = log_loss(y[mine], model.predict_proba(X[mine]), labels=[0, 1, 2])
        assert report.log_loss[row] == pytest.approx(expected)


def test_a_client_of_one_class_has_all_columns():
    X = np.array([[0.0], [1.0], [2.0], [3.0]])
    model = LogisticRegression().fit(X, [0, 1, 1, 2])
    report = client_report(model, X[:1], [0], ["only"])
    assert report.recall.shape == report.class_count.shape == (1, 3)
    assert report.class_count.tolist() == [[1, 0, 0]]


def test_labels_the_model_never_saw_come_last_with_recall_zero():
    report = client_report(Fixed(), POSTERIORS[:2], ["zebra", "a"], [0, 0])
    assert report.classes.tolist() == ["a", "b", "c", "zebra"]
    assert report.recall[0].tolist()[3] == 0
    eps = np.finfo(np.float64).eps
    assert report.log_loss[0] == pytest.approx((-np.log(eps) - np.log(0.2)) / 2)


def test_log_loss_is_clipped_by_the_precision_of_the_posteriors():
    certain = np.array([[1.0, 0.0, 0.0]], dtype=np.float32)
    report = client_report(Fixed(), certain, ["b"], [0])
    assert report.log_loss[0] == pytest.approx(-np.log(np.finfo(np.float32).eps))


def test_without_posteriors_log_loss_is_nan():
    X = np.array([[0.0], [1.0], [2.0], [3.0]])
    model = LinearSVC().fit(X, [0, 0, 1, 1])
    report = client_report(model, X, [0, 0, 1, 1], list("abab"))
    assert np.isnan(report.log_loss).all()
    assert report.n_rows.tolist() == [2, 2]


def test_frame():
    report = client_report(Fixed(), POSTERIORS, ["a", "a", "b", "c"], groups=["x", "x", "w", "x"])
    frame = report.to_frame()
    assert frame.index.tolist() == ["w", "x"]
    assert frame.index.name == "client"
    assert frame.columns.tolist() == [
        "n_rows",
        "accuracy",
        "balanced_accuracy",
        "log_loss",
        "count_a",
        "count_b",
        "count_c",
        "recall_a",
        "recall_b",
        "recall_c",
    ]
    assert frame.loc["x", "recall_a"] == 0.5
    assert frame["n_rows"].dtype.kind == "i"


def test_frame_without_pandas(monkeypatch):
    report = client_report(Fixed(), POSTERIORS[:1], ["a"], [0])
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"pip install 'fedrela_sk\[plots\]'"):
        report.to_frame()


def test_bad_groups_and_labels():
    with pytest.raises(GroupsError, match=r"one entry per row: got shape \(3,\) for 4 rows"):
        client_report(Fixed(), POSTERIORS, list("abca"), groups=[1, 2, 3])
    with pytest.raises(LabelError, match=r"3 labels for 4 rows"):
        client_report(Fixed(), POSTERIORS, list("abc"), groups=[1, 2, 3])
    with pytest.raises(LabelError, match="requires y to be passed, but the target y is None"):
        client_report(Fixed(), POSTERIORS, None, groups=[1, 2, 3])


def test_posteriors_that_lack_a_column():
    broken = SimpleNamespace(
        classes_=np.array([0, 1, 2]),
        predict=lambda X: np.zeros(len(X), dtype=int),
        predict_proba=lambda X: np.full((len(X), 2), 0.5),
    )
    with pytest.raises(LabelError, match=r"each of 3 classes_ .* got shape \(4, 2\)"):
        client_report(broken, POSTERIORS, [0, 0, 1, 2], groups=[1, 1, 1, 1])
