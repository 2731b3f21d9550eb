"""Every door of the package takes names of every kind, keeps them apart, and refuses missing ones alike."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from fedrela_sk import DirichletSplit, FedReLaRelabeler, FedReLaSampler, RelabelingClassifier, ShardSplit
from fedrela_sk._labels import check_names, python_values
from fedrela_sk.exceptions import GroupsError, LabelError
from fedrela_sk.imbalance import make_long_tailed, make_step_wise
from fedrela_sk.metrics import (
    client_confusion,
    client_report,
    client_scorer,
    federated_score,
    federated_scorer,
    per_class_recall,
    recall_at_alerts,
)
from tests.federation.helpers import assert_same_weights, make_fed, make_net, make_rows
from tests.names import BOOLEANS, CONTAINERS, MISSING, container

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataConversionWarning")
X, CODES = make_rows(60)
Q = np.random.default_rng(0).dirichlet(np.ones(3), 60)
# labels whose order is that of their codes
KINDS = list(CONTAINERS)
OWNER = np.arange(60) % 3


def names_of(kind):
    return python_values(check_names(container(kind, [0, 1, 2])))


# ------------------------------------------------------------------------------------------ relabeler


@pytest.mark.parametrize("kind", KINDS)
def test_relabeler(kind):
    reference = FedReLaRelabeler(0.3, random_state=0).fit(Q, CODES)
    relabeler = FedReLaRelabeler(0.3, random_state=0).fit(Q, container(kind, CODES))
    assert python_values(relabeler.classes_) == names_of(kind)
    np.testing.assert_array_equal(relabeler.class_count_, reference.class_count_)
    new = relabeler.relabel(Q, container(kind, CODES))
    expected = reference.relabel(Q, CODES)
    assert (expected != CODES).any()
    assert python_values(check_names(new)) == [names_of(kind)[code] for code in expected]
    declared = FedReLaRelabeler(0.3, classes=container(kind, [2, 0, 1])).fit(
        Q[:, [2, 0, 1]], container(kind, CODES)
    )
    np.testing.assert_array_equal(declared.class_count_, reference.class_count_[[2, 0, 1]])


# ------------------------------------------------------------------------------------------- one site


@pytest.mark.parametrize("kind", KINDS)
def test_one_site(kind):
    reference = RelabelingClassifier(GaussianNB(), FedReLaRelabeler(0.3), random_state=0).fit(X, CODES)
    y = container(kind, CODES)
    clf = RelabelingClassifier(GaussianNB(), FedReLaRelabeler(0.3), random_state=0).fit(X, y)
    assert python_values(clf.classes_) == names_of(kind)
    np.testing.assert_array_equal(clf.relabeled_mask_, reference.relabeled_mask_)
    assert clf.relabeled_mask_.any()
    np.testing.assert_array_equal(clf.predict_proba(X), reference.predict_proba(X))
    assert python_values(clf.predict(X)) == [names_of(kind)[code] for code in reference.predict(X)]
    assert clf.score(X, y) == reference.score(X, CODES)


@pytest.mark.parametrize("kind", KINDS)
def test_sampler_gives_the_container_back(kind):
    _, reference = FedReLaSampler(GaussianNB(), FedReLaRelabeler(0.3), random_state=0).fit_resample(X, CODES)
    y = container(kind, CODES)
    _, new = FedReLaSampler(GaussianNB(), FedReLaRelabeler(0.3), random_state=0).fit_resample(X, y)
    assert python_values(check_names(new)) == [names_of(kind)[code] for code in reference]
    assert type(new) is type(y) or isinstance(y, tuple)
    for attribute in ("dtype", "type"):
        if hasattr(y, attribute):
            assert getattr(new, attribute) == getattr(y, attribute)


# ----------------------------------------------------------------------------------------- federation


@pytest.mark.parametrize("kind", KINDS)
def test_labels_of_a_federation(kind):
    params = {"relabeler": FedReLaRelabeler(0.3), "n_rounds": 3}
    reference = make_fed(**params).fit(X, CODES, X_val=X[:9], y_val=CODES[:9])
    y, y_val = container(kind, CODES), container(kind, CODES[:9])
    fed = make_fed(**params).fit(X, y, X_val=X[:9], y_val=y_val)
    assert_same_weights(fed, reference)
    assert python_values(fed.classes_) == names_of(kind)
    np.testing.assert_array_equal(fed.relabeled_mask_, reference.relabeled_mask_)
    np.testing.assert_array_equal(
        fed.history_.column("valid_score"), reference.history_.column("valid_score")
    )
    predicted = fed.predict(X)
    assert predicted.dtype == check_names(y).dtype
    assert python_values(predicted) == [names_of(kind)[code] for code in reference.predict(X)]
    assert fed.score(X, y) == reference.score(X, CODES)
    assert len(fed.relabel_report()) == len(reference.relabel_report())


@pytest.mark.parametrize("kind", BOOLEANS)
def test_booleans_stay_booleans(kind):
    y = BOOLEANS[kind]((CODES > 0).tolist())
    fed = make_fed(make_net(module__n_classes=2)).fit(X, y)
    clf = RelabelingClassifier(GaussianNB(), random_state=0).fit(X, y)
    for model in (fed, clf):
        assert model.classes_.dtype == model.predict(X).dtype == bool
        assert 0.5 < model.score(X, y) <= 1


@pytest.mark.parametrize("kind", KINDS)
def test_groups_of_a_federation(kind):
    groups = container(kind, OWNER)
    fed = make_fed(clients=None, algorithm="local_only").fit(X, CODES, groups=groups)
    assert fed.client_names_ == names_of(kind)
    assert [rows.tolist() for rows in fed.clients_] == [np.flatnonzero(k == OWNER).tolist() for k in range(3)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        own = fed.predict_proba(X, groups=groups)
    assert not np.allclose(own, fed.predict_proba(X))
    scorer = client_scorer("accuracy")
    assert scorer(fed, X, CODES, groups=groups) == (fed.predict(X, groups=groups) == CODES).mean()


@pytest.mark.parametrize(
    "kind", ["Int64", "object int", "polars Int64", "arrow int64", "int64[pyarrow]", "column"]
)
def test_clients_draw_the_same_numbers_whatever_holds_their_names(kind):
    plain = make_fed(clients=None, relabeler=FedReLaRelabeler(0.3), n_rounds=3)
    reference = plain.fit(X, CODES, groups=np.array(CONTAINERS[kind][1])[OWNER])
    again = make_fed(clients=None, relabeler=FedReLaRelabeler(0.3), n_rounds=3)
    assert_same_weights(again.fit(X, CODES, groups=container(kind, OWNER)), reference)


# ------------------------------------------------------------------- metrics, imbalance, splitters


@pytest.mark.parametrize("kind", KINDS)
def test_metrics(kind):
    predicted = np.roll(CODES, 1)
    y, guess, groups = (container(kind, codes) for codes in (CODES, predicted, OWNER))
    assert federated_score(y, guess, groups=groups) == federated_score(CODES, predicted, groups=OWNER)
    expected = per_class_recall(CODES, predicted, labels=[2, 0, 1])
    np.testing.assert_array_equal(per_class_recall(y, guess, labels=container(kind, [2, 0, 1])), expected)
    clients, counts = client_confusion(y, guess, groups)
    assert python_values(clients) == names_of(kind)
    np.testing.assert_array_equal(counts, client_confusion(CODES, predicted, OWNER)[1])
    two = container(kind, (CODES > 0).astype(int))
    period = container(kind, OWNER)
    caught = recall_at_alerts(two, X[:, 0], n_alerts=5, period=period, pos_label=names_of(kind)[1])
    assert caught == recall_at_alerts(CODES > 0, X[:, 0], n_alerts=5, period=OWNER, pos_label=True)


@pytest.mark.parametrize("kind", KINDS)
def test_scorers_and_reports(kind):
    y, groups = container(kind, CODES), container(kind, OWNER)
    clf = RelabelingClassifier(GaussianNB(), random_state=0).fit(X, y)
    reference = RelabelingClassifier(GaussianNB(), random_state=0).fit(X, CODES)
    assert federated_scorer()(clf, X, y) == federated_scorer()(reference, X, CODES)
    report, expected = client_report(clf, X, y, groups), client_report(reference, X, CODES, OWNER)
    np.testing.assert_array_equal(report.recall, expected.recall)
    np.testing.assert_array_equal(report.log_loss, expected.log_loss)


SLICED = [
    kind for kind in KINDS if not kind.startswith(("arrow", "polars frame"))
]  # scikit-learn cannot slice those


@pytest.mark.parametrize("kind", SLICED)
def test_imbalance(kind):
    y = container(kind, np.repeat([0, 1, 2], 40))
    cut = {"imbalance_factor": 4, "class_order": container(kind, [2, 0, 1]), "random_state": 0}
    *_, rows = make_long_tailed(np.zeros(120), y, return_indices=True, **cut)
    assert np.bincount(rows // 40).tolist() == [20, 10, 40]
    steps = {"minority": container(kind, [1]), "imbalance_ratio": 4, "random_state": 0}
    *_, rows = make_step_wise(np.zeros(120), y, return_indices=True, **steps)
    assert np.bincount(rows // 40).tolist() == [40, 10, 40]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "splitter", [DirichletSplit(3, random_state=0), ShardSplit(3, random_state=0)], ids=repr
)
def test_splitters(splitter, kind):
    expected = [test.tolist() for _, test in splitter.split(X, CODES)]
    assert [test.tolist() for _, test in splitter.split(X, container(kind, CODES))] == expected


# -------------------------------------------------------------------------------------- missing names

FIVE = np.arange(5.0)[:, None]
Q5 = np.tile([0.5, 0.5], (5, 1))
FITTED = GaussianNB().fit(FIVE, [0, 1, 0, 1, 0])
LABEL_DOORS = {
    "relabeler": lambda y: FedReLaRelabeler(classes=["a", "b"]).fit(Q5, y),
    "one site": lambda y: RelabelingClassifier(LogisticRegression()).fit(FIVE, y),
    "sampler": lambda y: FedReLaSampler(LogisticRegression()).fit_resample(FIVE, y),
    "federation": lambda y: make_fed(make_net(module__n_features=1, module__n_classes=2)).fit(FIVE, y),
    "federated score": lambda y: federated_score(y, y),
    "recall": lambda y: per_class_recall(y, [0, 1, 0, 1, 0], labels=[0, 1]),
    "alerts": lambda y: recall_at_alerts(y, FIVE[:, 0], n_alerts=1),
    "scorer": lambda y: federated_scorer()(FITTED, FIVE, y),
    "client report": lambda y: client_report(FITTED, FIVE, y, [1, 1, 1, 2, 2]),
    "client scorer": lambda y: client_scorer()(FITTED, FIVE, y),
    "long tail": lambda y: make_long_tailed(FIVE, y),
    "steps": lambda y: make_step_wise(FIVE, y),
    "splitter": lambda y: list(DirichletSplit(2).split(FIVE, y)),
}
GROUP_DOORS = {
    "fit": lambda groups: make_fed(clients=None).fit(X[:5], CODES[:5], groups=groups),
    "score": lambda groups: federated_score([0] * 5, [0] * 5, groups=groups),
    "report": lambda groups: client_report(FITTED, FIVE, [0] * 5, groups),
}


@pytest.mark.parametrize("kind", MISSING)
@pytest.mark.parametrize("door", LABEL_DOORS)
def test_a_missing_label_has_one_answer(door, kind):
    with pytest.raises(
        LabelError, match=r"Input y contains NaN: the label of row 2 is missing, got .*Drop rows"
    ):
        LABEL_DOORS[door](MISSING[kind])


@pytest.mark.parametrize("kind", MISSING)
def test_a_missing_label_of_validation_rows(kind):
    with pytest.raises(LabelError, match=r"Input y_val contains NaN: the label of row 2 is missing"):
        make_fed().fit(X, CODES, X_val=X[:5], y_val=MISSING[kind])


@pytest.mark.parametrize("kind", MISSING)
@pytest.mark.parametrize("door", GROUP_DOORS)
def test_a_missing_client_has_one_answer(door, kind):
    with pytest.raises(GroupsError, match=r"groups has a missing value in row 2 \(2 in all\): got "):
        GROUP_DOORS[door](MISSING[kind])


def test_a_missing_client_of_rows_to_predict():
    fed = make_fed(clients=None, algorithm="local_only").fit(X, CODES, groups=OWNER)
    with pytest.raises(GroupsError, match="missing value in row 1"):
        fed.predict(X[:3], groups=pd.Series([0, None, 1], dtype="Int64"))
