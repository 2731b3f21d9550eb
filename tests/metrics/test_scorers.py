"""Scorers in searches, pipelines and with routed metadata."""

import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, check_scoring, f1_score, make_scorer, recall_score
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fedrela_sk import metrics
from fedrela_sk.exceptions import GroupsError, LabelError

ALL_SCORERS = [
    metrics.head_recall_scorer,
    metrics.medium_recall_scorer,
    metrics.tail_recall_scorer,
    metrics.majority_recall_scorer,
    metrics.minority_recall_scorer,
    metrics.shot_recall_scorer("tail", counts=[80, 10, 6, 4], cuts=(0.5, 0.9)),
    metrics.majority_minority_recall_scorer("minority", minority=[2]),
    metrics.federated_scorer(),
    metrics.federated_scorer("recall", pos_label=2),
    metrics.cost_by_amount_scorer(1, alert_cost=2, pos_label=2),
]
BINARY_SCORERS = [metrics.recall_at_alerts_scorer(10), metrics.precision_at_k_scorer(10)]


COUNTS = {2: [360, 40], 4: [420, 120, 36, 24]}  # of four: head, head, medium, tail


def data(n_classes=4):
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat(np.arange(n_classes), COUNTS[n_classes]))
    return np.abs(rng.normal(size=(len(y), 3)) + y[:, None]), y


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.mark.parametrize("scorer", ALL_SCORERS, ids=repr)
def test_in_a_search_over_a_pipeline(scorer):
    X, y = data()
    search = GridSearchCV(
        make_pipeline(StandardScaler(with_mean=False), GaussianNB()),
        {"gaussiannb__var_smoothing": [1e-9, 1.0]},
        scoring=scorer,
        cv=3,
        error_score="raise",
    ).fit(X, y)
    np.testing.assert_allclose(scorer(search, X, y), scorer(search.best_estimator_, X, y))
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert pickle.loads(pickle.dumps(scorer))(search, X, y) == scorer(search, X, y)


@pytest.mark.parametrize("scorer", BINARY_SCORERS, ids=repr)
@pytest.mark.parametrize("model", [GaussianNB(), LogisticRegression()])
def test_budget_scorers_use_posteriors_or_decision_values(scorer, model):
    X, y = data(2)
    model = clone(model).fit(X, y)
    posteriors = model.predict_proba(X)[:, 1]
    y_top = y[np.argsort(-posteriors, kind="stable")[:10]]
    n_positives = y.sum() if "recall" in repr(scorer) else 10
    assert scorer(model, X, y) == pytest.approx(y_top.sum() / n_positives)


def test_several_scorers_at_once():
    X, y = data()
    scoring = {
        "head": metrics.head_recall_scorer,
        "tail": metrics.tail_recall_scorer,
        "federated": metrics.federated_scorer(),
        "plain": "balanced_accuracy",
        "rarest": make_scorer(recall_score, labels=[3], average="macro"),
        "frequent": make_scorer(recall_score, labels=[0, 1], average="macro"),
    }
    result = cross_validate(GaussianNB(), X, y, scoring=scoring, cv=3, error_score="raise")
    np.testing.assert_allclose(result["test_federated"], result["test_plain"])
    np.testing.assert_allclose(result["test_tail"], result["test_rarest"])
    np.testing.assert_allclose(result["test_head"], result["test_frequent"])


def test_shots_come_from_the_training_counts_not_from_the_scored_rows():
    X, y = data()
    model = GaussianNB().fit(X, y)
    rare_first = np.concatenate([np.flatnonzero(y == 2), np.flatnonzero(y == 0)[:3]])
    expected = metrics.shot_recall(
        y[rare_first], model.predict(X[rare_first]), model.class_count_, labels=range(4)
    )
    assert metrics.head_recall_scorer(model, X[rare_first], y[rare_first]) == expected["head"]
    tail = metrics.shot_recall_scorer("tail", counts={0: 1, 1: 1, 2: 97, 3: 1})
    assert tail(model, X, y) == pytest.approx(metrics.group_recall(y, model.predict(X), list("ttxt"))["t"])


