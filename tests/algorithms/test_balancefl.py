"""BalanceFL: balanced batches, noise on features, three terms of the loss."""

import numpy as np
import pytest
import torch
from torch import nn

from fedrela_sk import FedReLaRelabeler
from fedrela_sk._random import Purpose, client_stream_id, numpy_stream
from fedrela_sk.algorithms import BalanceFL
from fedrela_sk.algorithms._balancefl import balanced_order, mean_class_covariance, square_root
from fedrela_sk.training import ClientData
from tests.algorithms.heads import (
    B,
    OneLayer,
    Probabilities,
    W,
    WithBatchNorm,
    batch_of,
    local_of,
    model_of,
    softmax,
)
from tests.algorithms.helpers import TwoLayers, fit, fit_ragged, three_classes

N_PARAMS = 3 * 4 + 4 + 4 * 3 + 3
NO_NOISE = {"noise": torch.zeros(1, 2, dtype=torch.float64)}


class FiveClasses(nn.Linear):
    """Logits of five classes; the features are the input."""

    def __init__(self, start=0):
        super().__init__(2, 5, dtype=torch.float64)
        rng = np.random.default_rng(start)
        with torch.no_grad():
            self.weight.copy_(torch.from_numpy(rng.normal(size=(5, 2))))
            self.bias.copy_(torch.from_numpy(rng.normal(size=5)))


class Stream:
    """Draws that are known beforehand."""

    def __init__(self, uniforms, picks):
        self.uniforms, self.picks = np.array(uniforms), np.array(picks)

    def random(self, n):
        return self.uniforms

    def integers(self, high, size):
        return self.picks


X = np.array([[1.0, 0.5], [2.0, -1.0], [-1.0, 0.3]])
Y = np.array([0, 3, 0])
HERE, GONE = [0, 3], [1, 2, 4]


def entropy(q):
    return -(q * np.log(q)).sum(1)


def by_hand(now, received, noisy, distill=1.0, temperature=2.0, strength=0.002):
    """The loss of the batch above, from logits."""
    own = softmax(noisy[:, HERE])[np.arange(3), [0, 1, 0]]
    p, q = (softmax(z[:, GONE] / temperature) for z in (received, now))
    kept = -(p * np.log(q)).sum(1)
    return np.mean(-np.log(own)) + distill * np.mean(kept) - strength * entropy(softmax(now[:, HERE])).sum()


def loss_of(algorithm, module, anchor, counts, start, stream):
    params = {name: p.detach() for name, p in anchor.named_parameters()}
    local = local_of(counts, anchor=params, start=start, stream=stream)
    return algorithm.client_loss(model_of(module, algorithm, 5), batch_of(X, Y), local)


def logits(module, x=X):
    return x @ module.weight.detach().numpy().T + module.bias.detach().numpy()


@pytest.mark.parametrize(
    "settings", [{}, {"distill": 3.0, "temperature": 1.0}, {"entropy": 0.5}, {"distill": 0.0, "entropy": 0.0}]
)
def test_three_terms_by_hand(settings):
    now, received = FiveClasses(0), FiveClasses(1)
    got = loss_of(BalanceFL(**settings), now, received, [2, 2, 0, 2, 2], NO_NOISE, Stream([0.5] * 3, [0] * 3))
    strength = settings.pop("entropy", 0.002)
    expected = by_hand(logits(now), logits(received), logits(now), strength=strength, **settings)
    assert got.item() == pytest.approx(expected, abs=1e-14)


def test_noise_falls_on_rare_classes_alone_and_enters_the_first_term_alone():
    """Class 3 has 2 of 8 rows: its row is drawn with probability 3/4."""
    now, received, counts = FiveClasses(0), FiveClasses(1), [8, 0, 0, 2, 0]
    pool = torch.tensor([[9.0, 9.0], [0.3, -0.2]], dtype=torch.float64)
    for uniform, moved in ((0.74, True), (0.76, False)):
        stream = Stream([0.0, uniform, 0.0], [0, 1, 0])
        got = loss_of(BalanceFL(), now, received, counts, {"noise": pool}, stream)
        noisy = X + np.array([[0, 0], [0.3, -0.2], [0, 0]]) * moved
        expected = by_hand(logits(now), logits(received), logits(now, noisy))
        assert got.item() == pytest.approx(expected, abs=1e-14)


