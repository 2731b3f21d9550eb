"""Inside pipelines and searches: routing of groups, parameters by name, parallel jobs, lost groups."""

import pickle
import warnings

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.model_selection import GridSearchCV, GroupKFold, PredefinedSplit, StratifiedKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fedrela_sk import DirichletSplit, FederatedClassifier, FedReLaRelabeler
from fedrela_sk.exceptions import GroupsError
from tests.federation.helpers import Logits, assert_same_weights, make_fed, make_net, make_rows

X, Y = make_rows(90)
GROUPS = np.array(["a", "b", "c", "d", "e", "f"])[np.random.default_rng(0).integers(0, 6, 90)]
TAUS = {"federatedclassifier__relabeler__tau": [0.0, 0.05, 0.4]}


def piped(**params):
    defaults = {"relabeler": FedReLaRelabeler(), "n_rounds": 3}
    return make_pipeline(StandardScaler(), make_fed(**(defaults | params)))


def test_the_first_example_of_the_design():
    search = GridSearchCV(
        piped(clients=DirichletSplit(4, alpha=0.5)),
        TAUS,
        scoring="balanced_accuracy",
        cv=StratifiedKFold(3),
        error_score="raise",
    ).fit(X, Y)
    assert search.best_params_.keys() == TAUS.keys()
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    best = search.best_estimator_[-1]
    assert best.relabeler.tau == search.best_params_["federatedclassifier__relabeler__tau"]
    assert search.predict(X).shape == (90,)


def test_a_search_equals_direct_fits():
    search = GridSearchCV(piped(), TAUS, cv=StratifiedKFold(2), error_score="raise").fit(X, Y)
    for k, tau in enumerate(TAUS["federatedclassifier__relabeler__tau"]):
        for fold, (train, test) in enumerate(StratifiedKFold(2).split(X, Y)):
            direct = piped(relabeler=FedReLaRelabeler(tau)).fit(X[train], Y[train])
            assert search.cv_results_[f"split{fold}_test_score"][k] == direct.score(X[test], Y[test])


def test_two_jobs_equal_one():
    one, two = (
        GridSearchCV(piped(), TAUS, cv=2, n_jobs=n_jobs, error_score="raise").fit(X, Y) for n_jobs in (1, 2)
    )
    for name in ("split0_test_score", "split1_test_score"):
        np.testing.assert_array_equal(one.cv_results_[name], two.cv_results_[name])
    assert_same_weights(one.best_estimator_[-1], two.best_estimator_[-1])


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("clients__alpha", [0.1, 10.0]),
        ("estimator__lr", [0.01, 0.1]),
        ("estimator__module__dtype", None),
        ("relabeler__normalization", ["minmax", "zscore_tanh"]),
        ("n_rounds", [1, 2]),
        ("relabeler", [None, FedReLaRelabeler(0.3)]),
        ("algorithm", ["fedavg", "local_only"]),
    ],
)
def test_any_parameter_can_be_searched(name, values):
    import torch

    values = [torch.float32, torch.float64] if values is None else values
    fed = make_fed(make_net(Logits), clients=DirichletSplit(3), relabeler=FedReLaRelabeler(0.3))
    search = GridSearchCV(fed, {name: values}, cv=2, error_score="raise").fit(X, Y)
    assert search.best_params_[name] in values


def test_groups_are_requested_by_default():
    request = make_fed().get_metadata_routing().fit.requests
    assert request["groups"] is True
    assert set(request) == {"groups", "sample_weight"}
    assert request["sample_weight"] is None


def test_a_search_with_routing_and_groups_end_to_end():
    with config_context(enable_metadata_routing=True):
        search = GridSearchCV(
            piped(clients=None), TAUS, cv=GroupKFold(3), scoring="balanced_accuracy", error_score="raise"
        ).fit(X, Y, groups=GROUPS)
    best = search.best_estimator_[-1]
    assert best.client_names_ == list("abcdef")
    for name, rows in zip(best.client_names_, best.clients_, strict=True):
        np.testing.assert_array_equal(rows, np.flatnonzero(name == GROUPS))