def test_given_counts_follow_classes_and_may_be_a_mapping():
    X, y = data()
    model = LogisticRegression().fit(X, y)
    recalls = metrics.per_class_recall(y, model.predict(X))
    for counts in ([5, 15, 80, 0], {2: 80, 1: 15, 0: 5, 3: 0}):
        scores = [metrics.shot_recall_scorer(name, counts=counts)(model, X, y) for name in ("head", "medium")]
        np.testing.assert_allclose(scores, [recalls[2], recalls[1]])


def test_average_is_passed_on():
    X, y = data()
    model = LogisticRegression().fit(X, y)
    micro = metrics.majority_minority_recall_scorer("majority", minority=[2], average="micro")(model, X, y)
    mine = y != 2
    assert micro == pytest.approx(np.mean(model.predict(X)[mine] == y[mine]))


def test_sample_weight_is_passed_on():
    X, y = data()
    model = GaussianNB().fit(X, y)
    weight = np.random.default_rng(0).random(len(y))
    score = metrics.federated_scorer()(model, X, y, sample_weight=weight)
    assert score == pytest.approx(balanced_accuracy_score(y, model.predict(X), sample_weight=weight))
    tail = metrics.minority_recall_scorer(model, X, y, sample_weight=weight)
    expected = metrics.majority_minority_recall(y, model.predict(X), model.class_count_, sample_weight=weight)
    assert tail == pytest.approx(expected["minority"])


class Wrapped(ClassifierMixin, BaseEstimator):
    """A meta-estimator that keeps what it fitted under a given name."""

    def __init__(self, name="estimator_"):
        self.name = name

    def fit(self, X, y):
        inner = GaussianNB().fit(X, y)
        self.classes_ = inner.classes_
        setattr(self, self.name, inner)
        return self

    def predict(self, X):
        return getattr(self, self.name).predict(X)


@pytest.mark.parametrize("name", ["estimator_", "relabeler_", "best_estimator_"])
def test_counts_are_found_inside_meta_estimators(name):
    X, y = data()
    model = make_pipeline(StandardScaler(), Wrapped(name)).fit(X, y)
    classes, counts = metrics.fitted_class_count(model)
    assert classes.tolist() == [0, 1, 2, 3]
    assert counts.tolist() == np.bincount(y).tolist()


def test_no_counts_anywhere():
    X, y = data()
    model = make_pipeline(LogisticRegression()).fit(X, y)
    with pytest.raises(
        LabelError, match=r"pass counts=\{class: rows\} .* got a Pipeline without class_count_"
    ):
        metrics.tail_recall_scorer(model, X, y)


def test_classes_of_a_fold_may_be_unknown_or_absent():
    X, y = data()
    model = GaussianNB().fit(X, np.minimum(y, 2))  # class 3 was never seen
    assert metrics.shot_recall_scorer("tail")(model, X, y) == 0
    few = np.flatnonzero(y == 2)
    assert np.isnan(metrics.head_recall_scorer(model, X[few], y[few]))
    assert 0 <= metrics.federated_scorer()(model, X[few], y[few]) <= 1
    assert np.isnan(metrics.federated_scorer("recall", pos_label=1)(model, X[y == 0], y[y == 0]))


def test_string_classes():
    X, y = data(2)
    names = np.array(["bad", "good"])[1 - y]
    model = GaussianNB().fit(X, names)
    recall = metrics.federated_scorer("recall", pos_label="bad")(model, X, names)
    assert recall == metrics.minority_recall_scorer(model, X, names)
    f1 = metrics.federated_scorer("f1")(model, X, names)
    assert f1 == pytest.approx(f1_score(names, model.predict(X), pos_label="good"))
    with pytest.raises(ValueError, match="pos_label=1 is not a valid label"):
        metrics.recall_at_alerts_scorer(5)(model, X, names)
    with pytest.raises(LabelError, match=r"labels \['bad', 'good'\] .* got 1"):
        metrics.cost_by_amount_scorer(0)(model, X, names)


