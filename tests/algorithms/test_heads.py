"""What all methods with heads of their own have in common."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from fedrela_sk.algorithms import CReFF, FedETF, FedLF, FedLoGe, FedNPC, FedROD, FedYoYo
from fedrela_sk.algorithms._heads import features_of
from fedrela_sk.exceptions import NetError
from fedrela_sk.federation.setup._validation import Validation
from fedrela_sk.nets import find_head
from tests.algorithms.heads import (
    Probabilities,
    TwoHeads,
    WithBatchNorm,
    batch_of,
    data_of,
    local_of,
    model_of,
    run,
)
from tests.algorithms.helpers import TwoLayers, three_classes

ROWS = {
    "fedrod": FedROD(),
    "fedetf": FedETF(),
    "dot_regression": FedETF("dot_regression"),
    "fedloge": FedLoGe(n_steps=5),
    "creff": CReFF(n_features=5, match_steps=3, retrain_epochs=2),
    "fedyoyo": FedYoYo(),
    "fedlf": FedLF(),
    "fednpc": FedNPC(n_rows=50),
}
EVERY = pytest.mark.parametrize("algorithm", list(ROWS.values()), ids=list(ROWS))
OWN_MODELS = pytest.mark.parametrize(
    "algorithm", [ROWS["fedrod"], ROWS["fedloge"]], ids=["fedrod", "fedloge"]
)


@EVERY
def test_a_head_is_found_by_its_name(algorithm):
    named = type(algorithm)(**(algorithm.get_params() | {"head": "first"}))
    module = named.prepare_module(TwoHeads(), 3)
    assert find_head(module, 3) == "first"
    assert type(module.second) is nn.Linear
    assert find_head(algorithm.prepare_module(TwoHeads(), 3), 3) == "second"
    x = three_classes()[0]
    np.testing.assert_allclose(run(named, module=TwoHeads, n_rounds=1).predict_proba(x).sum(1), 1, atol=1e-12)


@EVERY
def test_a_net_without_a_head_that_fits(algorithm):
    with pytest.raises(NetError, match="no linear layer with n_classes=3"):
        run(algorithm, module=lambda: nn.Conv1d(1, 3, 3, dtype=torch.float64))


@EVERY
def test_a_net_that_returns_probabilities_trains_to_the_same_model(algorithm):
    x = three_classes()[0]
    logits = run(algorithm).predict_proba(x)
    probabilities = run(algorithm, module=Probabilities, net={"criterion": nn.NLLLoss}).predict_proba(x)
    np.testing.assert_allclose(probabilities, logits, atol=1e-9)


@EVERY
def test_clients_of_one_row_and_of_one_class_under_batch_norm(algorithm):
    x, y, _ = three_classes()
    groups = np.repeat([0, 1, 2, 3], [1, 9, 40, 40])
    y[groups == 1] = 0
    fed = run(algorithm, module=WithBatchNorm, data=(x, y, groups), participation=1.0)
    Q = fed.predict_proba(x, groups=groups)
    np.testing.assert_allclose(Q.sum(1), 1, atol=1e-12)
    assert np.isfinite(Q).all()
    state = fed.net_.module_.state_dict()
    assert state["1.num_batches_tracked"] > 0
    assert (state["1.running_var"] != 1).all()


@OWN_MODELS
def test_engines_agree_on_personal_models(algorithm):
    x, _, groups = data = three_classes(n_clients=4)
    loop, stacked = (
        run(algorithm, engine, data=data).predict_proba(x, groups=groups) for engine in ("loop", "stacked")
    )
    np.testing.assert_allclose(loop, stacked, atol=1e-10)


@OWN_MODELS
def test_a_personal_head_costs_no_traffic(algorithm):
    # 3 x 4 + 4 of the body and 4 x 3 + 3 of one head, in float64; 8 bytes of the weight
    fed = run(algorithm, n_rounds=2)
    assert fed.history_.column("bytes_up").tolist() == [3 * (31 * 8 + 8)] * 2
    assert fed.history_.column("bytes_down").tolist() == [3 * 31 * 8] * 2


@pytest.mark.parametrize("name", ["dot_regression", "fedlf", "fednpc"])
def test_traffic_without_extras(name):
    n = 16 if name == "dot_regression" else 31  # a body whose head has nothing to send
    fed = run(ROWS[name], n_rounds=1)
    assert fed.history_.column("bytes_up").tolist() == [3 * (n * 8 + 8)]
    assert fed.history_.column("bytes_down").tolist() == [3 * n * 8]


@EVERY
def test_the_best_round_is_kept_with_the_personal_models_of_that_round(algorithm, monkeypatch):
    x, _, groups = data = three_classes(n_clients=4)
    second = run(algorithm, "auto", data=data, n_rounds=2, validation=0.2)
    scores = iter([0.5, 0.9, 0.1, 0.9])
    monkeypatch.setattr(Validation, "score", lambda self, Q: (0.0, next(scores)))
    best = run(algorithm, "auto", data=data, n_rounds=4, validation=0.2, select="best_validation")
    for who in (None, groups):
        np.testing.assert_array_equal(best.predict_proba(x, who), second.predict_proba(x, who))


@OWN_MODELS
def test_personal_models_outlive_a_pickle(algorithm):
    x, _, groups = data = three_classes(n_clients=4)
    fed = run(algorithm, "auto", data=data, participation=0.5, n_rounds=1)
    again = pickle.loads(pickle.dumps(fed))
    for who in (None, groups, np.where(groups == 0, 99, groups)):
        np.testing.assert_array_equal(again.predict_proba(x, who), fed.predict_proba(x, who))


@OWN_MODELS
def test_predictions_of_clients_leave_the_global_net_as_it_is(algorithm):
    x, _, groups = data = three_classes(n_clients=4)
    fed = run(algorithm, data=data, n_rounds=1)
    before = fed.net_.predict_proba(x)
    fed.predict_proba(x, groups)
    np.testing.assert_array_equal(fed.net_.predict_proba(x), before)


def test_features_of_many_rows_come_in_parts():
    model, x = model_of(TwoLayers(), FedLF()), torch.randn(10, 3, dtype=torch.float64)
    torch.testing.assert_close(features_of(model, x, size=4), model.frozen(x)[0], rtol=0, atol=1e-15)


class Named(nn.Module):
    """Two layers whose names are given."""

    def __init__(self, body, head):
        super().__init__()
        self.names = body, head
        self.add_module(body, nn.Linear(3, 4, dtype=torch.float64))
        self.add_module(head, nn.Linear(4, 3, dtype=torch.float64))

    def forward(self, x):
        body, head = (getattr(self, name) for name in self.names)
        return head(torch.tanh(body(x)))


@OWN_MODELS
@pytest.mark.parametrize(
    "names",
    [
        ("main", "domain"),
        ("domain", "main"),
        ("local_head", "personal_head"),
        ("personal_head", "local_head"),
    ],
)
def test_layers_of_a_net_may_be_called_like_parts_of_a_head(algorithm, names):
    x, _, groups = data = three_classes(n_clients=4)

    def outcome(body, head):
        fed = run(algorithm, module=Named, data=data, net={"module__body": body, "module__head": head})
        return fed.predict_proba(x, groups=groups), fed.predict_proba(x), fed.history_.column("bytes_up")

    for found, expected in zip(outcome(*names), outcome("body", "head"), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", [name for name, algorithm in ROWS.items() if algorithm.own_loss])
@pytest.mark.parametrize("n_rows", [1, 5])
def test_a_batch_without_weight_teaches_nothing(name, n_rows):
    algorithm = ROWS[name]
    model = model_of(TwoLayers(), algorithm)
    x, y = torch.randn(n_rows, 3, dtype=torch.float64), torch.arange(n_rows) % 3
    weightless = replace(batch_of(x, y), share=torch.zeros(n_rows, dtype=torch.float64))
    local = local_of(
        (3, 2, 1),
        state=algorithm.client_init({}),
        server={"effective": torch.ones(3)},
        stream=np.random.default_rng(0),
    )
    local = replace(local, start=algorithm.client_begin(model, data_of(x, y), local))
    loss = algorithm.client_loss(model, weightless, local)
    loss = loss[0] if isinstance(loss, tuple) else loss
    assert loss.item() == 0
    loss.backward()
    for tensor in model.module.parameters():
        assert tensor.grad is None or not tensor.grad.any()


class OneLine(nn.Linear):
    """A net that is its head."""

    def __init__(self):
        super().__init__(3, 3, dtype=torch.float64)


class Pair(TwoLayers):
    """Two classes."""

    def __init__(self):
        super().__init__(n_classes=2)


@EVERY
def test_a_net_of_one_layer_is_its_own_head(algorithm):
    if algorithm is ROWS["dot_regression"]:
        with pytest.raises(
            NetError, match=r"leaves nothing to learn in a net that is its head. Add a hidden"
        ):
            algorithm.prepare_module(OneLine(), 3)
        return
    assert find_head(algorithm.prepare_module(OneLine(), 3), 3) == ""
    assert np.isfinite(run(algorithm, module=OneLine).predict_proba(three_classes()[0])).all()


@EVERY
def test_two_classes(algorithm):
    x, y, groups = three_classes(n_clients=4)
    Q = run(algorithm, module=Pair, data=(x, np.minimum(y, 1), groups)).predict_proba(x)
    np.testing.assert_allclose(Q.sum(1), 1, atol=1e-12)