def test_the_first_term_ignores_logits_of_classes_that_are_not_in_the_batch():
    algorithm = BalanceFL(distill=0.0, entropy=0.0)
    now, shifted = FiveClasses(0), FiveClasses(0)
    with torch.no_grad():
        shifted.bias[GONE] += 7.0
    losses = [
        loss_of(algorithm, module, now, [2, 0, 0, 2, 0], NO_NOISE, Stream([0.5] * 3, [0] * 3))
        for module in (now, shifted)
    ]
    assert losses[0].item() == losses[1].item()
    losses[0].backward()
    assert (now.weight.grad[GONE] == 0).all()
    assert (now.weight.grad[HERE] != 0).all()


class Normed(nn.Sequential):
    """Five classes after a layer with BatchNorm, whose running statistics are not those of the batch."""

    def __init__(self):
        kind = {"dtype": torch.float64}
        super().__init__(nn.Linear(2, 4, **kind), nn.BatchNorm1d(4, **kind), nn.Linear(4, 5, **kind))
        nn.init.uniform_(self[1].running_mean)


def test_the_received_model_answers_in_evaluation_mode():
    now, received = Normed(), Normed()
    start = {"noise": torch.zeros(1, 4, dtype=torch.float64)}
    state = {name: tensor.clone() for name, tensor in received.state_dict().items()}
    local = local_of([2, 2, 0, 2, 2], anchor=state, start=start, stream=Stream([0.5] * 3, [0] * 3))
    got = BalanceFL().client_loss(model_of(now, BalanceFL(), 5), batch_of(X, Y), local)
    x = torch.from_numpy(X)
    with torch.no_grad():
        z, before = now(x).numpy(), received.eval()(x).numpy()
    assert got.item() == pytest.approx(by_hand(z, before, z), abs=1e-14)
    assert all(torch.equal(tensor, received.state_dict()[name]) for name, tensor in state.items())
    assert now[1].num_batches_tracked == 2  # this test's own pass is the second


def test_features_for_the_covariance_are_those_of_evaluation_mode():
    module, x = Normed(), torch.from_numpy(X)
    data = ClientData(x, torch.from_numpy(Y), torch.ones(3), torch.ones(3))
    start = BalanceFL(n_noise=5).client_begin(
        model_of(module, BalanceFL(), 5), data, local_of(stream=np.random.default_rng(0))
    )
    assert module[1].num_batches_tracked == 0
    with torch.no_grad():
        h = module[1].eval()(module[0](x))
    root = square_root(mean_class_covariance(h, torch.from_numpy(Y), torch.ones(3)))
    expected = np.random.default_rng(0).standard_normal((5, 4)) @ root.numpy()
    np.testing.assert_allclose(start["noise"], expected, rtol=0, atol=1e-12)


def test_a_batch_with_every_class_keeps_nothing():
    module = FiveClasses(0)
    x, y = np.random.default_rng(0).normal(size=(5, 2)), np.arange(5)
    params = {name: p.detach() for name, p in FiveClasses(1).named_parameters()}
    local = local_of([1] * 5, anchor=params, start=NO_NOISE, stream=Stream([0.5] * 5, [0] * 5))
    got = BalanceFL(entropy=0.0).client_loss(model_of(module, BalanceFL(), 5), batch_of(x, y), local)
    expected = -np.log(softmax(logits(module, x))[y, y]).mean()
    assert got.item() == pytest.approx(expected, abs=1e-14)


def gradients(w, b, x, y, n_classes=3, strength=0.002):
    """Of CE over the classes that are there less 0.002 times the summed entropy; one absent class keeps nothing."""
    here = np.unique(y)
    z = x @ w[here].T + b[here]
    q, n = softmax(z), len(y)
    r = (q - (y[:, None] == here)) / n
    r = r + strength * q * (np.log(q) + entropy(q)[:, None])  # minus the gradient of the entropy
    full = np.zeros((n, n_classes))
    full[:, here] = r
    return full.T @ x, full.sum(0)


