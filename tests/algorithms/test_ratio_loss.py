"""Ratio Loss: a second round by hand, the set at the server, what travels."""

import numpy as np
import pytest
import torch
from torch import nn

from fedrela_sk.algorithms import FedAvg, Job, Local, RatioLoss, Recipe, RoundFacts
from fedrela_sk.algorithms._ratio_loss import train_on_class
from fedrela_sk.exceptions import LabelError, NetError
from fedrela_sk.training import Model
from tests.algorithms.heads import (
    GROUPS,
    B,
    OneLayer,
    Probabilities,
    W,
    WithBatchNorm,
    X,
    Y,
    cross_entropy_gradients,
    fit_small,
    softmax,
)
from tests.algorithms.helpers import TwoLayers, fit, fit_ragged, three_classes

CLIENTS = [np.flatnonzero(k == GROUPS) for k in (0, 1)]
# of every class its first row in X: one row each, since class 2 has no more
FIRST = [0, 2, 3]
N_PARAMS = 3 * 4 + 4 + 4 * 3 + 3


def ratios(changes):
    """Written out row by row and weight by weight."""
    n_classes, n_weights = changes.shape
    tops, bottoms = np.zeros(n_classes), np.zeros(n_classes)
    for i in range(n_weights):
        p = int(np.argmax(changes[:, i]))
        if all(abs(changes[q, i]) < 0.8 * abs(changes[p, i]) for q in range(n_classes) if q != p):
            tops[p] += changes[p, i]
            bottoms[p] += sum(changes[q, i] for q in range(n_classes) if q != p) / (n_classes - 1)
    return np.array([abs(t) / abs(b) if b else 10.0 for t, b in zip(tops, bottoms, strict=True)])


def sgd(w, b, x, y, row_weights, n_steps=2, lr=0.5, momentum=0.0):
    """Full-batch steps on the plain mean of weighted cross-entropies."""
    vw, vb = 0.0, 0.0
    for _ in range(n_steps):
        r = (softmax(x @ w.T + b) - np.eye(3)[y]) * row_weights[:, None] / len(y)
        vw, vb = momentum * vw + r.T @ x, momentum * vb + r.sum(0)
        w, b = w - lr * vw, b - lr * vb
    return w, b


def by_hand(n_rounds, auxiliary, beta=0.1, cap=50.0, momentum=0.0, decay=1.0):
    """(W, b, class weights for the next round) after some rounds."""
    w, b, a = W, B, np.ones(3)
    for t in range(n_rounds):
        steps = {"lr": 0.5 * decay**t, "momentum": momentum}
        ends = [sgd(w, b, X[rows], Y[rows], a[Y[rows]], **steps) for rows in CLIENTS]
        x, y = auxiliary
        changes = []
        for p in range(3):
            own = x[y == p]
            end, _ = sgd(w, b, own, np.full(len(own), p), np.ones(len(own)), **steps)
            changes.append((end - w).ravel())
        w, b = (np.mean([end[i] for end in ends], axis=0) for i in (0, 1))
        a = 1 + beta * np.minimum(ratios(np.array(changes)), cap)
    return w, b, a


HELD = (
    np.array([[0.5, -1.0], [1.5, 0.2], [0.3, 2.0], [-1.0, -0.4], [0.2, 1.1], [1.0, 0.9]]),
    np.array([2, 0, 2, 1, 1, 0]),
)


@pytest.mark.parametrize("engine", ["loop", "stacked"])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("n_rounds", [1, 2, 3])
def test_rounds_by_hand(n_rounds, momentum, engine):
    """At the default setting: the number of rows per class is more than there are."""
    net = {"optimizer__momentum": momentum}
    module = fit_small("ratio_loss", n_rounds=n_rounds, engine=engine, net=net).net_.module_
    w, b, a = by_hand(n_rounds, (X[FIRST], Y[FIRST]), momentum=momentum)
    np.testing.assert_allclose(module.weight.detach(), w, rtol=0, atol=1e-13)
    np.testing.assert_allclose(module.bias.detach(), b, rtol=0, atol=1e-13)
    assert a.std() > 0.01
    if n_rounds > 1:
        assert abs(w - by_hand(n_rounds, (X[FIRST], Y[FIRST]), beta=0, momentum=momentum)[0]).max() > 1e-3


