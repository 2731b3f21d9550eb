"""FedGraB: controllers, the prior from norms, what is left alone, rounds in plain NumPy."""

import numpy as np
import pytest
import torch
from torch import nn

from fedrela_sk._random import Purpose, client_stream_id, numpy_stream
from fedrela_sk.algorithms import FedGraB, Job, RoundFacts
from fedrela_sk.algorithms._fedgrab import balance, left_alone, norm_prior, tail
from tests.algorithms.heads import (
    GROUPS,
    B,
    OneLayer,
    Probabilities,
    W,
    WithBatchNorm,
    X,
    Y,
    batch_of,
    fit_small,
    local_of,
    model_of,
)
from tests.algorithms.helpers import TwoLayers, fit, fit_ragged, three_classes

CLIENTS = [np.flatnonzero(k == GROUPS) for k in (0, 1)]
N_PARAMS = 3 * 4 + 4 + 4 * 3 + 3


def tensor(values):
    return torch.tensor(values, dtype=torch.float64)


# --------------------------------------------------------------------------------------------- the parts


def test_the_factor_is_one_at_rest_and_between_nought_and_ten():
    u = tensor([0.0, -1e6, 1e6, 2 * np.log(3)])
    np.testing.assert_allclose(balance(u), [1, 0, 10, (10 / 9) / (1 / 9 + 1 / 3)], rtol=1e-14)


def test_the_controller_on_a_constant_error_of_one():
    algorithm, controlled = FedGraB(), torch.tensor([True, False])
    state = algorithm.client_init({}) | {"difference": tensor([-1.0, -1.0])}
    got = []
    for _ in range(5):
        state = algorithm._steer(state, controlled)
        got.append(state["control"].tolist())
    np.testing.assert_allclose(np.array(got)[:, 0], [10.11, 10.02, 10.03, 10.04, 10.05], atol=1e-12)
    assert np.array(got)[:, 1].tolist() == [0] * 5
    assert state["difference"].tolist() == [-1, -1]


def test_a_class_that_is_controlled_no_more_is_at_rest():
    state = {name: tensor([3.0]) for name in ("difference", "control", "error", "error_before")}
    rest = FedGraB()._steer(state, torch.tensor([False]))
    assert [float(rest[name]) for name in ("difference", "control", "error", "error_before")] == [3, 0, 0, 0]


def test_the_prior_from_norms():
    """Norms 5, 1, 2, 1; z-scored, shifted and scaled as the official code does it."""
    weight = tensor([[3.0, 4.0], [1.0, 0.0], [0.0, -2.0], [0.6, 0.8]])
    z = (np.array([5.0, 1, 2, 1]) - 2.25) / np.std([5.0, 1, 2, 1])
    expected = (z - z.min()) / (z - z.min()).sum()
    np.testing.assert_allclose(norm_prior(weight), expected, atol=1e-15)
    np.testing.assert_allclose(norm_prior(weight), [0.8, 0, 0.2, 0], atol=1e-15)
    assert norm_prior(torch.eye(4)).tolist() == [0.25] * 4


