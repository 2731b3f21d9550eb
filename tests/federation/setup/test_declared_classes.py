"""Classes that are declared fix the columns, whatever a fold or a group lacks."""

import numpy as np
import pytest
from sklearn.model_selection import LeaveOneGroupOut, cross_val_score
from skorch import NeuralNetClassifier
from torch import nn

from fedrela_sk import FederatedClassifier, FedReLaRelabeler
from fedrela_sk.exceptions import ClientError, LabelError, NetError
from fedrela_sk.nets import MLP

stream = np.random.default_rng(0)
LABELS = np.array(["ham", "odd", "spam"])
CODES = np.repeat([0, 2, 0, 2, 1, 0], 20)
Y = LABELS[CODES]
GROUPS = np.repeat([0, 0, 1, 1, 2, 2], 20)  # only group 2 has "odd"
X = stream.normal(size=(120, 3)) + CODES[:, None]


def net(**settings):
    return NeuralNetClassifier(MLP, module__n_features=3, module__n_classes=3, criterion=nn.CrossEntropyLoss, lr=0.1,
                               max_epochs=1, batch_size=16, **settings)  # fmt: skip


def fed(estimator=None, **settings):
    return FederatedClassifier(estimator, **({"clients": 3, "n_rounds": 4, "random_state": 0} | settings))


@pytest.mark.parametrize("engine", ["loop", "auto"])
@pytest.mark.parametrize("algorithm", ["fedavg", "fedlc", "fedrod", "fedetf", "creff", "feddyn"])
def test_a_class_that_nobody_has_is_a_column(engine, algorithm):
    rows = GROUPS < 2
    model = fed(net(), classes=LABELS, engine=engine, algorithm=algorithm).fit(X[rows], Y[rows])
    np.testing.assert_array_equal(model.classes_, LABELS)
    Q = model.predict_proba(X, groups=np.zeros(len(X), dtype=int))
    assert Q.shape == (120, 3)
    np.testing.assert_allclose(Q.sum(1), 1)
    assert model.class_count_[1] == 0


@pytest.mark.parametrize("where", ["federation", "net"])
def test_leaving_out_the_only_group_of_a_class_gives_a_score(where):
    model = fed(
        net(classes=LABELS) if where == "net" else net(), classes=LABELS if where == "federation" else None
    )
    scores = cross_val_score(model, X, Y, groups=GROUPS, cv=LeaveOneGroupOut(), error_score="raise")
    assert np.isfinite(scores).all()


def test_without_them_the_error_names_the_way_out():
    rows = GROUPS < 2
    with pytest.raises(NetError, match=r"name all of them: FederatedClassifier\(classes=\.\.\.\)"):
        fed(net()).fit(X[rows], Y[rows])


@pytest.mark.parametrize("algorithm", ["fedavg", "local_only"])
def test_one_class_alone_can_be_trained_where_others_are_declared(algorithm):
    model = fed(classes=LABELS, algorithm=algorithm).fit(X[:20], Y[:20])
    assert set(model.predict(X[:20])) == {"ham"}


def test_order_does_not_matter_and_the_federation_wins():
    one, other = (fed(net(classes=[1, 2]), classes=c).fit(X, Y) for c in (LABELS, LABELS[::-1]))
    np.testing.assert_array_equal(one.classes_, LABELS)
    np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))
    np.testing.assert_array_equal(one.predict_proba(X), fed(net()).fit(X, Y).predict_proba(X))


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        (["ham", "spam"], r"y has the label 'odd' in row 80, which is not among the classes"),
        (["ham", "odd", "spam", "ham"], "classes names 'ham' more than once"),
        (["ham"], "classes must name at least two"),
        ([0, 1, 2], "y has the label 'ham' in row 0"),
    ],
)
def test_declarations_that_do_not_fit_are_refused(classes, message):
    with pytest.raises(LabelError, match=message):
        fed(classes=classes).fit(X, Y)


@pytest.mark.parametrize("engine", ["loop", "auto"])
def test_no_row_is_relabeled_into_a_class_that_nobody_has(engine):
    """A declared class without rows would be the rarest of all, so the most wanted target."""
    rows = GROUPS < 2
    relabeler = FedReLaRelabeler(0.5)
    for clients in (3, 1):
        model = fed(net(), classes=LABELS, relabeler=relabeler, clients=clients, engine=engine).fit(
            X[rows], Y[rows]
        )
        assert "odd" not in model.y_relabeled_
        assert model.relabel_round_ is not None


class IntoOdd:
    """A relabeler of the user's own that knows no better."""

    def fit(self, Q, y):
        return self

    def relabel(self, Q, y, uniforms=None):
        return np.full(len(y), "odd")


class Child(FedReLaRelabeler):
    """Is asked client by client."""


def test_relabelers_of_every_kind_leave_that_class_alone():
    rows = GROUPS < 2
    model = fed(net(), classes=LABELS, relabeler=Child(0.5)).fit(X[rows], Y[rows])
    plain = fed(net(), classes=LABELS, relabeler=FedReLaRelabeler(0.5)).fit(X[rows], Y[rows])
    assert "odd" not in model.y_relabeled_
    np.testing.assert_array_equal(model.y_relabeled_, plain.y_relabeled_)
    with pytest.raises(ClientError, match="gave the class 'odd', which was declared but which no client has"):
        fed(net(), classes=LABELS, relabeler=IntoOdd()).fit(X[rows], Y[rows])


def test_leave_one_group_out_relabels_into_no_class_of_the_left_out_group():
    for held in range(3):
        rows = held != GROUPS
        model = fed(net(), classes=LABELS, clients=None, relabeler=FedReLaRelabeler(0.3)).fit(
            X[rows], Y[rows], groups=GROUPS[rows]
        )
        assert set(model.y_relabeled_) <= set(Y[rows])