def test_a_round_at_the_default_setting():
    """Classes are even at both clients, so batches hold every row once and no row gets noise."""
    x = np.random.default_rng(0).normal(size=(8, 2))
    y, groups = np.array([0, 1, 2, 0, 1, 2, 1, 0]), np.array([0, 0, 0, 1, 0, 0, 1, 0])
    ends, sizes = [], []
    for client in (0, 1):
        rows = np.flatnonzero(groups == client)
        w, b = W, B
        for _ in range(2):
            gw, gb = gradients(w, b, x[rows], y[rows])
            w, b = w - 0.5 * gw, b - 0.5 * gb
        ends.append((w, b))
        sizes.append(len(rows))
    fed = fit("balancefl", OneLayer, (x, y, groups))
    module = fed.net_.module_
    np.testing.assert_allclose(
        module.weight.detach(), np.average([w for w, _ in ends], axis=0, weights=sizes), rtol=0, atol=1e-14
    )
    np.testing.assert_allclose(
        module.bias.detach(), np.average([b for _, b in ends], axis=0, weights=sizes), rtol=0, atol=1e-14
    )
    plain = fit("fedavg", OneLayer, (x, y, groups)).net_.module_
    assert abs(plain.weight - module.weight).max() > 1e-3


def test_an_order_visits_every_class_equally_often_and_its_rows_too():
    y = np.array([0] * 20 + [2] * 7 + [5])
    order = balanced_order(y, np.random.default_rng(0))
    assert len(order) == 28
    counts = np.bincount(y[order])
    assert sorted(counts[counts > 0]) == [9, 9, 10]
    often = np.bincount(order, minlength=28)
    assert set(often[:20]) <= {0, 1}
    assert set(often[20:27]) <= {1, 2}
    for start in range(0, 27, 3):
        assert set(y[order[start : start + 3]]) == {0, 2, 5}


def test_every_epoch_has_an_order_of_its_own():
    y = np.array([0, 0, 0, 1, 1, 1])
    orders = BalanceFL().client_order(y, 4, 2, np.random.default_rng(0))
    assert orders.shape == (4, 6)
    assert len({tuple(order) for order in orders}) > 1
    assert balanced_order(np.array([3]), np.random.default_rng(0)).tolist() == [0]


def test_the_covariance_is_the_mean_of_the_classes_by_rows():
    rng = np.random.default_rng(0)
    h, y = rng.normal(size=(12, 3)), np.array([0] * 7 + [1] * 4 + [2])
    expected = (7 * np.cov(h[:7].T) + 4 * np.cov(h[7:11].T)) / 12  # one row has no covariance
    tensors = torch.from_numpy(h), torch.from_numpy(y)
    got = mean_class_covariance(*tensors, torch.ones(12))
    np.testing.assert_allclose(got, expected, rtol=1e-12)
    weights = torch.tensor([2.0] * 2 + [1.0] * 10)
    again = np.r_[0, 1, np.arange(12)]
    repeated = mean_class_covariance(tensors[0][again], tensors[1][again], torch.ones(14))
    np.testing.assert_allclose(mean_class_covariance(*tensors, weights), repeated, rtol=1e-12)


def test_noise_has_the_covariance_of_the_features_that_the_received_model_gives():
    rng = np.random.default_rng(0)
    x, y = torch.from_numpy(rng.normal(size=(20, 3))), torch.from_numpy(np.arange(20) % 2)
    module = TwoLayers()
    model = model_of(module, BalanceFL())
    data = ClientData(x, y, torch.ones(20), torch.ones(20))
    start = BalanceFL(n_noise=6).client_begin(model, data, local_of(stream=np.random.default_rng(3)))
    h = torch.tanh(module[0](x)).detach()
    root = square_root(mean_class_covariance(h, y, torch.ones(20)))
    np.testing.assert_allclose(root @ root, mean_class_covariance(h, y, torch.ones(20)), atol=1e-14)
    expected = np.random.default_rng(3).standard_normal((6, 4)) @ root.numpy()
    np.testing.assert_allclose(start["noise"], expected, rtol=0, atol=1e-14)
    assert start["noise"].dtype == torch.float64


