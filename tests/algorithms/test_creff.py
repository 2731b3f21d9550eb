"""CReFF: gradients of rare classes reported, features made from them, a classifier trained on those."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from fedrela_sk._random import Purpose, numpy_stream
from fedrela_sk.algorithms import CReFF, FedAvg, Job, RoundFacts
from fedrela_sk.algorithms._creff import matching_loss
from fedrela_sk.training.runtime._generator import forked_generators, seed_generators
from tests.algorithms.heads import GROUPS, OneLayer, X, Y, data_of, fit_small, local_of, model_of, run
from tests.algorithms.helpers import TwoLayers, fit, three_classes

FACTS = RoundFacts(round=0, n_participants=2, n_clients=2, lr=0.1)
QUICK = {"n_features": 5, "match_steps": 3, "retrain_epochs": 2}


def server_state(algorithm, module, seed=0, n_classes=3):
    module = algorithm.prepare_module(module, n_classes)
    like = torch.empty(0, dtype=torch.float64)
    job = Job(2, n_classes, np.arange(n_classes), seed, like, module)
    return algorithm.server_init(dict(module.state_dict()), job)


def layer_of(V, width):
    """A linear layer with the weights (and biases) of V; it draws nothing."""
    layer = nn.utils.skip_init(nn.Linear, width, len(V), bias=V.shape[1] > width, dtype=torch.float64)
    with torch.no_grad():
        layer.weight.copy_(V[:, :width])
        if V.shape[1] > width:
            layer.bias.copy_(V[:, width])
    return layer


def gradients_of(layer, h, c, create_graph=False):
    """Of the mean cross-entropy of rows h of class c, by autograd: one tensor for each parameter."""
    loss = F.cross_entropy(layer(h), torch.full((len(h),), c))
    return torch.autograd.grad(loss, list(layer.parameters()), create_graph=create_graph)


def as_columns(gradients):
    weight, *bias = gradients
    return torch.cat([weight, *(b[:, None] for b in bias)], 1)


def report_of(algorithm, module, x, y, V, weights=None):
    model = model_of(module, algorithm)
    counts = torch.bincount(y, minlength=3).tolist()
    local = local_of(server={"classifier": V}, counts=counts, stream=numpy_stream(0, Purpose.REPORT, 3, 7))
    return algorithm.client_report(model, data_of(x, y, weights), local)


@pytest.fixture
def rows():
    stream = torch.Generator().manual_seed(0)
    x = torch.randn(90, 3, dtype=torch.float64, generator=stream)
    y = torch.cat([torch.zeros(70, dtype=torch.int64), torch.full((20,), 2)])
    return x, y, torch.randn(3, 5, dtype=torch.float64, generator=stream)


class Rectified(TwoLayers):
    """`TwoLayers` with features that are never negative."""

    def __init__(self):
        super().__init__()
        self[1] = nn.ReLU()


# --- at a client --------------------------------------------------------------------------------------------


def test_a_report_holds_the_mean_gradient_of_every_class_that_is_there(rows):
    x, y, V = rows
    module = TwoLayers()
    report = report_of(CReFF(), module, x, y, V)
    assert list(report) == ["0", "2"]
    h, layer = module[1](module[0](x)).detach(), layer_of(V, 4)
    expected = as_columns(gradients_of(layer, h[70:], 2))  # 20 rows: all of them, ten times
    np.testing.assert_allclose(report["2"], expected, atol=1e-15)
    stream = numpy_stream(0, Purpose.REPORT, 3, 7)
    draws = [stream.permutation(70)[:32] for _ in range(10)]
    expected = sum(as_columns(gradients_of(layer, h[draw], 0)) for draw in draws) / 10
    np.testing.assert_allclose(report["0"], expected, atol=1e-15)
    assert not torch.allclose(report["0"], as_columns(gradients_of(layer, h[:70], 0)), atol=1e-4)


def test_rows_of_a_reported_gradient_sum_to_zero(rows):
    x, y, V = rows
    for gradient in report_of(CReFF(), TwoLayers(), x, y, V).values():
        np.testing.assert_allclose(gradient.sum(0), 0, atol=1e-15)


def test_a_class_pulls_its_own_row_up_and_pushes_the_others_down(rows):
    x, y, V = rows
    for c, gradient in report_of(CReFF(), Rectified(), x, y, V).items():
        own = torch.arange(3) == int(c)
        assert (gradient[own] <= 0).all()
        assert (gradient[~own] >= 0).all()
        assert gradient[own].min() < -0.01


def test_row_weights_count_and_rows_without_weight_do_not(rows):
    x, y, V = rows
    weights = torch.ones(90, dtype=torch.float64)
    weights[:70] = 0
    weights[70:75] = 3
    module = TwoLayers()
    report = report_of(CReFF(n_rows=20), module, x, y, V, weights)
    assert list(report) == ["2"]
    again = torch.cat([torch.arange(70, 90), torch.arange(70, 75).repeat(2)])
    h = module[1](module[0](x[again])).detach()
    np.testing.assert_allclose(report["2"], as_columns(gradients_of(layer_of(V, 4), h, 2)), atol=1e-15)


def test_a_report_leaves_batch_norm_alone(rows):
    x, y, V = rows
    module = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 3)).double()
    report_of(CReFF(), module, x, y, V)
    assert module[1].num_batches_tracked == 0
    assert module.training


# --- at the server ------------------------------------------------------------------------------------------


def test_reports_are_averaged_by_clients_and_not_by_rows():
    algorithm = CReFF(**QUICK)
    state = server_state(algorithm, TwoLayers())
    one, two = torch.ones(3, 5, dtype=torch.float64), torch.full((3, 5), 4.0, dtype=torch.float64)
    new = algorithm.server_gather({0: {"0": one, "2": one}, 3: {"2": two}}, state, FACTS)
    assert new["reported"].tolist() == [1, 0, 1]
    assert new["gradients"][:, 0, 0].tolist() == [1.0, 0.0, 2.5]
    assert new["features"] is state["features"]
    later = algorithm.server_gather({}, new, FACTS)
    assert later["reported"].tolist() == [0, 0, 0]


@pytest.mark.parametrize("bias", [True, False])
def test_gradients_that_agree_cost_nothing(bias):
    stream = torch.Generator().manual_seed(1)
    features = torch.randn(3, 6, 4, dtype=torch.float64, generator=stream)
    V = torch.randn(3, 4 + bias, dtype=torch.float64, generator=stream)
    layer = layer_of(V, 4)
    gradients = torch.stack([as_columns(gradients_of(layer, features[c], c)) for c in range(3)])
    present = torch.tensor([1.0, 0.0, 1.0], dtype=torch.float64)
    assert abs(matching_loss(features, V, 5 * gradients, present).item()) < 2e-4  # 1e-6 in every denominator
    opposite = matching_loss(features, V, -gradients, present).item()
    assert opposite == pytest.approx(2 * 2 * (3 + bias), abs=1e-3)
    assert matching_loss(features, V, gradients, 0 * present).item() == 0


def reference_matching(features, V, gradients, present, n_steps, lr):
    """The same descent class by class, every gradient by autograd through autograd."""
    width = features.shape[2]
    layer = layer_of(V, width)
    features = features.clone().requires_grad_()
    for _ in range(n_steps):
        loss = torch.zeros((), dtype=torch.float64)
        for c in np.flatnonzero(present):
            own = gradients_of(layer, features[c], c, create_graph=True)
            real = gradients[c][:, :width], gradients[c][:, width]
            for j in range(len(V)):
                length = own[0][j].norm() * real[0][j].norm() + 1e-6
                loss = loss + 1 - own[0][j] @ real[0][j] / length
            loss = loss + 1 - own[1] @ real[1] / (own[1].norm() * real[1].norm() + 1e-6)
        (slope,) = torch.autograd.grad(loss, features)
        features = (features - lr * slope).detach().requires_grad_()
    return features.detach()


def reference_retraining(features, bias=True, epochs=300, lr=0.01, batch=32):
    """A new linear layer trained by torch's SGD; draws from torch's generator in the same order."""
    n_classes, per_class, width = features.shape
    V = (2 * torch.rand(n_classes, width + bias) - 1) / width**0.5
    layer = layer_of(V.double(), width)
    optimizer = torch.optim.SGD(layer.parameters(), lr=lr)
    x, y = features.flatten(0, 1), torch.arange(n_classes).repeat_interleave(per_class)
    for _ in range(epochs):
        for rows in torch.randperm(len(x)).split(batch):
            optimizer.zero_grad()
            F.cross_entropy(layer(x[rows]), y[rows]).backward()
            optimizer.step()
    return layer


def test_a_round_by_hand():
    fed = fit_small("creff")
    state = server_state(CReFF(), OneLayer())
    V = state["classifier"]
    reports, layer = [{}, {}], layer_of(V, 2)
    for k, report in enumerate(reports):
        for c in set(Y[k == GROUPS].tolist()):
            rows = torch.from_numpy(X[(k == GROUPS) & (c == Y)])
            report[c] = as_columns(gradients_of(layer, rows, c))
    present = np.ones(3)
    gradients = {c: sum(r[c] for r in reports if c in r) / sum(c in r for r in reports) for c in range(3)}
    features = reference_matching(state["features"], V, gradients, present, 100, 0.1)
    with forked_generators("cpu"):
        seed_generators("cpu", 0, Purpose.SERVER, 0)
        new = reference_retraining(features)
    np.testing.assert_allclose(fed.net_.module_.weight.detach(), new.weight.detach(), atol=1e-10)
    np.testing.assert_allclose(fed.net_.module_.bias.detach(), new.bias.detach(), atol=1e-10)
    expected = torch.softmax(new(torch.from_numpy(X)), 1).detach()
    np.testing.assert_allclose(fed.predict_proba(X), expected, atol=1e-10)
    assert np.abs(fed.predict_proba(X) - fit_small(FedAvg()).predict_proba(X)).max() > 0.01


def test_features_and_classifier_live_from_round_to_round():
    algorithm = CReFF(**QUICK)
    state = server_state(algorithm, TwoLayers())
    assert {name: tuple(tensor.shape) for name, tensor in state.items()} == {
        "features": (3, 5, 4), "classifier": (3, 5), "gradients": (3, 3, 5), "reported": (3,)
    }  # fmt: skip
    assert 0 < state["classifier"].abs().max() <= 0.5
    report = {"1": torch.randn(3, 5, dtype=torch.float64)}
    new = algorithm.server_gather({0: report}, state, FACTS)
    params, new = algorithm.server_train(None, {"w": 1}, new, FACTS)
    assert params == {"w": 1}
    moved = (new["features"] - state["features"]).abs().amax((1, 2)) > 0
    assert moved.tolist() == [False, True, False]  # nobody reported the others
    assert algorithm.server_broadcast(new).every_round == {"classifier": new["classifier"]}
    assert not torch.equal(new["classifier"], state["classifier"])


def test_a_head_without_bias():
    class Plain(nn.Linear):
        def __init__(self):
            super().__init__(3, 3, bias=False, dtype=torch.float64)

    state = server_state(CReFF(**QUICK), Plain())
    assert state["classifier"].shape == (3, 3)
    fed = run(CReFF(**QUICK), module=Plain, n_rounds=2)
    assert list(fed.net_.module_.state_dict()) == ["weight"]
    torch.manual_seed(0)
    found = CReFF(retrain_epochs=3)._retrained(state["features"], 3)
    torch.manual_seed(0)
    expected = reference_retraining(state["features"], bias=False, epochs=3).weight
    np.testing.assert_allclose(found, expected.detach(), atol=1e-14)


@pytest.mark.parametrize("engine", ["loop", "stacked"])
def test_clients_train_as_under_fedavg(engine):
    fed, average = (run(algorithm, engine).net_.module_ for algorithm in (CReFF(**QUICK), FedAvg()))
    assert torch.equal(fed[0].weight, average[0].weight)
    assert not torch.allclose(fed[2].weight, average[2].weight, atol=0.01)


def test_traffic_of_a_round():
    data = three_classes(n_clients=2)  # client 0 lacks class 2
    fed = run(CReFF(**QUICK), data=data, n_rounds=1, participation=1.0)
    model, classifier = 31 * 8, 3 * 5 * 8
    assert fed.history_.column("bytes_up").tolist() == [2 * (model + 8) + (2 + 3) * classifier]
    assert fed.history_.column("bytes_down").tolist() == [2 * (model + classifier)]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_features": 0}, "n_features must be a whole number >= 1"),
        ({"retrain_batch": 0}, "retrain_batch must be a whole number >= 1"),
        ({"n_rows": 1.5}, "n_rows must be a whole number >= 1"),
        ({"n_repeats": 0}, "n_repeats must be a whole number >= 1"),
        ({"match_steps": -1}, "match_steps must be a whole number >= 0"),
        ({"retrain_epochs": None}, "retrain_epochs must be a whole number >= 0"),
        ({"match_lr": 0}, "match_lr must be a finite number > 0"),
        ({"retrain_lr": -1}, "retrain_lr must be a finite number > 0"),
    ],
)
def test_bad_values(params, message):
    with pytest.raises(ValueError, match=message):
        fit_small(CReFF(**params))


class MoveOne:
    """Relabels one row of every client into the rarest class."""

    def fit(self, Q, y):
        return self

    def relabel(self, Q, y, uniforms=None):
        new = np.array(y)
        new[0] = 2
        return new


@pytest.mark.parametrize(("counts", "more"), [("original", 0), ("relabeled", 1)])
def test_relabeling_adds_no_class_to_a_report_unless_asked_to(counts, more):
    data = three_classes(n_clients=4)  # client 0 has no row of class 2
    quick = CReFF(match_steps=1, retrain_epochs=1, counts=counts)
    fed = fit(quick, TwoLayers, data, n_rounds=2, relabeler=MoveOne(), relabel_at=1)
    before, after = (record.bytes_up for record in fed.history_)
    n_new = sum(2 not in data[1][data[2] == client] for client in range(4))
    assert n_new > 0
    assert after - before == more * n_new * 3 * (4 + 1) * 8