def test_rows_of_ones_own_and_a_cap():
    module = fit_small(RatioLoss(HELD, beta=0.5, cap=2.0), n_rounds=3).net_.module_
    np.testing.assert_allclose(module.weight.detach(), by_hand(3, HELD, 0.5, 2.0)[0], rtol=0, atol=1e-13)
    assert abs(by_hand(3, HELD, 0.5, 2.0)[0] - by_hand(3, HELD, 0.5)[0]).max() > 1e-4


def test_the_server_trains_at_the_rate_of_the_round():
    """Far from the cap, where ratios depend on it."""
    module = fit_small(RatioLoss(HELD, beta=1e-3, cap=1e9), n_rounds=3, lr_schedule=0.4).net_.module_
    w = by_hand(3, HELD, 1e-3, 1e9, decay=0.4)[0]
    np.testing.assert_allclose(module.weight.detach(), w, rtol=0, atol=1e-13)


def test_round_zero_is_uniform_fedavg_bit_by_bit_and_so_is_every_round_without_beta():
    data = three_classes()
    for algorithm, n_rounds in ((RatioLoss(), 1), (RatioLoss(beta=0.0), 3)):
        plain, own = (
            fit(kind, TwoLayers, data, n_rounds=n_rounds, client_weight="uniform").predict_proba(data[0])
            for kind in (FedAvg(), algorithm)
        )
        np.testing.assert_array_equal(plain, own)


def test_every_class_has_as_many_rows_as_the_rarest():
    codes = torch.tensor([1, 0, 1, 0, 0, 1])
    job = Job(2, 2, np.arange(2), 0, torch.empty(0), auxiliary=(torch.arange(6.0)[:, None], codes))
    state = RatioLoss().server_init({}, job)
    assert state["auxiliary rows by class"].squeeze(-1).tolist() == [[1, 3, 4], [0, 2, 5]]
    job = Job(2, 2, np.arange(2), 0, torch.empty(0), auxiliary=(torch.arange(4.0)[:, None], codes[1:5]))
    assert RatioLoss().server_init({}, job)["auxiliary rows by class"].squeeze(-1).tolist() == [[0], [1]]


def test_the_loss_is_divided_by_rows_not_by_weights():
    a, losses, y = [1.1, 1.5, 3.0, 6.0], [0.2, 0.3, 0.1, 2.0], torch.tensor([0, 0, 0, 3])
    logits = torch.full((4, 4), -100.0, dtype=torch.float64)
    for i, (label, loss) in enumerate(zip(y.tolist(), losses, strict=True)):
        logits[i, label], logits[i, (label + 1) % 4] = 0.0, np.log(np.expm1(loss))
    local = Local(anchor={}, state={}, server={"weights": torch.tensor(a, dtype=torch.float64)}, counts=None)
    got = RatioLoss().client_row_losses(logits, y, local)
    assert got.mean().item() == pytest.approx(3.165, abs=1e-12)


def test_the_server_trains_in_batches_and_with_decay_like_a_client():
    """One client that is class 0 of the auxiliary set, and its model after the same steps."""
    x, y = HELD[0][HELD[1] == 0], np.zeros(2, dtype=int)
    net = {"optimizer__momentum": 0.9, "optimizer__weight_decay": 0.1, "batch_size": 1}
    seen = {}

    class Spy(RatioLoss):
        def server_train(self, model, params, server_state, facts):
            rows = server_state["auxiliary rows by class"][0]
            seen["end"] = train_on_class(model, rows, 0, facts)
            seen["start"] = facts.anchor
            return super().server_train(model, params, server_state, facts)

    fit_small(Spy(HELD), net=net, lr_schedule=0.5)
    w, b, vw, vb = W, B, 0.0, 0.0
    for _ in range(2):
        for i in range(2):
            gw, gb = cross_entropy_gradients(x[[i]] @ w.T + b, y[[i]], x[[i]])
            vw, vb = 0.9 * vw + gw + 0.1 * w, 0.9 * vb + gb + 0.1 * b
            w, b = w - 0.5 * vw, b - 0.5 * vb
    np.testing.assert_allclose(seen["end"]["weight"], w, rtol=0, atol=1e-13)
    np.testing.assert_allclose(seen["end"]["bias"], b, rtol=0, atol=1e-13)
    np.testing.assert_array_equal(seen["start"]["weight"], W)