def test_folds_get_their_own_rows_groups():
    seen = []

    class Watching(FederatedClassifier):
        def fit(
            self,
            X,
            y,
            groups=None,
            sample_weight=None,
            X_val=None,
            y_val=None,
            *,
            groups_val=None,
            resume=None,
        ):
            super().fit(X, y, groups)
            seen.append((self.client_names_, [len(rows) for rows in self.clients_], len(y)))
            return self

    fed = Watching(**make_fed(clients=None).get_params(deep=False))
    with config_context(enable_metadata_routing=True):
        cross_validate(fed, X, Y, cv=GroupKFold(3), params={"groups": GROUPS}, error_score="raise")
    for fold, (train, _) in enumerate(GroupKFold(3).split(X, Y, GROUPS)):
        names, counts = np.unique(GROUPS[train], return_counts=True)
        assert seen[fold] == (names.tolist(), counts.tolist(), len(train))


def test_groups_get_lost_without_routing_and_the_error_says_how():
    with pytest.raises(ValueError, match=r"(?s)All the 9 fits failed.*enable_metadata_routing=True"):
        GridSearchCV(piped(clients=None), TAUS, cv=GroupKFold(3)).fit(X, Y, groups=GROUPS)
    with pytest.raises(GroupsError, match=r"clients=None .* fit got no groups"):
        GridSearchCV(piped(clients=None), TAUS, cv=3, error_score="raise").fit(X, Y)


def test_outer_groups_with_a_number_of_clients_name_both_ways_out():
    with config_context(enable_metadata_routing=True):
        search = GridSearchCV(make_fed(clients=3), {"n_rounds": [1]}, cv=GroupKFold(3), error_score="raise")
        with pytest.raises(GroupsError, match=r"clients=3 .*clients=None .*set_fit_request\(groups=False\)"):
            search.fit(X, Y, groups=GROUPS)
        search = clone(search).set_params(estimator=make_fed(clients=3).set_fit_request(groups=False))
        search.fit(X, Y, groups=GROUPS)
    assert search.best_estimator_.client_names_ == [0, 1, 2]


def test_outer_and_inner_group_folds_share_groups():
    with config_context(enable_metadata_routing=True):
        search = GridSearchCV(
            make_fed(clients=GroupKFold(2)), {"n_rounds": [1, 2]}, cv=GroupKFold(3), error_score="raise"
        ).fit(X, Y, groups=GROUPS)
    best = search.best_estimator_
    assert best.client_names_ == [0, 1]  # positions, although groups cut the rows
    for rows in best.clients_:
        others = np.setdiff1d(np.arange(90), rows)
        assert not set(GROUPS[rows]) & set(GROUPS[others])


def test_weights_are_routed_on_request():
    weights = np.random.default_rng(0).integers(1, 4, 90).astype(float)
    fed = make_fed(clients=3)
    with config_context(enable_metadata_routing=True):
        pipe = make_pipeline(StandardScaler(), fed)
        with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
            pipe.fit(X, Y, sample_weight=weights)
        pipe = make_pipeline(
            StandardScaler().set_fit_request(sample_weight=False),
            clone(fed).set_fit_request(sample_weight=True, groups=False),
        )
        pipe.fit(X, Y, sample_weight=weights)
    direct = clone(fed).fit(StandardScaler().fit_transform(X), Y, sample_weight=weights)
    assert_same_weights(pipe[-1], direct)


def test_a_predefined_split_explains_itself_in_a_search():
    split = PredefinedSplit(np.arange(90) % 3)
    fed = make_fed(clients=split).fit(X, Y)
    assert [len(rows) for rows in fed.clients_] == [30, 30, 30]
    with pytest.raises(ValueError, match=r"PredefinedSplit.*inside a search.*clients=None and pass groups"):
        GridSearchCV(make_fed(clients=split), {"n_rounds": [1]}, cv=3, error_score="raise").fit(X, Y)


