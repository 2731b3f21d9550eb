"""What a hook returns has the names and shapes that it should, in both engines; nothing is broadcast."""

import numpy as np
import pytest
import torch
from skorch import NeuralNetClassifier
from torch import nn

from fedrela_sk import FederatedClassifier
from fedrela_sk.algorithms import Algorithm, Broadcast, Query
from fedrela_sk.exceptions import ClientError, NetError, NotFiniteError
from fedrela_sk.nets import MLP

X = np.random.default_rng(0).normal(size=(60, 3))
Y = np.arange(60) % 3


def fit(algorithm, engine):
    net = NeuralNetClassifier(MLP, module__n_features=3, module__n_classes=3, module__hidden=(4,),
                              criterion=nn.CrossEntropyLoss, lr=0.1, max_epochs=1, batch_size=8)  # fmt: skip
    return FederatedClassifier(
        net, clients=4, algorithm=algorithm, n_rounds=2, engine=engine, random_state=0
    ).fit(X, Y)


def first(params):
    return next(iter(params))


class Scalars(Algorithm):
    def client_finish(self, params, local, run):
        return {name: tensor.mean() for name, tensor in params.items()}, local.state


class OneScalar(Algorithm):
    def client_finish(self, params, local, run):
        return params | {first(params): params[first(params)].mean()}, local.state


class Transposed(Algorithm):
    def client_finish(self, params, local, run):
        return params | {first(params): params[first(params)].T}, local.state


class Doubled(Algorithm):
    def client_finish(self, params, local, run):
        return {name: tensor.double() for name, tensor in params.items()}, local.state


class Empty(Algorithm):
    def client_finish(self, params, local, run):
        return {}, local.state


class Misspelled(Algorithm):
    def client_finish(self, params, local, run):
        name, *_ = params
        return {n: t for n, t in params.items() if n != name} | {name + "s": params[name]}, local.state


class Dropped(Algorithm):
    def client_finish(self, params, local, run):
        return {n: t for n, t in params.items() if n != first(params)}, local.state


class KeptDropped(Algorithm):
    def shared(self, names):
        return tuple(names)[1:]

    def client_finish(self, params, local, run):
        return {n: t for n, t in params.items() if n != first(params)}, local.state


class NoTensors(Algorithm):
    def client_finish(self, params, local, run):
        return dict.fromkeys(params, 0.0), local.state


class ListOfTensors(Algorithm):
    def client_finish(self, params, local, run):
        return list(params.values()), local.state


class StepScalars(Algorithm):
    def server_step(self, params, aggregated, server_state, facts):
        return {name: tensor.mean() for name, tensor in params.items()}, server_state


class StepLess(Algorithm):
    def server_step(self, params, aggregated, server_state, facts):
        return {first(params): params[first(params)]}, server_state


class StepNaN(Algorithm):
    def server_step(self, params, aggregated, server_state, facts):
        return params | {first(params): params[first(params)] * float("nan")}, server_state


class ServerTrainScalars(Algorithm):
    def server_train(self, model, params, server_state, facts):
        return {name: tensor.mean() for name, tensor in params.items()}, server_state


class PredictsScalars(Algorithm):
    def predict_params(self, params, server_state, model, relabeling=False):
        return {name: tensor.mean() for name, tensor in params.items()}


class PredictsLess(Algorithm):
    def predict_params(self, params, server_state, model, relabeling=False):
        return {first(params): params[first(params)]}


UPDATES = [
    (Scalars, "finish gave '0.weight' with shape"),
    (OneScalar, "finish gave .* with shape"),
    (Transposed, "finish gave .* with shape"),
    (Doubled, r"finish gave .* in torch.float64, expected .* in torch.float32"),
    (Empty, "finish sends nothing, although the method shares"),
    (Misspelled, "finish left out"),
    (Dropped, "finish left out"),
    (KeptDropped, "finish left out .* which stays at the client"),
    (NoTensors, "finish gave float for"),
    (ListOfTensors, "finish must give a dictionary of tensors by name, got list"),
]
ENGINES = pytest.mark.parametrize("engine", ["loop", "stacked"])


@ENGINES
@pytest.mark.parametrize(("method", "message"), UPDATES, ids=lambda value: getattr(value, "__name__", None))
def test_an_update_of_other_names_or_shapes_is_refused_with_client_and_round(method, message, engine):
    pattern = rf"The update of client 0 in round 0: {method.__name__}.*{message.removeprefix('finish')}"
    with pytest.raises(ClientError, match=pattern):
        fit(method(), engine)


@ENGINES
@pytest.mark.parametrize(
    ("method", "message"),
    [
        (StepScalars, "StepScalars.server_step of round 0 gave .* with shape"),
        (StepLess, "StepLess.server_step of round 0 gave tensors of other names .* it lacks"),
        (ServerTrainScalars, "server_train of round 0 gave .* with shape"),
        (PredictsScalars, "predict_params gave .* with shape"),
        (PredictsLess, "predict_params gave tensors of other names"),
    ],
)
def test_what_the_server_makes_has_the_models_names_and_shapes(method, message, engine):
    with pytest.raises(ClientError, match=message):
        fit(method(), engine)


@ENGINES
def test_a_global_model_that_is_not_finite_is_refused(engine):
    with pytest.raises(NotFiniteError, match=r"StepNaN.server_step of round 0 gave '0.weight'.* not finite"):
        fit(StepNaN(), engine)


