"""Models of clients' own: everything that judges or predicts asks each client's, in any number of threads."""

import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import sklearn
from sklearn.callback import ScoringMonitor
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, balanced_accuracy_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fedrela_sk import FederatedClassifier
from fedrela_sk.exceptions import FedReLaWarning, GroupsError
from fedrela_sk.metrics import client_report, client_scorer

PERSONAL = ["fedrod", "fedloge", "local_only"]
stream = np.random.default_rng(0)
GROUPS = np.repeat(["a", "b", "c", "d"], 50)
X = stream.normal(size=(200, 4))
# what a feature means differs from client to client: no global head can know
Y = ((X[:, 0] * np.repeat([1, -1, 1, -1], 50)) > 0).astype(int)


def fit(algorithm="fedrod", X=X, Y=Y, groups=GROUPS, **settings):
    fed = FederatedClassifier(
        **({"clients": None, "algorithm": algorithm, "n_rounds": 8, "random_state": 0} | settings)
    )
    return fed.fit(X, Y, groups=groups)


@pytest.fixture(scope="module", params=PERSONAL)
def fitted(request):
    return fit(request.param)


# --- threads ------------------------------------------------------------------------------------------------


def test_threads_get_the_answers_of_their_own_clients(fitted):
    """One shared module into which heads are written would hand out another client's answers."""
    expected = {g: fitted.predict_proba(X, groups=np.full(len(X), g)) for g in "abcd"}
    assert not np.array_equal(expected["a"], expected["b"])

    def ask(i):
        g = "abcd"[i % 4]
        return np.array_equal(fitted.predict_proba(X, groups=np.full(len(X), g)), expected[g])

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(ask, range(400)))


def test_predicting_writes_nothing_to_the_net(fitted):
    net = fitted.net_ or fitted._own_models.net
    before = {name: tensor.clone() for name, tensor in net.module_.state_dict().items()}
    fitted.predict(X, groups=GROUPS)
    assert all((tensor == before[name]).all() for name, tensor in net.module_.state_dict().items())


# --- reports and scorers ----------------------------------------------------------------------------------------


def test_a_report_asks_each_clients_own_model(fitted):
    own = fitted.predict(X, groups=GROUPS)
    expected = [accuracy_score(Y[g == GROUPS], own[g == GROUPS]) for g in "abcd"]
    report = client_report(fitted, X, Y, GROUPS)
    np.testing.assert_allclose(report.accuracy, expected)
    losses = -np.log(fitted.predict_proba(X, groups=GROUPS)[np.arange(200), Y])
    np.testing.assert_allclose(report.log_loss, losses.reshape(4, 50).mean(1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FedReLaWarning)
        assert np.mean(expected) > accuracy_score(Y, fitted.predict(X)) + 0.05


def test_reports_and_scorers_see_through_pipelines_and_searches():
    plain = fit()
    scaled = make_pipeline(
        StandardScaler(), FederatedClassifier(clients=None, algorithm="fedrod", n_rounds=8, random_state=0)
    )
    scaled.fit(X, Y, federatedclassifier__groups=GROUPS)
    search = GridSearchCV(
        plain, {"n_rounds": [8]}, cv=[(np.arange(200), np.arange(200))], scoring=client_scorer()
    )
    with sklearn.config_context(enable_metadata_routing=True):
        search.set_params(scoring=client_scorer().set_score_request(groups=True)).fit(X, Y, groups=GROUPS)
    scores = [client_report(model, X, Y, GROUPS).accuracy.mean() for model in (plain, scaled, search)]
    assert scores[0] == pytest.approx(accuracy_score(Y, plain.predict(X, groups=GROUPS)))
    assert min(scores) > accuracy_score(Y, fit("fedavg").predict(X)) + 0.05
    assert client_scorer("accuracy")(search, X, Y, groups=GROUPS) == pytest.approx(scores[0])


def test_models_without_clients_are_scored_as_ever():
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, Y)
    np.testing.assert_allclose(client_report(model, X, Y, GROUPS).n_rows, 50)


