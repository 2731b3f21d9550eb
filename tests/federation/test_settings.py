"""Parameters of a federation: NumPy's numbers are numbers, classes are no instances, what is frozen stays at home."""

import numpy as np
import pytest
import torch
from skorch import NeuralNetClassifier
from torch import nn

from fedrela_sk import DirichletSplit, FederatedClassifier, FedReLaRelabeler
from fedrela_sk.algorithms import FedProx
from fedrela_sk.exceptions import ClientError, MemoryWarning
from fedrela_sk.local_data import Mixup
from fedrela_sk.participation import UniformSampling
from fedrela_sk.training import Loop, Stacked

stream = np.random.default_rng(0)
X = stream.normal(size=(120, 3))
Y = (stream.random(120) < 0.3).astype(int)


def fed(net=None, **settings):
    return FederatedClassifier(
        **({"estimator": net, "clients": 4, "n_rounds": 4, "random_state": 0} | settings)
    )


def answers(**settings):
    return (
        fed(**({"relabeler": FedReLaRelabeler(0.25), "relabel_at": 2} | settings)).fit(X, Y).predict_proba(X)
    )


# --- numbers of NumPy -------------------------------------------------------------------------------------------

NUMBERS = [
    ("clients", 4), ("relabel_at", 0.5), ("relabel_at", 2), ("relabel_every", 1), ("n_rounds", 4),
    ("participation", 0.5),
    ("lr_schedule", 0.5), ("validation", 0.25), ("n_jobs", 1), ("verbose", 0), ("random_state", 0),
    ("class_weight", {0: 1.0, 1: 2.5}), ("client_weight", [1.0, 2.0, 0.5, 1.0]), ("algorithm", FedProx(0.25)),
    ("relabeler", FedReLaRelabeler(0.25)), ("participation", UniformSampling(0.5)),
    ("clients", DirichletSplit(4, 0.5)),
    ("local_data", Mixup(0.5)),
]  # fmt: skip


def as_numpy(value, real):
    """A value with every number in it as one of NumPy's."""
    if isinstance(value, dict):
        return {key: as_numpy(own, real) for key, own in value.items()}
    if isinstance(value, list):
        return [as_numpy(own, real) for own in value]
    if isinstance(value, float):
        return real(value)
    if isinstance(value, int):
        return np.int64(value)
    params = {name: as_numpy(own, real) for name, own in value.get_params(deep=False).items()
              if isinstance(own, int | float) and not isinstance(own, bool)}  # fmt: skip
    assert params
    return type(value)(**(value.get_params(deep=False) | params))


@pytest.mark.parametrize("real", [np.float32, np.float64])
@pytest.mark.parametrize(("name", "value"), NUMBERS, ids=lambda value: str(value)[:30])
def test_numbers_of_numpy_are_numbers(name, value, real):
    settings = {"engine": "loop"} if isinstance(value, Mixup) else {}
    expected = answers(**settings, **{name: value})
    np.testing.assert_array_equal(answers(**settings, **{name: as_numpy(value, real)}), expected)


def test_a_grid_over_shares():
    from sklearn.model_selection import GridSearchCV

    search = GridSearchCV(
        fed(), {"participation": np.linspace(0.5, 1, 3), "validation": np.linspace(0.1, 0.3, 2)}, cv=2
    )
    assert search.fit(X, Y).best_score_ > 0


@pytest.mark.parametrize("name", ["lr", "batch_size", "max_epochs", "optimizer__momentum"])
def test_numbers_of_numpy_in_the_net(name):
    value = {"lr": 0.125, "batch_size": 16, "max_epochs": 2, "optimizer__momentum": 0.5}[name]
    made = lambda v: NeuralNetClassifier(nn.Linear, module__in_features=3, module__out_features=2,  # noqa: E731
                                         criterion=nn.CrossEntropyLoss, **{"max_epochs": 1, name: v})  # fmt: skip
    number = np.int64(value) if isinstance(value, int) else np.float64(value)
    np.testing.assert_array_equal(answers(estimator=made(number)), answers(estimator=made(value)))