def test_what_travels():
    fed = fit("ratio_loss", TwoLayers, three_classes(), n_rounds=2)
    assert fed.history_.column("bytes_up").tolist() == [3 * (8 * N_PARAMS + 8)] * 2
    assert fed.history_.column("bytes_down").tolist() == [3 * 8 * (N_PARAMS + 3)] * 2


def test_batch_norm_and_probabilities():
    """Mini-trainings leave the running statistics and the mode of the module alone."""
    data = three_classes()
    own, plain = (
        fit(kind, WithBatchNorm, data, client_weight="uniform").net_.module_
        for kind in ("ratio_loss", "fedavg")
    )
    for name, tensor in plain.state_dict().items():
        np.testing.assert_array_equal(own.state_dict()[name], tensor)
    logits = fit("ratio_loss", TwoLayers, data, n_rounds=3).predict_proba(data[0])
    net = {"criterion": nn.NLLLoss}
    probabilities = fit("ratio_loss", Probabilities, data, n_rounds=3, net=net).predict_proba(data[0])
    np.testing.assert_allclose(probabilities, logits, rtol=0, atol=1e-10)


def test_the_server_drops_no_unit():
    x, ends = torch.from_numpy(X), []
    for module in (OneLayer(), nn.Sequential(nn.Dropout(0.9), OneLayer())):
        params = {name: p.detach().clone() for name, p in module.named_parameters()}
        facts = RoundFacts(0, 1, 1, 0.5, tuple(params), params, Recipe(epochs=2, batch_size=3))
        model = Model(module.train(), nn.CrossEntropyLoss(), 3)
        ends.append(list(train_on_class(model, x, 1, facts).values()))
        assert module.training
        assert torch.equal(next(iter(params.values())), torch.from_numpy(W))
    for plain, dropping in zip(*ends, strict=True):
        np.testing.assert_array_equal(plain, dropping)


@pytest.mark.parametrize("held", [False, True])
def test_both_engines_agree_on_ragged_clients_and_new_labels(held):
    x, y, _ = three_classes()
    algorithm = RatioLoss((x[:20] + 0.1, y[:20]) if held else 63)
    loop, stacked = (fit_ragged(algorithm, engine=engine).predict_proba(x) for engine in ("loop", "stacked"))
    np.testing.assert_allclose(loop, stacked, rtol=0, atol=1e-10)


def test_a_class_without_auxiliary_rows():
    with pytest.raises(LabelError, match="auxiliary has no row of class 2"):
        fit_small(RatioLoss((X[:3], Y[:3])))


def test_no_auxiliary_rows_at_all():
    with pytest.raises(ValueError, match="leaves RatioLoss without rows at the server"):
        fit_small(RatioLoss(None))


def test_a_net_without_a_head():
    class Bare(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.zeros(2, 3, dtype=torch.float64))

        def forward(self, x):
            return x @ self.w

    with pytest.raises(NetError, match="no linear layer with n_classes=3 outputs"):
        fit(RatioLoss(), Bare, (X, Y, GROUPS))


@pytest.mark.parametrize("bad", [{"alpha": -1.0}, {"beta": np.nan}, {"cap": 0.0}])
def test_bad_settings(bad):
    with pytest.raises(ValueError, match=f"{next(iter(bad))} must be a finite number >"):
        fit_small(RatioLoss(**bad))
