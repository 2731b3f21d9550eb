"""Errors say what was got and what to do, and name client and round where there are any."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import NotFittedError
from skorch import NeuralNetRegressor
from skorch.dataset import ValidSplit
from torch import nn

from fedrela_sk import FedReLaRelabeler
from fedrela_sk.algorithms import FedAvg, Query
from fedrela_sk.exceptions import ClientError, FedReLaWarning, NetError, NotFiniteError
from fedrela_sk.local_data import Mixup
from fedrela_sk.losses import Progress
from tests.federation.helpers import Logits, Probabilities, make_fed, make_net, make_rows

X, Y = make_rows(60)
GROUPS = np.where(np.arange(60) < 20, "east", "west")


def fit(net=None, groups=None, y=Y, **params):
    return make_fed(net, **params).fit(X, y, groups=groups)


@pytest.mark.parametrize("engine", ["loop", "stacked"])
def test_a_diverging_rate_names_client_and_round(engine):
    with pytest.raises(
        NotFiniteError, match=r"loss of client 'east' in round 0 is (nan|inf).*Lower the learning rate"
    ):
        fit(make_net(lr=1e308, max_epochs=3), GROUPS, clients=None, engine=engine)


@pytest.mark.parametrize("engine", ["loop", "stacked"])
def test_a_global_model_that_overflows_names_the_round(engine):
    with pytest.raises(
        NotFiniteError, match=r"FedAvg.server_step of round 0 gave '(weight|bias)' that is not finite"
    ):
        fit(make_net(lr=1e308), GROUPS, clients=None, engine=engine)


@pytest.mark.parametrize("engine", ["loop", "stacked"])
def test_an_update_that_is_not_finite_is_named(engine):
    net = make_net(lr=1e308, optimizer__weight_decay=1e10)
    with pytest.raises(
        NotFiniteError, match=r"update of client 'east' in round 0 is not finite in '(weight|bias)'"
    ):
        fit(net, GROUPS, clients=None, engine=engine)


def test_a_module_with_another_number_of_outputs():
    with pytest.raises(
        NetError, match=r"one column per class, shape \(rows, 3\); got \(2, 5\).*outputs to 3"
    ):
        fit(make_net(module__n_classes=5), GROUPS, clients=None)
    with pytest.raises(NetError, match=r"got \(2,\)"):
        fit(make_net(nn.Sequential(Logits(3, 1), nn.Flatten(0))), GROUPS, clients=None)


def test_a_module_for_other_columns():
    with pytest.raises(NetError, match=r"fails on rows of shape \(3,\): RuntimeError: .*module__n_features"):
        fit(make_net(module__n_features=4), GROUPS, clients=None)


@pytest.mark.parametrize("criterion", [nn.MSELoss, nn.BCEWithLogitsLoss, nn.MultiMarginLoss])
def test_a_criterion_of_another_kind(criterion):
    with pytest.raises(NetError, match=rf"CrossEntropyLoss .*NLLLoss.*got {criterion.__name__}"):
        fit(make_net(criterion=criterion))


def test_logits_where_probabilities_are_expected():
    with pytest.raises(NetError, match=r"With criterion NLLLoss .*row \d+ .* sums to .*CrossEntropyLoss"):
        fit(make_net(criterion=nn.NLLLoss))
    assert fit(make_net(Probabilities, criterion=nn.NLLLoss)).score(X, Y) > 0


def test_a_split_inside_clients_is_refused_and_skorchs_own_default_ignored():
    with pytest.raises(
        NetError, match=r"train_split=.* would hold out rows inside every client.*validation=share"
    ):
        fit(make_net(train_split=ValidSplit(3)))
    fit(make_net(train_split=ValidSplit(5, stratified=True)))
    fit(make_net(train_split=None))


@pytest.mark.parametrize("argument", ["drop_last", "sampler", "collate_fn"])
def test_arguments_of_the_loader_that_have_no_meaning_here(argument):
    with pytest.raises(
        NetError, match=rf"iterator_train__{argument} is not supported.*iterator_train__shuffle"
    ):
        fit(make_net(**{f"iterator_train__{argument}": True}))


@pytest.mark.parametrize("estimator", [DummyClassifier(), NeuralNetRegressor(Logits)])
def test_an_estimator_that_is_no_skorch_classifier(estimator):
    with pytest.raises(
        NetError, match=rf"skorch.NeuralNetClassifier or None, got {type(estimator).__name__}.*Wrap"
    ):
        fit(estimator)


@pytest.mark.parametrize(
    ("name", "value"),
    [("warm_start", True), ("checkpoint", "folder")],
)
def test_parameters_that_are_not_there_yet(name, value):
    with pytest.raises(
        ValueError, match=rf"{name}=.* is not available in this version.*Leave it at (None|False)"
    ):
        fit(**{name: value})


def test_resume_is_not_there_yet():
    with pytest.raises(ValueError, match=r"resume=True is not available in this version.*Leave it at None"):
        make_fed().fit(X, Y, resume=True)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("clients", 0),
        ("clients", "iid"),
        ("algorithm", "fedsgd"),
        ("algorithm", FedAvg),
        ("relabeler", "fedrela"),
        ("relabel_every", 0),
        ("relabel_posteriors", "train"),
        ("n_rounds", 0),
        ("participation", 0.0),
        ("participation", 1.5),
        ("client_weight", "rows"),
        ("class_weight", "balance"),
        ("lr_schedule", 0.0),
        ("lr_schedule", "cosine"),
        ("validation", 0.0),
        ("validation", 1),
        ("select", "best"),
        ("engine", "fast"),
        ("verbose", "loud"),
        ("random_state", "seed"),
    ],
)
def test_parameters_outside_their_range(name, value):
    with pytest.raises(
        ValueError,
        match=rf"The '{name}' parameter of FederatedClassifier must be .*Got |^{name} must be an instance",
    ):
        fit(**{name: value})


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"class_weight": {7: 1.0}}, r"class_weight names 7, which is not among the classes \[0, 1, 2\]"),
        ({"class_weight": {1: -1.0}}, r"class_weight\[1\] must be a finite number >= 0, got -1.0"),
        ({"client_weight": [1.0]}, r"one weight per client, shape \(3,\).*got shape \(1,\)"),
        ({"lr_schedule": lambda round: -1}, "finite factor >= 0, got -1 in round 0"),
        ({"relabel_posteriors": {"mode": "both"}}, r"relabel_posteriors\['mode'\] must be one of"),
        ({"client_weight": [0, 0, 0]}, "updates of round 0 could not be aggregated: .*client_weight"),
    ],
)
def test_values_that_do_not_fit_the_data(params, message):
    with pytest.raises(ValueError, match=message):
        fit(**params)


def test_what_needs_a_fit_says_so():
    fed = make_fed()
    for call in (fed.predict, fed.predict_proba):
        with pytest.raises(NotFittedError):
            call(X)
    with pytest.raises(NotFittedError):
        fed.relabel_report()


def test_a_failed_fit_leaves_torch_as_it_was():
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    with pytest.raises(NotFiniteError):
        fit(make_net(lr=1e308))
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), state)


def test_tiny_clients_never_raise_by_default():
    groups = np.arange(60)
    groups[:5] = 0
    fed = fit(groups=groups, clients=None, relabeler=FedReLaRelabeler(0.3), class_weight="balanced")
    assert len(fed.client_names_) == 56
    assert np.isfinite(fed.predict_proba(X)).all()
    fed = fit(clients=200, relabeler=FedReLaRelabeler(0.3))
    assert len(fed.history_.empty_clients) == 140
    assert len(fed.clients_) == 200


def test_a_name_that_is_nearly_one():
    with pytest.raises(
        ValueError, match=r"\['balancefl', 'climb', .*\]\. Did you mean 'fedprox'\? Got 'FedProx'"
    ):
        fit(algorithm="FedProx")
    with pytest.raises(ValueError, match=r"'scaffold'\]\. Got 'qqq'"):
        fit(algorithm="qqq")


def test_a_class_where_an_instance_is_meant():
    with pytest.raises(
        ValueError, match=r"local_data must be an instance, got the class Mixup\. Pass Mixup\("
    ):
        fit(local_data=Mixup)


def test_words_name_their_column():
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    frame["b"] = ["low", *["high"] * (len(X) - 1)]
    for kind in (object, "category", "string"):
        with pytest.raises(
            ValueError, match=r"Column 'b' of X holds 'low', which is no number.*OneHotEncoder"
        ):
            make_fed().fit(frame.astype({"b": kind}), Y)
    numbers = pd.DataFrame(X, columns=["a", "b", "c"])
    fed = make_fed().fit(numbers, Y)
    with pytest.raises(ValueError, match=r"Column 'b' of X holds 'low'"):
        fed.predict(frame)
    as_objects = make_fed().fit(numbers.astype({"b": object}), Y)
    np.testing.assert_array_equal(
        fed.predict_proba(numbers), as_objects.predict_proba(numbers.astype(object))
    )


def test_an_error_about_numbers_stays_as_it_is():
    with pytest.raises(ValueError, match="minimum of 1 is required"):
        make_fed().fit(pd.DataFrame(X[:0]), Y[:0])


def test_progress_is_for_skorch_alone():
    with pytest.raises(NetError, match=r"Progress is for nets that skorch trains alone.*Remove it"):
        fit(make_net(callbacks=[Progress()]))


def test_groups_of_another_kind_are_told():
    fed = make_fed(clients=None, algorithm="local_only").fit(X, Y, groups=GROUPS)
    with pytest.warns(
        FedReLaWarning, match=r"None of the groups is a client.*got 7 first.*begins with 'east'"
    ):
        other = fed.predict_proba(X, groups=np.full(len(X), 7))
    np.testing.assert_array_equal(other, fed.predict_proba(X))
    with pytest.raises(ValueError, match=r"groups should be a 1d array, got an array of shape \(\)"):
        fed.predict_proba(X, groups=3)


def test_rows_of_clients_at_the_server_are_told():
    notes = fit(algorithm="ratio_loss", n_rounds=1).history_.notes
    assert any(
        note.startswith("auxiliary=63: the server holds up to 63 rows of each class") for note in notes
    )
    assert not any("auxiliary" in note for note in fit(n_rounds=1).history_.notes)


class Reports(FedAvg):
    """Asks every client for what it cannot give."""

    def __init__(self, how):
        super().__init__()
        self.how = how

    def server_query(self, round):
        return Query(self.client_report, lambda reports, server_state, facts: server_state)

    def client_report(self, model, data, local):
        if self.how == "fails":
            raise KeyError("no such thing")
        return {"share": torch.tensor([1.0, float("nan")])}


@pytest.mark.parametrize(
    ("how", "error", "message"),
    [
        ("fails", ClientError, r"report of client 'east' before round 0 failed: KeyError: 'no such thing'"),
        ("nan", NotFiniteError, r"report of client 'east' before round 0 is not finite in 'share'"),
    ],
)
def test_a_report_that_breaks_names_client_and_round(how, error, message):
    with pytest.raises(error, match=message):
        fit(algorithm=Reports(how), groups=GROUPS, clients=None)
