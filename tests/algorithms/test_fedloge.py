"""FedLoGe: a fixed classifier moves the backbone; realigned heads predict."""

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from fedrela_sk._random import Purpose
from fedrela_sk.algorithms import FedAvg, FedLoGe
from fedrela_sk.exceptions import FedReLaWarning
from fedrela_sk.training.runtime._generator import seed_generators
from tests.algorithms.heads import (
    GROUPS,
    OneLayer,
    X,
    Y,
    batch_of,
    fit_small,
    local_of,
    model_of,
    run,
    softmax,
)
from tests.algorithms.helpers import TwoLayers, fit, three_classes

QUICK = {"n_steps": 5}


def prepared(module, **params):
    """The module that a fit with ``random_state=0`` starts from."""
    seed_generators("cpu", 0, Purpose.INIT)
    return FedLoGe(**params).prepare_module(module(), 3)


def trained(start, x, y, lr=0.5, n_steps=2):
    """A client's module after full-batch steps of three optimizers, features taken before the first one steps."""
    module = copy.deepcopy(start)
    head = module[2] if isinstance(module, nn.Sequential) else module
    body = nn.Sequential(module[0], module[1]) if isinstance(module, nn.Sequential) else nn.Identity()
    parts = [body, head.main, head.local_head]
    optimizers = [torch.optim.SGD(p.parameters(), lr=lr) for p in parts if list(p.parameters())]
    x, y = torch.from_numpy(x), torch.from_numpy(y)
    for _ in range(n_steps):
        h = body(x)
        losses = [
            F.cross_entropy(z, y)
            for z in (head.sparse_head(h), head.main(h.detach()), head.local_head(h.detach()))
        ]
        for loss in losses:
            if loss.requires_grad:
                loss.backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    return module


def average(modules, weights):
    states = [module.state_dict() for module in modules]
    return {
        name: sum(w * state[name] for w, state in zip(weights, states, strict=True)) / sum(weights)
        for name in states[0]
    }


def realigned(psi, norm=1.7):
    return norm * psi / psi.norm(dim=1, keepdim=True)


def test_a_round_by_hand_without_a_backbone():
    fed = fit_small("fedloge")
    start = prepared(OneLayer)
    assert torch.equal(fed.net_.module_.sparse_head.weight, start.sparse_head.weight)
    ends = [trained(start, X[k == GROUPS], Y[k == GROUPS]) for k in (0, 1)]
    mean = average(ends, (5, 2))
    psi, bias = mean["main.weight"], mean["main.bias"]
    head = fed.net_.module_.main
    np.testing.assert_allclose(head.weight.detach(), realigned(psi), atol=1e-14)
    np.testing.assert_allclose(head.bias.detach(), bias, atol=1e-14)
    x = torch.from_numpy(X)
    np.testing.assert_allclose(
        fed.predict_proba(X), softmax((x @ realigned(psi).T + bias).numpy()), atol=1e-14
    )
    for k in (0, 1):
        phi = ends[k].local_head
        own = phi(x) + x @ (psi * phi.weight.norm(dim=1, keepdim=True)).T + bias
        found = fed.predict_proba(X, groups=np.full(7, k))
        np.testing.assert_allclose(found, softmax(own.detach().numpy()), atol=1e-14)
        assert np.abs(found - fed.predict_proba(X)).max() > 0.01
    with pytest.warns(FedReLaWarning, match="None of the groups is a client"):
        of_nobody = fed.predict_proba(X, groups=np.full(7, 9))
    np.testing.assert_array_equal(of_nobody, fed.predict_proba(X))


def test_a_round_with_a_backbone_is_that_of_three_optimizers():
    x, y, groups = data = three_classes(n_rows=40, n_clients=2)
    fed = fit(FedLoGe(**QUICK), TwoLayers, data)
    start = prepared(TwoLayers, **QUICK)
    ends = [trained(start, x[groups == k], y[groups == k]) for k in (0, 1)]
    mean = average(ends, [np.sum(groups == k) for k in (0, 1)])
    for name, tensor in fed.net_.module_.state_dict().items():
        if "local" not in name:
            expected = realigned(mean[name]) if name == "2.main.weight" else mean[name]
            np.testing.assert_allclose(tensor, expected, atol=1e-13)


