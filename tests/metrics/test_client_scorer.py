"""Scores of personal models: whose model predicts, how clients are averaged, how groups arrive."""

import numpy as np
import pytest
import sklearn
from sklearn.dummy import DummyClassifier
from sklearn.metrics import accuracy_score, balanced_accuracy_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fedrela_sk import FederatedClassifier
from fedrela_sk.metrics import client_scorer, federated_scorer

STREAM = np.random.default_rng(0)
BANK = np.repeat(["a", "b", "c"], [60, 40, 20])
# every client turns another rule into labels, so that one model for all must fail
SIGN = np.where(BANK == "a", 1, -1)
X = STREAM.normal(size=(120, 2)).astype(np.float32)
Y = np.where(SIGN * X[:, 0] > 0, "yes", "no")


def fed(**params):
    settings = {"clients": None, "algorithm": "local_only", "n_rounds": 15, "random_state": 0} | params
    return FederatedClassifier(**settings)


@pytest.fixture(scope="module")
def fitted():
    return fed().fit(X, Y, groups=BANK)


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


class Table:
    """Predicts what a table says for each client."""

    classes_ = np.array([0, 1])

    def predict(self, X, groups=None):
        return np.array(
            [{"a": 1, "b": 0}.get(g, 0) for g in (groups if groups is not None else [""] * len(X))]
        )


def test_rows_are_predicted_by_their_own_client(fitted):
    own = client_scorer("accuracy")(fitted, X, Y, groups=BANK)
    assert own == accuracy_score(Y, fitted.predict(X, groups=BANK))
    assert own > 0.85
    assert client_scorer("accuracy")(fitted, X, Y) == federated_scorer("accuracy")(fitted, X, Y) < own - 0.2


def test_averages_by_hand():
    y, groups = [1, 1, 0, 1, 0], ["a", "a", "a", "b", "b"]  # predictions 1 1 1 0 0: 2 of 3 and 1 of 2
    rows = np.zeros((5, 1))
    assert client_scorer("accuracy")(Table(), rows, y, groups=groups) == pytest.approx(3 / 5)
    assert client_scorer("accuracy", average="clients")(Table(), rows, y, groups=groups) == pytest.approx(
        7 / 12
    )


def test_row_weights_count_inside_the_scores():
    y, groups = [0, 1, 1, 1, 0], ["b", "a", "a", "b", "a"]  # predictions 0 1 1 0 1
    weights = [3.0, 1.0, 2.0, 1.0, 5.0]
    for average, expected in {"rows": 6 / 12, "clients": (3 / 8 + 3 / 4) / 2}.items():
        scorer = client_scorer("accuracy", average=average)
        score = scorer(Table(), np.zeros((5, 1)), y, groups=groups, sample_weight=weights)
        assert score == pytest.approx(expected)


def test_a_client_whose_rows_weigh_nothing_is_left_out():
    scorer = client_scorer("accuracy", average="clients")
    rows, groups = np.zeros((3, 1)), ["a", "a", "b"]
    assert scorer(Table(), rows, [1, 0, 1], groups=groups, sample_weight=[1.0, 1.0, 0.0]) == 0.5
    assert np.isnan(scorer(Table(), rows, [1, 0, 1], groups=groups, sample_weight=np.zeros(3)))


def test_a_client_without_a_score_is_left_out():
    scorer = client_scorer("recall", average="clients", pos_label=1)
    rows, groups = np.zeros((3, 1)), ["a", "a", "b"]
    assert scorer(Table(), rows, [1, 0, 0], groups=groups) == 1.0  # b has no row of class 1
    assert np.isnan(scorer(Table(), rows, [0, 0, 0], groups=groups))


def test_a_class_that_the_model_never_saw_is_a_miss():
    assert client_scorer("accuracy")(Table(), np.zeros((2, 1)), [1, 7], groups=["a", "a"]) == 0.5


@pytest.mark.usefixtures("routing")
def test_cross_validation_routes_groups(fitted):
    cv = StratifiedKFold(3, shuffle=True, random_state=0)
    scorer = client_scorer().set_score_request(groups=True)
    scores = cross_validate(fed(), X, Y, scoring=scorer, cv=cv, params={"groups": BANK})["test_score"]
    train, test = next(cv.split(X, Y))
    first = fed().fit(X[train], Y[train], groups=BANK[train])
    assert scores[0] == balanced_accuracy_score(Y[test], first.predict(X[test], groups=BANK[test]))
    assert scores.mean() > 0.8
    plain = cross_validate(fed(), X, Y, scoring="balanced_accuracy", cv=cv, params={"groups": BANK})
    assert plain["test_score"].mean() < 0.7


@pytest.mark.usefixtures("routing")
def test_weights_are_routed_beside_groups():
    weights = np.where(Y == "yes", 4.0, 1.0)
    cv = StratifiedKFold(3, shuffle=True, random_state=0)
    scorer = client_scorer("accuracy", average="clients").set_score_request(groups=True, sample_weight=True)
    score = cross_validate(
        fed(n_rounds=2).set_fit_request(sample_weight=False),
        X,
        Y,
        scoring=scorer,
        cv=cv,
        params={"groups": BANK, "sample_weight": weights},
    )["test_score"][0]
    train, test = next(cv.split(X, Y))
    first = fed(n_rounds=2).fit(X[train], Y[train], groups=BANK[train])
    right = first.predict(X[test], groups=BANK[test]) == Y[test]
    own = [np.average(right[BANK[test] == b], weights=weights[test][BANK[test] == b]) for b in "abc"]
    assert score == pytest.approx(np.mean(own))


@pytest.mark.usefixtures("routing")
def test_groups_pass_a_pipeline_and_a_search():
    search = GridSearchCV(
        make_pipeline(StandardScaler(), fed()),
        {"federatedclassifier__n_rounds": [1, 15]},
        scoring=client_scorer().set_score_request(groups=True),
        cv=StratifiedKFold(3, shuffle=True, random_state=0),
    ).fit(X, Y, groups=BANK)
    assert search.best_params_ == {"federatedclassifier__n_rounds": 15}
    assert search.best_score_ > 0.8


def test_an_estimator_without_clients_says_so():
    model = DummyClassifier().fit(X, Y)
    assert client_scorer("accuracy")(model, X, Y) == accuracy_score(Y, model.predict(X))
    with pytest.raises(ValueError, match=r"DummyClassifier\.predict does not take any.*federated_scorer"):
        client_scorer()(model, X, Y, groups=BANK)


def test_its_parameters():
    assert repr(client_scorer("f1", average="clients", pos_label=1)) == (
        "client_scorer(average='clients', metric='f1', pos_label=1)"
    )
    with pytest.raises(ValueError, match=r"average must be one of \('rows', 'clients'\), got 'all'"):
        client_scorer(average="all")


def test_score_takes_groups(fitted):
    assert fitted.score(X, Y, groups=BANK) == accuracy_score(Y, fitted.predict(X, groups=BANK))
    weights = np.where(BANK == "a", 2.0, 0.0)
    assert fitted.score(X, Y, weights, BANK) == accuracy_score(
        Y, fitted.predict(X, groups=BANK), sample_weight=weights
    )


def test_a_metric_that_needs_more_than_counts_is_refused_at_once():
    with pytest.raises(ValueError, match=r"metric must be one of \['accuracy', .*got 'average_precision'"):
        client_scorer("average_precision")