def test_a_client_of_one_row_has_no_noise():
    data = ClientData(torch.ones(1, 3, dtype=torch.float64), torch.tensor([1]), torch.ones(1), torch.ones(1))
    start = BalanceFL().client_begin(
        model_of(TwoLayers(), BalanceFL()), data, local_of(stream=np.random.default_rng(0))
    )
    assert start["noise"].shape == (500, 4)
    assert (start["noise"] == 0).all()


def test_draws_are_of_client_and_round():
    seen = []

    class Listening(BalanceFL):
        def client_begin(self, model, data, local):
            seen.append(super().client_begin(model, data, local)["noise"])
            return {"noise": seen[-1]}

    X, y, groups = three_classes()
    fit(Listening(n_noise=2), TwoLayers, (X, y, groups), n_rounds=2, lr=1e-12)
    assert len(seen) == 6
    draws = numpy_stream(0, Purpose.METHOD, 1, client_stream_id(2)).standard_normal((2, 4))
    own = numpy_stream(0, Purpose.METHOD, 0, client_stream_id(2)).standard_normal((2, 4))
    root, *_ = np.linalg.lstsq(np.r_[draws, own], np.r_[seen[5], seen[2]], rcond=None)
    np.testing.assert_allclose(root, root.T, atol=1e-8)  # the same symmetric root in both rounds


def test_nothing_but_the_model_travels():
    fed = fit("balancefl", TwoLayers, three_classes(), n_rounds=2)
    assert fed.history_.column("bytes_up").tolist() == [3 * (8 * N_PARAMS + 8)] * 2
    assert fed.history_.column("bytes_down").tolist() == [3 * 8 * N_PARAMS] * 2


@pytest.mark.parametrize("counts", ["original", "relabeled"])
@pytest.mark.parametrize("module", [TwoLayers, WithBatchNorm])
def test_ragged_clients_with_new_labels(module, counts):
    fed = fit_ragged(BalanceFL(counts=counts), module)
    assert np.isfinite(fed.predict_proba(three_classes()[0])).all()


def test_new_labels_count_where_asked():
    data = three_classes()
    settings = {"n_rounds": 4, "relabeler": FedReLaRelabeler(0.2), "relabel_at": 2}
    by_original, by_new = (
        fit(BalanceFL(counts=counts), TwoLayers, data, **settings).predict_proba(data[0])
        for counts in ("original", "relabeled")
    )
    assert abs(by_original - by_new).max() > 1e-8


def test_probabilities_and_sums():
    data = three_classes()
    settings = {"n_rounds": 2, "lr": 0.1}
    z, p = (
        fit("balancefl", module, data, net=net, **settings).predict_proba(data[0])
        for module, net in ((TwoLayers, {}), (Probabilities, {"criterion": nn.NLLLoss}))
    )
    np.testing.assert_allclose(z, p, rtol=0, atol=1e-10)
    X, y, groups = np.r_[data[0][:30]], data[1][:30], np.zeros(30, dtype=int)
    close = BalanceFL(entropy=0.0)
    mean, total = (
        fit(close, TwoLayers, (X, y, groups), lr=lr, net=net).predict_proba(X)
        for lr, net in ((0.3, {}), (0.01, {"criterion__reduction": "sum"}))
    )
    np.testing.assert_allclose(mean, total, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"distill": -1.0}, "distill must be a finite number >= 0"),
        ({"temperature": 0.0}, "temperature must be a finite number > 0"),
        ({"entropy": np.inf}, "entropy must be a finite number >= 0"),
        ({"n_noise": 0}, "n_noise must be a whole number >= 1"),
        ({"counts": "all"}, "counts must be one of 'original', 'relabeled'"),
    ],
)
def test_bad_settings(bad, said):
    with pytest.raises(ValueError, match=said):
        fit(BalanceFL(**bad), TwoLayers, three_classes())