def test_local_heads_live_on_and_never_reach_the_server():
    names = prepared(TwoLayers, **QUICK).state_dict()
    kept = [name for name in names if name not in FedLoGe().shared(names)]
    assert kept == ["2.local_head.weight", "2.local_head.bias"]
    fed, start = fit_small(FedLoGe(**QUICK), n_rounds=2), prepared(OneLayer, **QUICK)
    modules = [copy.deepcopy(start) for _ in (0, 1)]
    for _ in range(2):
        modules = [trained(module, X[k == GROUPS], Y[k == GROUPS]) for k, module in enumerate(modules)]
        mean = {name: tensor for name, tensor in average(modules, (5, 2)).items() if "local" not in name}
        for module in modules:
            module.load_state_dict(mean, strict=False)
    x = torch.from_numpy(X)
    for k, module in enumerate(modules):
        phi, psi = module.local_head, module.main
        own = phi(x) + x @ (psi.weight * phi.weight.norm(dim=1, keepdim=True)).T + psi.bias
        found = fed.predict_proba(X, groups=np.full(7, k))
        np.testing.assert_allclose(found, softmax(own.detach().numpy()), atol=1e-14)


def test_realigned_rows_have_one_length():
    module = run(FedLoGe(**QUICK), n_rounds=1).net_.module_
    np.testing.assert_allclose(module[2].main.weight.detach().norm(dim=1), 1.7, atol=1e-14)
    module = run(FedLoGe(aligned_norm=1.0, **QUICK), n_rounds=1).net_.module_
    np.testing.assert_allclose(module[2].main.weight.detach().norm(dim=1), 1.0, atol=1e-14)


def test_a_local_row_has_the_product_of_both_lengths():
    algorithm = FedLoGe(**QUICK)
    model = model_of(TwoLayers(), algorithm)
    params = {name: torch.randn_like(tensor) for name, tensor in model.params.items()}
    predicting = algorithm.predict_params(params, {}, model)
    own = {name: torch.randn_like(tensor) for name, tensor in params.items() if "local" in name}
    merged = algorithm.personal_params(predicting, own)
    phi, psi = own["2.local_head.weight"], params["2.main.weight"]
    lengths = (merged["2.main.weight"] - phi).norm(dim=1)
    torch.testing.assert_close(lengths, psi.norm(dim=1) * phi.norm(dim=1), rtol=1e-13, atol=0)
    expected = params["2.main.bias"] + own["2.local_head.bias"]
    assert torch.equal(merged["2.main.bias"], expected)
    assert torch.equal(merged["0.weight"], params["0.weight"])


def heads_after_a_round(fed_start, kind):
    """(weight, bias) of one head after the round by hand."""
    mean = average([trained(fed_start, X[k == GROUPS], Y[k == GROUPS]) for k in (0, 1)], (5, 2))
    W, psi = fed_start.sparse_head, mean["main.weight"]
    return {
        "realigned": (realigned(psi), mean["main.bias"]),
        "auxiliary": (psi, mean["main.bias"]),
        "sparse": (W.weight, W.bias),
    }[kind]


HEADS = ["realigned", "auxiliary", "sparse"]


@pytest.mark.parametrize("kind", HEADS)
def test_each_head_can_predict(kind):
    fed, start = fit_small(FedLoGe(predict_head=kind, **QUICK)), prepared(OneLayer, **QUICK)
    weight, bias = heads_after_a_round(start, kind)
    logits = torch.from_numpy(X) @ weight.T + bias
    np.testing.assert_allclose(fed.predict_proba(X), softmax(logits.detach().numpy()), atol=1e-14)
    own = fit_small(FedLoGe(**QUICK)).predict_proba(X, groups=GROUPS)
    np.testing.assert_array_equal(fed.predict_proba(X, groups=GROUPS), own)


class Watcher:
    """A relabeler that keeps the posteriors it is given and changes no label."""

    seen = []

    def fit(self, Q, y):
        self.seen.append(Q)
        return self

    def relabel(self, Q, y, uniforms=None):
        return y