def test_groups_are_routed_to_the_scorer(routing):
    X, y = data()
    groups = np.arange(len(y)) % 7
    seen = []

    class Spy(type(metrics.federated_scorer())):
        def _complete(self, kwargs, estimator, X, labels):
            seen.append(np.array(kwargs["groups"]))
            return super()._complete(kwargs, estimator, X, labels)

    scorer = Spy(metrics.federated_score, 1, {"metric": "accuracy"}).set_score_request(groups=True)
    search = GridSearchCV(GaussianNB(), {"var_smoothing": [1e-9]}, scoring=scorer, cv=2)
    search.fit(X, y, groups=groups)
    assert sorted(np.concatenate(seen)) == sorted(groups)
    plain = GridSearchCV(GaussianNB(), {"var_smoothing": [1e-9]}, scoring="accuracy", cv=2).fit(X, y)
    assert search.best_score_ == pytest.approx(plain.best_score_)


def test_groups_are_checked(routing):
    X, y = data()
    model = GaussianNB().fit(X, y)
    with pytest.raises(GroupsError, match=r"got shape \(3,\)"):
        metrics.federated_scorer()(model, X, y, groups=[1, 2, 3])


def test_periods_and_amounts_are_routed(routing):
    X, y = data(2)
    amount, day = X[:, 0], np.arange(len(y)) % 4
    scoring = {
        "recall": metrics.recall_at_alerts_scorer(3).set_score_request(period="day"),
        "cost": metrics.cost_by_amount_scorer(normalize=True).set_score_request(amount=True),
    }
    result = cross_validate(
        GaussianNB(), X, y, scoring=scoring, cv=2, params={"day": day, "amount": amount}, error_score="raise"
    )
    by_column = cross_validate(
        GaussianNB(), X, y, scoring=metrics.cost_by_amount_scorer(0, normalize=True), cv=2
    )
    np.testing.assert_allclose(result["test_cost"], by_column["test_score"])
    whole = cross_validate(GaussianNB(), X, y, scoring=metrics.recall_at_alerts_scorer(3), cv=2)
    assert (result["test_recall"] > whole["test_score"]).all()


def test_amounts_from_a_named_column():
    frame = pd.DataFrame({"amount": [10.0, 20.0, 30.0], "x": [0.0, 1.0, 2.0]})
    model = DummyClassifier(strategy="most_frequent").fit(frame, [0, 0, 1])
    scorer = metrics.cost_by_amount_scorer("amount")
    assert scorer(model, frame, [0, 1, 1]) == -50
    assert repr(scorer) == "cost_by_amount_scorer('amount', alert_cost=0.0, pos_label=1, normalize=False)"


def test_no_amounts():
    model = DummyClassifier().fit([[0], [1]], [0, 1])
    with pytest.raises(
        ValueError, match=r"cost_by_amount_scorer\(column\).* set_score_request.* got neither"
    ):
        metrics.cost_by_amount_scorer()(model, [[0], [1]], [0, 1])


def test_names_of_groups_are_checked_at_once():
    with pytest.raises(ValueError, match=r"shot must be one of \('head', 'medium', 'tail'\), got 'few'"):
        metrics.shot_recall_scorer("few")
    with pytest.raises(ValueError, match=r"group must be one of \('majority', 'minority'\), got 'rare'"):
        metrics.majority_minority_recall_scorer("rare")


def test_representations_tell_what_is_scored():
    assert repr(metrics.tail_recall_scorer) == (
        "shot_recall_scorer('tail', counts=None, cuts=(0.75, 0.95), average='macro')"
    )
    assert "minority=[3]" in repr(metrics.majority_minority_recall_scorer("minority", minority=[3]))
    assert "federated_score" in repr(metrics.federated_scorer())
    assert check_scoring(GaussianNB(), metrics.tail_recall_scorer) is metrics.tail_recall_scorer