# --- classes where instances are meant ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "kind"),
    [("algorithm", FedProx), ("clients", DirichletSplit), ("relabeler", FedReLaRelabeler),
     ("participation", UniformSampling),
     ("local_data", Mixup), ("engine", Loop), ("engine", Stacked), ("estimator", NeuralNetClassifier)],
)  # fmt: skip
def test_a_class_in_place_of_an_instance_names_the_spelling(name, kind):
    with pytest.raises(
        ValueError,
        match=rf"^{name} must be an instance, got the class {kind.__name__}. Pass {kind.__name__}\(",
    ):
        FederatedClassifier(**{name: kind}).fit(X, Y)


# --- an early stop ------------------------------------------------------------------------------------------------


class StopAfter:
    """A callback of scikit-learn's that stops the fit."""

    def __init__(self, round):
        self.round = round

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context, **kwargs):
        pass

    def on_fit_task_end(self, estimator, context, **kwargs):
        return context.task_name == "round" and context.task_id == self.round


@pytest.mark.parametrize(("round", "expected"), [(0, None), (1, None), (2, 2), (3, 2)])
def test_a_fit_that_stopped_before_the_relabel_round_has_none(round, expected):
    model = fed(relabeler=FedReLaRelabeler(0.25), relabel_at=2).set_callbacks(StopAfter(round)).fit(X, Y)
    assert len(model.history_) == round + 1
    assert model.relabel_round_ == expected


# --- frozen parameters ---


class HalfFrozen(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(3, 50), nn.Linear(50, 2)
        self.body.requires_grad_(False)

    def forward(self, x):
        return self.head(torch.relu(self.body(x)))


def net(module=HalfFrozen, **settings):
    return NeuralNetClassifier(module, criterion=nn.CrossEntropyLoss, lr=0.1, max_epochs=1, **settings)


@pytest.mark.parametrize("engine", ["loop", "stacked"])
@pytest.mark.parametrize("algorithm", ["fedavg", "scaffold", "fedadam", "fednova", "climb", "feddyn"])
def test_frozen_parameters_travel_once(engine, algorithm):
    model = fed(net(), engine=engine, algorithm=algorithm, participation=0.5, n_rounds=6).fit(X, Y)
    every = fed(net(nn.Linear, module__in_features=50, module__out_features=2), engine=engine, algorithm=algorithm,
                participation=0.5, n_rounds=6).fit(np.zeros((120, 50)), Y)  # fmt: skip
    body = 4 * (3 * 50 + 50)
    known = set()
    for record, other in zip(model.history_, every.history_, strict=True):
        new = set(record.participants) - known
        known |= new
        assert record.bytes_up == other.bytes_up
        assert record.bytes_down == other.bytes_down + body * len(new)


def test_engines_agree_where_parameters_are_frozen():
    one, other = (fed(net(), engine=engine).fit(X, Y) for engine in ("loop", "stacked"))
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=1e-5)


class Thaws(HalfFrozen):
    def forward(self, x):
        self.body.requires_grad_(True)
        return super().forward(x)


def test_a_frozen_parameter_that_moves_is_refused():
    with pytest.raises(ClientError, match=r"parameter 'body.* did not learn before round 0"):
        fed(net(Thaws)).fit(X, Y)


# --- warnings -------------------------------------------------------------------------------------------------------


def test_warnings_point_at_the_callers_line(tmp_path):
    schedule = lambda t: 1.0  # noqa: E731
    with pytest.warns(MemoryWarning) as caught:
        fed(memory=tmp_path, relabeler=FedReLaRelabeler(), lr_schedule=schedule).fit(X, Y)
    assert {w.filename for w in caught} == {__file__}


# --- autocast around a fit ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["loop", "stacked"])
def test_a_fit_inside_autocast_trains_and_predicts_with_weights_as_they_are(engine):
    """torch would use the casts of earlier weights until the block ends, so nothing would be learned from them."""
    plain = fed(engine=engine, n_rounds=8, relabeler=FedReLaRelabeler(0.25)).fit(X, Y)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        enabled = torch.is_autocast_cache_enabled()
        inside = fed(engine=engine, n_rounds=8, relabeler=FedReLaRelabeler(0.25)).fit(X, Y)
        Q = inside.predict_proba(X)
        assert torch.is_autocast_cache_enabled() == enabled
    np.testing.assert_allclose(Q, inside.predict_proba(X), atol=0.003)
    np.testing.assert_allclose(inside.predict_proba(X), plain.predict_proba(X), atol=0.001)