# --- callbacks ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", PERSONAL)
def test_a_monitor_scores_rows_of_the_fit_by_their_own_clients(algorithm):
    monitor = ScoringMonitor(scoring="accuracy")
    fed = FederatedClassifier(clients=None, algorithm=algorithm, n_rounds=3, random_state=0)
    fed.set_callbacks(monitor).fit(X, Y, groups=GROUPS)
    scores = [
        row["accuracy"] for row in monitor.get_logs().data if row["task_name"] == "fit" or row["task_id"] == 2
    ]
    expected = accuracy_score(Y, fed.predict(X, groups=GROUPS))
    assert scores
    assert all(score == pytest.approx(expected) for score in scores)


class Seen:
    """A callback that keeps the metadata that it is shown."""

    def __init__(self):
        self.metadata = []

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context, *, metadata=None, **kwargs):
        pass

    def on_fit_task_end(self, estimator, context, *, metadata=None, **kwargs):
        self.metadata.append(metadata)


def test_callbacks_find_groups_in_the_metadata():
    seen = Seen()
    FederatedClassifier(clients=None, n_rounds=2, random_state=0).set_callbacks(seen).fit(X, Y, groups=GROUPS)
    assert seen.metadata
    for metadata in seen.metadata:
        assert metadata["groups"] is GROUPS
        assert metadata.get("groups") is GROUPS
        assert {**metadata} == {"sample_weight": None}
        with pytest.raises(KeyError):
            metadata["other"]


# --- validation rows ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", PERSONAL)
def test_validation_rows_with_groups_are_judged_by_their_own_clients(algorithm):
    fed = FederatedClassifier(
        clients=None, algorithm=algorithm, n_rounds=4, select="best_validation", random_state=0
    )
    fed.fit(X, Y, groups=GROUPS, X_val=X, y_val=Y, groups_val=GROUPS)
    best = max(record.valid_score for record in fed.history_)
    assert balanced_accuracy_score(Y, fed.predict(X, groups=GROUPS)) == pytest.approx(best)


def test_validation_rows_without_groups_are_worth_a_warning():
    with pytest.warns(FedReLaWarning, match="X_val came without groups_val") as caught:
        FederatedClassifier(clients=None, algorithm="fedrod", n_rounds=1, random_state=0).fit(
            X, Y, groups=GROUPS, X_val=X, y_val=Y
        )
    assert caught[0].filename == __file__
    FederatedClassifier(clients=None, n_rounds=1, random_state=0).fit(X, Y, groups=GROUPS, X_val=X, y_val=Y)


def test_groups_of_validation_rows_are_checked():
    fed = FederatedClassifier(clients=None, algorithm="fedrod", n_rounds=1, random_state=0)
    with pytest.raises(
        GroupsError, match=r"groups_val must have one entry per row: got shape \(3,\) for 200"
    ):
        fed.fit(X, Y, groups=GROUPS, X_val=X, y_val=Y, groups_val=GROUPS[:3])
    with pytest.raises(ValueError, match="pass X_val and y_val too"):
        fed.fit(X, Y, groups=GROUPS, groups_val=GROUPS)


def test_new_arguments_of_fit_are_keywords_and_requested_by_nobody():
    fed = FederatedClassifier(clients=3, n_rounds=1)
    with pytest.raises(TypeError):
        fed.fit(X, Y, None, None, X, Y, GROUPS)
    requests = fed.get_metadata_routing().fit.requests
    assert set(requests) == {"groups", "sample_weight"}


# --- the global head, asked without groups ---


@pytest.mark.parametrize("method", ["predict", "predict_proba", "predict_log_proba"])
def test_one_warning_where_the_global_head_answers(method):
    fed = fit()
    with pytest.warns(
        FedReLaWarning, match="Clients have heads of their own under FedROD, but no groups"
    ) as caught:
        getattr(fed, method)(X)
    assert [w.filename for w in caught] == [__file__]
    getattr(fed, method)(X)
    for algorithm in ("fedavg", "local_only"):
        getattr(fit(algorithm, n_rounds=1), method)(X)