# --- hooks of a batch ---------------------------------------------------------------------------------------


class VectorPenalty(Algorithm):
    def client_penalty(self, params, local):
        return torch.stack([p.square().sum() for p in params.values()])


class MeanRowLoss(Algorithm):
    own_loss = True

    def client_row_losses(self, logits, y, local):
        return nn.functional.cross_entropy(logits, y)


class ColumnRowLosses(Algorithm):
    own_loss = True

    def client_row_losses(self, logits, y, local):
        return nn.functional.cross_entropy(logits, y, reduction="none").unsqueeze(1)


class RowsAsLoss(Algorithm):
    own_loss = True

    def client_loss(self, model, batch, local):
        return batch.row_losses(model(batch.x))


class ScalarDirections(Algorithm):
    def client_decoupled(self, params, local):
        return {name: p.mean() for name, p in params.items()}


@ENGINES
@pytest.mark.parametrize(
    "method", [VectorPenalty, MeanRowLoss, ColumnRowLosses, RowsAsLoss, ScalarDirections]
)
def test_hooks_of_a_batch_that_would_be_broadcast_are_refused(method, engine):
    with pytest.raises((NetError, ClientError), match="must give shape"):
        fit(method(), engine)


# --- records, states and weights ----------------------------------------------------------------------------


class Returns(Algorithm):
    """A method one of whose hooks returns something else than it should."""

    def __init__(self, value=None):
        self.value = value


def returning(hook, value):
    """A method whose `hook` returns `value`."""
    return type("Returns", (Returns,), {hook: lambda self, *args, **kwargs: self.value})(value)


ONE = torch.ones(1)
OTHER_KINDS = [
    ("client_finish", {}, "Returns.client_finish at client 0 in round 0 must return the pair .*got dict"),
    ("client_finish", ({}, {}, {}), "client_finish at client 0 in round 0 must .*got a tuple of 3"),
    (
        "client_finish",
        ({}, [ONE]),
        "client_finish at client 0 in round 0, as its second part, must .*got list",
    ),
    ("client_begin", [ONE], "client_begin at client 0 in round 0 must give a dictionary of tensors"),
    ("client_init", {"c": 0.0}, "client_init at client 0 in round 0 gave float for 'c', expected a tensor"),
    (
        "client_order",
        np.zeros((1, 3), dtype=int),
        r"client_order at client . in round 0 .* = \(1, 15\), got shape",
    ),
    ("client_order", np.full((1, 15), 15), "client_order at client . in round 0 .*places 0 to 14 .*got 15"),
    ("client_correct", [ONE], "client_correct must give a dictionary of tensors, got list"),
    ("client_correct", {"no": ONE}, "client_correct gave a gradient of 'no'"),
    ("client_correct", {"0.weight": ONE}, "client_correct of '0.weight' must give shape"),
    ("server_init", [ONE], "Returns.server_init must give a dictionary of tensors by name, got list"),
    (
        "server_broadcast",
        {"c": ONE},
        "server_broadcast must return a fedrela_sk.algorithms.Broadcast, got dict",
    ),
    ("server_broadcast", Broadcast({"c": 1}), "server_broadcast, as every_round, gave int for 'c'"),
    ("server_query", {"a": ONE}, "server_query of round 0 must return a fedrela_sk.algorithms.Query or None"),
    ("server_query", Query(None, None), "server_query of round 0 gave a Query whose report is no function"),
    ("server_query", Query(dict, dict, whom="some"), "server_query of round 0 gave a Query with whom='some'"),
    (
        "server_query",
        Query(lambda *_: [ONE], dict),
        "report of client 0 before round 0 must give a dictionary",
    ),
    ("server_query", Query(lambda *_: {}, lambda *_: None), "gather of the query of round 0 must give"),
    ("server_weights", "many", "server_weights of round 0 must return an array of numbers, got str"),
    (
        "server_weights",
        [1.0],
        r"server_weights of round 0 must return one weight .* 4 clients, got shape \(1,\)",
    ),
    ("server_weights", [1.0, 1.0, -1.0, 1.0], "server_weights of round 0 .*got -1.0 at position 2"),
    ("server_weights", [float("nan")] * 4, "server_weights of round 0 .*got nan at position 0"),
    ("server_step", {}, r"server_step of round 0 must return the pair \(params, server_state\), got dict"),
    ("server_train", None, "server_train of round 0 must return the pair .*got NoneType"),
    ("predict_params", [ONE], "predict_params must give a dictionary of tensors by name, got list"),
]


@ENGINES
@pytest.mark.parametrize(("hook", "value", "message"), OTHER_KINDS)
def test_what_is_of_another_kind_is_refused_with_hook_client_and_round(hook, value, message, engine):
    with pytest.raises((ClientError, NetError), match=message):
        fit(returning(hook, value), engine)


@ENGINES
def test_an_order_of_none_is_the_usual_one(engine):
    plain, none = (
        fit(method, engine).predict_proba(X) for method in (Algorithm(), returning("client_order", None))
    )
    np.testing.assert_array_equal(plain, none)


def test_a_shared_tensor_that_the_net_lacks():
    with pytest.raises(ValueError, match=r"Returns.shared names 'head', which is no tensor of the net"):
        fit(returning("shared", ("head",)), "loop")