@pytest.mark.parametrize(
    ("prior", "expected"),
    [
        ([7000, 2500, 400, 100], [0, 0, 1, 1]),  # 95 % hit exactly: the second ends the medium classes
        ([100, 2500, 400, 7000], [1, 0, 1, 0]),
        ([7000, 2400, 500, 100], [0, 0, 0, 1]),  # the class that crosses 95 % is medium
        ([9900, 100, 0], [0, 1, 1]),  # one class crosses both thresholds
        ([10000, 0], [0, 1]),
        ([2500, 2500, 2500, 2500], [0, 0, 0, 0]),
        ([0, 0, 0], [0, 0, 0]),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_tail(prior, expected, dtype):
    assert tail(torch.tensor(prior, dtype=dtype)).int().tolist() == expected


class Uniforms:
    def __init__(self, values):
        self.values = values

    def random(self, n):
        assert n == len(self.values)
        return np.array(self.values)


@pytest.mark.parametrize(
    ("uniforms", "expected"),
    [
        ([0.99, 0.99, 0.99], [0, 0, 1, 0]),  # the commonest controlled class, always
        ([0.99, 0.31, 0.99], [0, 1, 1, 0]),  # 0.1^(1/2) = 0.316
        ([0.99, 0.32, 0.31], [0, 0, 1, 1]),  # the rank advances on success alone
        ([0.99, 0.31, 0.09], [0, 1, 1, 1]),
        ([0.99, 0.31, 0.11], [0, 1, 1, 0]),
    ],
)
def test_what_is_left_alone(uniforms, expected):
    """In descending order of the prior: classes 2, 1, 3; class 0 is not controlled."""
    prior, controlled = tensor([9.0, 2.0, 5.0, 1.0]), torch.tensor([False, True, True, True])
    assert left_alone(prior, controlled, Uniforms(uniforms)).int().tolist() == expected


def test_a_single_controlled_class_is_never_left_alone():
    assert not left_alone(tensor([1.0, 0.0]), torch.tensor([False, True]), None).any()
    assert not left_alone(tensor([1.0, 0.0]), torch.tensor([False, False]), None).any()


def test_the_server_averages_its_readings():
    module, algorithm = OneLayer(), FedGraB()
    model = model_of(module, algorithm)
    state = algorithm.server_init({}, Job(2, 3, np.arange(3), 0, torch.empty(0, dtype=torch.float64)))
    assert algorithm.server_broadcast(state).every_round["prior"].tolist() == [0, 0, 0]
    facts = RoundFacts(0, 2, 2, 0.1)
    for weight in (np.diag([4.0, 2.0]), np.diag([1.0, 3.0])):
        params = {"weight": tensor(np.r_[weight, [[0.0, 1.0]]].tolist()), "bias": torch.zeros(3)}
        _, state = algorithm.server_train(model, params, state, facts)
    np.testing.assert_allclose(
        algorithm.server_broadcast(state).every_round["prior"], [3750, 1250 + 5000, 0], atol=1e-9
    )


# ------------------------------------------------------------------------------------- losses and rounds


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


def bce(z, y):
    t = np.eye(z.shape[1])[y]
    return (np.log1p(np.exp(z)) - t * z).sum(1).mean()


def test_at_rest_it_is_the_plain_one_vs_all_loss():
    module = OneLayer()
    local = local_of(state=FedGraB().client_init({}), server={"prior": torch.zeros(3)})
    got, state = FedGraB().client_loss(model_of(module, FedGraB()), batch_of(X, Y), local)
    z = X @ W.T + B
    assert got.item() == pytest.approx(bce(z, Y), abs=1e-14)
    got.backward()
    g = (sigmoid(z) - np.eye(3)[Y]) / len(Y)
    np.testing.assert_allclose(module.weight.grad, g.T @ X, atol=1e-15)
    own = np.eye(3)[Y] > 0
    expected = np.where(own, abs(g), 0).sum(0) - np.where(own, 0, abs(g)).sum(0)
    np.testing.assert_allclose(state["difference"], expected, atol=1e-15)


def by_hand(n_rounds, classes, n_steps=2, lr=0.5, gains=(10, 0.01, 0.1)):
    """(W, b) after some rounds, every class and step written out."""
    kp, ki, kd = gains
    w, b, total = W, B, np.zeros(3)
    kept = [{"D": np.zeros(3), "u": np.zeros(3), "e1": np.zeros(3), "e2": np.zeros(3)} for _ in CLIENTS]
    for t in range(n_rounds):
        prior, ends = total / max(t, 1), []
        order = np.argsort(-prior, kind="stable")
        before = np.cumsum(prior[order]) - prior[order]
        if classes == "all":
            controlled = [0, 1, 2]
        else:
            controlled = [
                c for c, s in zip(order, before, strict=True) if prior.sum() and s >= 0.95 * prior.sum()
            ]
        for k, rows in enumerate(CLIENTS):
            stream, x, y = numpy_stream(0, Purpose.METHOD, t, client_stream_id(k)), X[rows], Y[rows]
            wk, bk, c = w, b, kept[k]
            for _ in range(n_steps):
                alone, rank = [], 0
                visit = [i for i in order if i in controlled]
                if len(visit) > 1:
                    draws = stream.random(len(visit))
                    for i, draw in zip(visit, draws, strict=True):
                        if draw < 0.1 ** (rank / (len(visit) - 1)):
                            alone.append(i)
                            rank += 1
                g = (sigmoid(x @ wk.T + bk) - np.eye(3)[y]) / len(y)
                for i in range(3):
                    e = -c["D"][i]
                    if i in controlled:
                        c["u"][i] += kp * (e - c["e1"][i]) + ki * e + kd * (e - 2 * c["e1"][i] + c["e2"][i])
                        c["e2"][i], c["e1"][i] = c["e1"][i], e
                    else:
                        c["u"][i] = c["e1"][i] = c["e2"][i] = 0
                    u = 0 if i in alone else c["u"][i]
                    up, down = ((10 / 9) / (1 / 9 + np.exp(-s * u / 2)) for s in (1, -1))
                    g[:, i] *= np.where(y == i, up, down)
                    if i not in alone:
                        c["D"][i] += abs(g[y == i, i]).sum() - abs(g[y != i, i]).sum()
                wk, bk = wk - lr * g.T @ x, bk - lr * g.sum(0)
            ends.append((wk, bk))
        w, b = (np.average([end[i] for end in ends], axis=0, weights=[5, 2]) for i in (0, 1))
        norms = np.linalg.norm(w, axis=1)
        total = total + 10000 * (norms - norms.min()) / (norms - norms.min()).sum()
    return w, b


@pytest.mark.parametrize("classes", ["tail", "all"])
@pytest.mark.parametrize("n_rounds", [1, 2, 4])
def test_rounds_by_hand(n_rounds, classes):
    algorithm = "fedgrab" if classes == "tail" else FedGraB(classes)
    module = fit_small(algorithm, n_rounds=n_rounds).net_.module_
    w, b = by_hand(n_rounds, classes)
    np.testing.assert_allclose(module.weight.detach(), w, rtol=0, atol=1e-12)
    np.testing.assert_allclose(module.bias.detach(), b, rtol=0, atol=1e-12)
    if (n_rounds, classes) != (1, "tail"):
        assert abs(w - by_hand(n_rounds, classes, gains=(0, 0, 0))[0]).max() > 1e-3
    assert abs(fit_small("fedavg", n_rounds=n_rounds).net_.module_.weight - module.weight).max() > 1e-3


def test_gains_of_ones_own():
    module = fit_small(FedGraB("all", kp=1.0, ki=0.5, kd=0.0), n_rounds=3).net_.module_
    w, _ = by_hand(3, "all", gains=(1.0, 0.5, 0.0))
    np.testing.assert_allclose(module.weight.detach(), w, rtol=0, atol=1e-12)


def test_posteriors_are_the_softmax_and_the_sigmoids_agree_on_the_largest():
    fed = fit_small("fedgrab", n_rounds=3)
    z = X @ fed.net_.module_.weight.detach().numpy().T + fed.net_.module_.bias.detach().numpy()
    e = np.exp(z)
    np.testing.assert_allclose(fed.predict_proba(X), e / e.sum(1, keepdims=True), atol=1e-12)
    np.testing.assert_array_equal(fed.predict(X), sigmoid(z).argmax(1))


def test_a_module_that_ends_in_a_softmax_trains_its_logits():
    data = three_classes()
    z, p = (
        fit(FedGraB("all"), module, data, n_rounds=3, net=net).predict_proba(data[0])
        for module, net in ((TwoLayers, {}), (Probabilities, {"criterion": nn.NLLLoss}))
    )
    np.testing.assert_allclose(z, p, rtol=0, atol=1e-12)


def test_the_prior_travels_with_the_model():
    fed = fit("fedgrab", TwoLayers, three_classes(), n_rounds=2)
    assert fed.history_.column("bytes_up").tolist() == [3 * (8 * N_PARAMS + 8)] * 2
    assert fed.history_.column("bytes_down").tolist() == [3 * 8 * (N_PARAMS + 3)] * 2


@pytest.mark.parametrize("classes", ["tail", "all"])
@pytest.mark.parametrize("module", [TwoLayers, WithBatchNorm])
def test_ragged_clients_with_new_labels(module, classes):
    fed = fit_ragged(FedGraB(classes), module)
    assert np.isfinite(fed.predict_proba(three_classes()[0])).all()


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"classes": "head"}, "classes must be one of 'tail', 'all'"),
        ({"kp": -1.0}, "kp must be a finite number >= 0"),
        ({"ki": np.nan}, "ki must be a finite number >= 0"),
        ({"kd": "0"}, "kd must be a finite number >= 0"),
    ],
)
def test_bad_settings(bad, said):
    with pytest.raises(ValueError, match=said):
        fit_small(FedGraB(**bad))