@pytest.mark.parametrize("kind", HEADS)
def test_each_head_can_relabel_whatever_predicts(kind):
    Watcher.seen.clear()
    settings = {"relabeler": Watcher(), "relabel_at": 1, "n_rounds": 2}
    fed = fit_small(FedLoGe(relabel_head=kind, **QUICK), **settings)
    weight, bias = heads_after_a_round(prepared(OneLayer, **QUICK), kind)
    Q = softmax((torch.from_numpy(X) @ weight.T + bias).detach().numpy())
    for k, seen in enumerate(Watcher.seen):
        np.testing.assert_allclose(seen, Q[k == GROUPS], atol=1e-14)
    assert len(Watcher.seen) == 2
    plain = fit_small(FedLoGe(**QUICK), n_rounds=2)
    np.testing.assert_array_equal(fed.predict_proba(X), plain.predict_proba(X))
    assert fed.history_.column("bytes_down").tolist() == plain.history_.column("bytes_down").tolist()


def test_a_head_without_bias_can_take_psis_place():
    algorithm = FedLoGe(predict_head="sparse", **QUICK)
    model = model_of(nn.Linear(4, 3, bias=False, dtype=torch.float64), algorithm)
    found = algorithm.predict_params(model.params, {}, model)
    assert torch.equal(found["main.weight"], model.module.sparse_head.weight)
    assert found.keys() == model.params.keys()


def test_only_the_fixed_classifier_moves_the_backbone():
    algorithm = FedLoGe(**QUICK)
    model = model_of(TwoLayers(), algorithm)
    x, y = torch.randn(6, 3, dtype=torch.float64), torch.tensor([0, 1, 2, 0, 0, 1])
    algorithm.client_loss(model, batch_of(x, y), local_of()).backward()
    found = {name: p.grad.clone() for name, p in model.module.named_parameters()}
    model.module.zero_grad()
    h = model.module[1](model.module[0](x))
    F.cross_entropy(model.module[2].sparse_head(h), y).backward()
    for name in ("0.weight", "0.bias"):
        torch.testing.assert_close(found[name], model.module.get_parameter(name).grad, rtol=0, atol=1e-16)
    for name in ("2.main.weight", "2.local_head.weight"):
        assert model.module.get_parameter(name).grad is None
        assert found[name].abs().max() > 0.001


def test_without_a_backbone_psi_is_fedavgs_head():
    average_head = fit_small(FedAvg()).net_.module_.weight.detach()
    found = fit_small(FedLoGe(**QUICK)).net_.module_.main.weight.detach()
    np.testing.assert_allclose(found, realigned(average_head), atol=1e-14)


def test_the_fixed_classifier_of_the_defaults():
    start = FedLoGe(n_steps=0).prepare_module(nn.Linear(32, 3), 3).sparse_head.weight
    assert int((start == 0).sum()) == 57  # of 96
    torch.manual_seed(0)
    W = FedLoGe().prepare_module(nn.Linear(32, 3), 3).sparse_head.weight.double()
    lengths = W.norm(dim=1)
    np.testing.assert_allclose(lengths, 3.0, rtol=1e-3)
    cosines = (W / lengths[:, None]) @ (W / lengths[:, None]).T
    np.testing.assert_allclose(cosines[~torch.eye(3, dtype=torch.bool)], -0.5, atol=1e-3)


def test_a_head_without_bias_has_heads_without():
    head = FedLoGe(**QUICK).prepare_module(nn.Linear(4, 3, bias=False), 3)
    assert head.local_head.bias is None
    assert head.sparse_head.bias is None


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"sparsity": 1.0}, "sparsity must be a finite number >= 0 and < 1"),
        ({"etf_norm": 0}, "etf_norm must be a finite number > 0"),
        ({"n_steps": 2.5}, "n_steps must be a whole number >= 0"),
        ({"aligned_norm": 0}, "aligned_norm must be a finite number > 0"),
        ({"predict_head": "psi"}, "predict_head must be one of .*'auxiliary'.* got 'psi'"),
        ({"relabel_head": "W"}, "relabel_head must be one of .*'sparse'.* got 'W'"),
    ],
)
def test_bad_values(params, message):
    with pytest.raises(ValueError, match=message):
        fit_small(FedLoGe(**params))
