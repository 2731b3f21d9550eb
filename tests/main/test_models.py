import numpy as np
import pytest
from sklearn.metrics import f1_score, get_scorer, recall_score

from fedrela_sk._main._models import (
    make_features,
    make_federated_others,
    make_pooled,
    make_scorers,
    metric_names,
    n_encoded,
    relabel_index,
)


def test_features_are_dense_float32_of_the_known_width(small_problem):
    X = small_problem.X.copy()
    X.loc[0, "annual_inc"] = np.nan
    X.loc[1, "term"] = np.nan
    encoded = make_features(X).fit_transform(X)
    assert encoded.dtype == np.float32
    assert encoded.shape == (len(X), n_encoded(X))
    assert np.isfinite(encoded).all()
    np.testing.assert_allclose(encoded[:, :17].mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(encoded[:, 17:].sum(axis=1), 4)


def test_width_does_not_depend_on_the_rows(small_problem):
    few = make_features(small_problem.X).fit(small_problem.X[:50])
    assert few.transform(small_problem.X).shape[1] == n_encoded(small_problem.X)


def test_rounds_of_the_others(small_problem, options):
    others = make_federated_others(small_problem, options, _NoCallback(), None)
    assert relabel_index(6) == 3
    assert {name: rounds for name, (_, rounds) in others.items()} == {
        "federated, class weights": 6,
        "federated, tuned threshold": 6 + 3,
    }


def test_threshold_needs_two_classes(small_problem, options):
    three = _with_classes(small_problem, {0: "a", 1: "b", 2: "c"})
    assert list(make_federated_others(three, options, _NoCallback(), None)) == ["federated, class weights"]


def test_pooled_models_fit_frames_as_they_are(small_problem, options):
    for model in make_pooled(small_problem, options).values():
        assert (
            model.fit(small_problem.X, small_problem.y).predict(small_problem.X).shape
            == small_problem.y.shape
        )


@pytest.mark.parametrize("n_classes", [2, 3])
def test_scorers(small_problem, n_classes):
    problem = _with_classes(small_problem, {k: f"class {k}" for k in range(n_classes)})
    y = np.arange(12) % n_classes
    predicted = np.roll(y, 3) if n_classes == 2 else np.where(np.arange(12) < 5, y, 0)
    scorers, model = make_scorers(problem), _Fixed(predicted, n_classes)
    assert list(scorers) == list(metric_names(problem))
    got = {name: _score(scorer, model, y) for name, scorer in scorers.items()}
    assert got["recall"] == recall_score(y, predicted, average=None)[1]
    expected = f1_score(y, predicted) if n_classes == 2 else f1_score(y, predicted, average="macro")
    assert got["f1"] == expected


def _score(scorer, model, y):
    scorer = get_scorer(scorer) if isinstance(scorer, str) else scorer
    return scorer(model, np.zeros((len(y), 1)), y)


def _with_classes(problem, names):
    import dataclasses

    return dataclasses.replace(problem, class_names=names)


class _Fixed:
    """A classifier that answers what it was told."""

    _estimator_type = "classifier"

    def __init__(self, predicted, n_classes):
        self.predicted, self.classes_ = predicted, np.arange(n_classes)

    def fit(self, X, y):
        return self

    def predict(self, X):
        return self.predicted

    def predict_proba(self, X):
        return np.eye(len(self.classes_))[self.predicted]

    def __sklearn_tags__(self):
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression().__sklearn_tags__()


class _NoCallback:
    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context):
        pass