def test_a_fold_that_lacks_a_class_keeps_its_columns():
    y = Y.copy()
    y[:] = 0
    y[:10], y[10] = 1, 2  # the one row of class 2 is in a single fold
    fed = make_fed(make_net(module__n_classes=3))
    for train, _ in StratifiedKFold(3).split(X, np.minimum(y, 1)):
        classes = np.unique(y[train])
        net = make_net(module__n_classes=len(classes))
        Q = clone(fed).set_params(estimator=net).fit(X[train], y[train]).predict_proba(X)
        assert Q.shape == (90, len(classes))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # a net that is sized at fit follows each fold
        scores = cross_validate(make_fed().set_params(estimator=None), X, y, cv=3, error_score="raise")
    assert np.isfinite(scores["test_score"]).all()


def test_clone_and_parameters():
    fed = make_fed(clients=DirichletSplit(4), relabeler=FedReLaRelabeler(0.1))
    params = fed.get_params()
    assert params["clients__alpha"] == 0.3
    assert params["relabeler__tau"] == 0.1
    assert params["estimator__lr"] == 0.1
    fed.set_params(clients__alpha=2.0, relabeler__tau=0.2, estimator__lr=0.5)
    assert (fed.clients.alpha, fed.relabeler.tau, fed.estimator.lr) == (2.0, 0.2, 0.5)
    again = clone(fed.fit(X, Y))
    assert not hasattr(again, "net_")
    assert again.get_params()["clients__alpha"] == 2.0
    assert again.clients is not fed.clients
    assert "FederatedClassifier(" in repr(fed)


def test_constructor_stores_and_nothing_else():
    defaults = FederatedClassifier().get_params(deep=False)
    assert vars(FederatedClassifier()) == defaults
    odd = {name: object() for name in defaults}
    fed = FederatedClassifier(odd.pop("estimator"), **odd)
    assert all(getattr(fed, name) is value for name, value in odd.items())


def test_the_callers_net_and_its_parameters_stay_untouched():
    net = make_net(batch_size=8, optimizer__momentum=0.5)
    before = dict(net.get_params())
    fed = make_fed(net, lr_schedule=0.1).fit(X, Y)
    assert not net.initialized_
    assert not hasattr(net, "module_")
    assert net.get_params().keys() == before.keys()
    for name in before.keys() - {name for name in before if name.startswith("callbacks__")}:
        assert net.get_params()[name] is before[name]
    ours = fed.net_.get_params()
    assert ours.keys() >= before.keys() - {"callbacks"}
    for name in ("lr", "batch_size", "max_epochs", "optimizer__momentum", "module", "criterion", "device"):
        assert ours[name] == before[name]


def test_net_is_a_skorch_net_with_the_global_weights():
    fed = make_fed().fit(X, Y)
    assert fed.net_.initialized_
    np.testing.assert_allclose(fed.net_.predict_proba(X), fed.predict_proba(X), rtol=1e-12)
    np.testing.assert_array_equal(fed.net_.predict(X), fed.predict(X))
    np.testing.assert_array_equal(fed.net_.classes_, [0, 1, 2])


def test_a_pickle_predicts_the_same():
    fed = make_fed(relabeler=FedReLaRelabeler(0.3), validation=0.2).fit(X, Y)
    again = pickle.loads(pickle.dumps(fed))
    np.testing.assert_array_equal(again.predict_proba(X), fed.predict_proba(X))
    assert_same_weights(again, fed)
    assert repr(again.history_.to_frame()) == repr(fed.history_.to_frame())
    np.testing.assert_array_equal(again.relabel_report().row, fed.relabel_report().row)
    assert_same_weights(clone(again).fit(X, Y), fed)
