"""Clients that never exchange anything: the lower bound of every comparison."""

import pickle

import numpy as np
import pytest

from fedrela_sk import FedReLaRelabeler
from tests.federation.helpers import make_fed, make_net, make_rows

X, Y = make_rows(60)
GROUPS = np.array(["a", "b", "c"])[(np.arange(60) > 20).astype(int) + (np.arange(60) > 35)]


def fit(**params):
    params = {"clients": None, "algorithm": "local_only"} | params
    groups = GROUPS if params["clients"] is None else None
    return make_fed(**params).fit(X, Y, groups=groups)


def alone(key, **params):
    """What a client gets that is the only one."""
    own = key == GROUPS
    return make_fed(clients=None, **params).fit(X[own], Y[own], groups=GROUPS[own])


@pytest.mark.parametrize("shuffle", [False, True])
def test_a_row_of_a_known_client_is_predicted_by_its_own_net(shuffle):
    net = make_net(batch_size=8, iterator_train__shuffle=shuffle, max_epochs=2)
    fed = fit(net=net)
    Q = fed.predict_proba(X, groups=GROUPS)
    for key in "abc":
        one = make_fed(net, clients=None).fit(
            X[key == GROUPS], Y[key == GROUPS], groups=GROUPS[key == GROUPS]
        )
        np.testing.assert_allclose(Q[key == GROUPS], one.predict_proba(X[key == GROUPS]), rtol=0, atol=1e-12)
    np.testing.assert_array_equal(fed.predict(X, groups=GROUPS), fed.classes_[Q.argmax(1)])


def test_without_groups_the_mean_is_weighted_by_rows():
    fed = fit()
    expected = sum(np.mean(key == GROUPS) * alone(key).predict_proba(X) for key in "abc")
    np.testing.assert_allclose(fed.predict_proba(X), expected, rtol=0, atol=1e-12)


def test_a_client_that_is_not_known_gets_the_mean_of_all():
    fed = fit()
    groups = np.where(np.arange(60) % 2, GROUPS, "elsewhere")
    Q, mean, own = (
        fed.predict_proba(X, groups=groups),
        fed.predict_proba(X),
        fed.predict_proba(X, groups=GROUPS),
    )
    np.testing.assert_array_equal(Q[0::2], mean[0::2])
    np.testing.assert_array_equal(Q[1::2], own[1::2])


def test_groups_of_another_length_are_refused():
    with pytest.raises(ValueError, match=r"groups must have one entry per row: got shape \(3,\) for 60 rows"):
        fit().predict(X, groups=["a", "b", "c"])


def test_positions_are_the_names_of_clients_from_a_splitter():
    fed = fit(clients=3)
    assert fed.client_names_ == [0, 1, 2]
    owner = np.empty(60, dtype=int)
    for name, rows in zip(fed.client_names_, fed.clients_, strict=True):
        owner[rows] = name
    own, mean = fed.predict_proba(X, groups=owner), fed.predict_proba(X)
    assert not np.allclose(own, mean)


def test_there_is_no_global_net():
    fed = fit()
    assert fed.net_ is None
    assert fed.history_.bytes_up == fed.history_.bytes_down == 0
    assert np.isfinite(fed.history_.column("train_loss")).all()


def test_a_client_that_never_trained_predicts_with_the_weights_that_all_start_from():
    fed = fit(participation=0.34, n_rounds=1)
    (trained,) = fed.history_[0].participants
    start = fit(n_rounds=1, lr_schedule=lambda round: 0.0)
    Q, untrained = fed.predict_proba(X, groups=GROUPS), start.predict_proba(X, groups=GROUPS)
    others = trained != GROUPS
    np.testing.assert_allclose(Q[others], untrained[others], rtol=0, atol=1e-15)
    assert not np.allclose(Q[~others], untrained[~others])


def test_weights_of_rows_weigh_the_mean():
    weights = np.where(GROUPS == "a", 2.0, 1.0)
    fed = make_fed(clients=None, algorithm="local_only")
    weighted = fed.fit(X, Y, groups=GROUPS, sample_weight=weights).predict_proba(X)
    total = [weights[key == GROUPS].sum() for key in "abc"]
    parts = [alone(key).predict_proba(X) for key in "abc"]
    expected = sum(m * part for m, part in zip(total, parts, strict=True)) / sum(total)
    np.testing.assert_allclose(weighted, expected, rtol=0, atol=1e-12)


def test_clients_relabel_with_their_own_posteriors():
    fed = fit(relabeler=FedReLaRelabeler(0.4), n_rounds=4)
    for key in "abc":
        one = alone(key, relabeler=FedReLaRelabeler(0.4, classes=[0, 1, 2]), n_rounds=4)
        np.testing.assert_array_equal(fed.y_relabeled_[key == GROUPS], one.y_relabeled_)
    assert fed.relabeled_mask_.any()


def test_validation_rows_are_predicted_by_their_own_client():
    fed = fit(validation=0.3)
    assert np.isfinite(fed.history_.column("valid_score")).all()
    best = fit(validation=0.3, select="best_validation", n_rounds=6, net=make_net(lr=3.0))
    scores = best.history_.column("valid_score")
    n_best = int(np.argmax(scores)) + 1
    short = fit(validation=0.3, n_rounds=n_best, net=make_net(lr=3.0))
    np.testing.assert_array_equal(best.predict_proba(X), short.predict_proba(X))


def test_a_pickle_predicts_the_same():
    fed = fit()
    again = pickle.loads(pickle.dumps(fed))
    np.testing.assert_array_equal(again.predict_proba(X), fed.predict_proba(X))
    np.testing.assert_array_equal(again.predict_proba(X, groups=GROUPS), fed.predict_proba(X, groups=GROUPS))


def test_one_fit_after_the_other_leaves_nothing_behind():
    fed = fit()
    fed.set_params(algorithm="fedavg").fit(X, Y, groups=GROUPS)
    assert fed.net_ is not None
    fresh = make_fed(clients=None).fit(X, Y, groups=GROUPS)
    np.testing.assert_array_equal(fed.predict_proba(X, groups=GROUPS), fresh.predict_proba(X))


@pytest.mark.parametrize("engine", ["loop", "stacked"])
def test_both_engines(engine):
    one, other = fit(engine="loop"), fit(engine=engine)
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), rtol=0, atol=1e-12)
