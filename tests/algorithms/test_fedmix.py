"""FedMix: mixup with means, to first order and in full."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from fedrela_sk._random import Purpose, client_stream_id, numpy_stream
from fedrela_sk.algorithms import FedAvg, FedMix, Local
from fedrela_sk.training import Batch, ClientData, Model
from tests.algorithms.heads import WithBatchNorm
from tests.algorithms.helpers import GROUPS, TwoLayers, X, Y, fedavg_weight, fit, three_classes, weight

MEANS = {  # of the two clients of `helpers`
    "x": np.array([X[k == GROUPS].mean() for k in (0, 1)]),
    "y": np.array([[np.mean(Y[k == GROUPS] == c) for c in (0, 1)] for k in (0, 1)]),
}


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


def mixed_gradient(w, x, y, mean_x, mean_y, lam):
    """Of the FedMix loss of `OneWeight` for w, each of the three terms differentiated by hand.

    With s the sigmoid of w u at u = (1 - lam) x: l = -y log s - (1 - y) log(1 - s), dl/dw = (s - y) u,
    dl/du = (s - y) w, d^2 l / du dw = (s - y) + w u s (1 - s).
    """
    u = (1 - lam) * x
    s = sigmoid(w * u)
    third = ((s - y) + w * u * s * (1 - s)) * mean_x
    return np.mean((1 - lam) * (s - y) * u + lam * (s - mean_y) * u + lam * (1 - lam) * third)


def naive_gradient(w, x, y, mean_x, mean_y, lam):
    u = (1 - lam) * x + lam * mean_x
    s = sigmoid(w * u)
    return np.mean(((1 - lam) * (s - y) + lam * (s - mean_y)) * u)


def by_hand(rule, lam=0.05, n_rounds=1, lr=0.5, n_steps=2):
    """The weight after full-batch rounds; partners as the clients' streams draw them."""
    w = 0.5
    for round in range(n_rounds):
        ends = []
        for k in (0, 1):
            x, y, v = X[k == GROUPS].ravel(), Y[k == GROUPS], w
            stream = numpy_stream(0, Purpose.METHOD, round, client_stream_id(k))
            for _ in range(n_steps):
                pick = int(stream.integers(2))
                v -= lr * rule(v, x, y, MEANS["x"][pick], MEANS["y"][pick, 1], lam)
            ends.append(v)
        w = (4 * ends[0] + 2 * ends[1]) / 6
    return w


def test_rounds_at_the_default_settings():
    assert weight(fit("fedmix", n_rounds=2)) == pytest.approx(by_hand(mixed_gradient, n_rounds=2), abs=1e-13)
    assert abs(by_hand(mixed_gradient) - fedavg_weight()) > 1e-3


def test_naive_mixup():
    fed = fit(FedMix(0.2, naive=True), n_rounds=2)
    assert weight(fed) == pytest.approx(by_hand(naive_gradient, 0.2, n_rounds=2), abs=1e-13)
    assert abs(by_hand(naive_gradient, 0.2) - by_hand(mixed_gradient, 0.2)) > 1e-4


class Fixed:
    """A stream that always picks the first mean."""

    @staticmethod
    def integers(high):
        return 0


def loss_of(algorithm, mean_x, mean_y, rows=4, criterion=None, weights=None, repeats=1, module=None):
    """(loss, its gradients) of a batch of a small net with smooth activations."""
    torch.manual_seed(0)
    module = TwoLayers() if module is None else module
    x, y = torch.randn(rows, 3, dtype=torch.float64), torch.arange(rows) % 3
    criterion = nn.CrossEntropyLoss() if criterion is None else criterion
    share = torch.ones(rows, dtype=torch.float64) if weights is None else weights
    share = (share / share.sum()).repeat(repeats) / repeats
    batch = Batch(x.repeat(repeats, 1), y.repeat(repeats), share, criterion)
    local = Local({}, {}, {"x": mean_x[None], "y": mean_y[None]}, None, stream=Fixed)
    loss = algorithm.client_loss(Model(module, criterion, 3), batch, local)
    return loss, torch.autograd.grad(loss, list(module.parameters())), (module, x, y)


MEAN_X = torch.tensor([0.5, -1.0, 2.0], dtype=torch.float64)
MEAN_Y = torch.tensor([0.2, 0.3, 0.5], dtype=torch.float64)


def test_every_row_has_a_slope_of_its_own():
    """Against one differentiation per row."""
    lam = 0.3
    loss, _, (module, x, y) = loss_of(FedMix(lam), MEAN_X, MEAN_Y)
    expected = []
    for row, label in zip(x, y, strict=True):
        u = ((1 - lam) * row).requires_grad_()
        own = F.cross_entropy(module(u[None]), label[None])
        (slope,) = torch.autograd.grad(own, u, retain_graph=True)
        soft = -(MEAN_Y * torch.log_softmax(module(u[None])[0], 0)).sum()
        expected.append((1 - lam) * own + lam * soft + lam * (1 - lam) * slope @ MEAN_X)
    torch.testing.assert_close(loss, torch.stack(expected).mean(), rtol=0, atol=1e-14)


@pytest.mark.parametrize("naive", [False, True])
def test_no_share_is_the_cross_entropy(naive):
    loss, grads, (module, x, y) = loss_of(FedMix(0.0, naive=naive), MEAN_X, MEAN_Y)
    plain = F.cross_entropy(module(x), y)
    torch.testing.assert_close(loss, plain, rtol=0, atol=1e-15)
    for grad, other in zip(grads, torch.autograd.grad(plain, list(module.parameters())), strict=True):
        torch.testing.assert_close(grad, other, rtol=0, atol=1e-15)


def test_a_partner_of_nothing_scales_the_rows():
    lam, one_class = 0.3, torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64)
    loss, _, (module, x, _) = loss_of(FedMix(lam), torch.zeros_like(MEAN_X), one_class, rows=1)
    torch.testing.assert_close(loss, F.cross_entropy(module((1 - lam) * x), torch.tensor([0])))


def test_the_third_term_moves_the_net():
    _, with_, _ = loss_of(FedMix(0.3), MEAN_X, MEAN_Y)
    _, without, _ = loss_of(FedMix(0.3), torch.zeros_like(MEAN_X), MEAN_Y)
    assert max((a - b).abs().max() for a, b in zip(with_, without, strict=True)) > 0.01


@pytest.mark.parametrize("repeats", [2, 5])
def test_repeated_rows_change_nothing(repeats):
    loss, grads, _ = loss_of(FedMix(0.3), MEAN_X, MEAN_Y)
    again, others, _ = loss_of(FedMix(0.3), MEAN_X, MEAN_Y, repeats=repeats)
    torch.testing.assert_close(loss, again)
    for grad, other in zip(grads, others, strict=True):
        torch.testing.assert_close(grad, other)


def test_it_is_mixup_to_first_order():
    """What is left over lam^2 tends to half the curvature of l(x, y) along x_m and the slope of l(x, y_m)."""
    lam = 1e-4
    near, (module, x, y) = loss_of(FedMix(lam), MEAN_X, MEAN_Y)[::2]
    full = loss_of(FedMix(lam, naive=True), MEAN_X, MEAN_Y)[0]

    def along(targets):
        return lambda t: F.cross_entropy(module(x + t * MEAN_X), targets)

    zero, soft = torch.zeros((), dtype=torch.float64), MEAN_Y.expand(len(x), -1)
    slope = torch.func.grad(along(soft))(zero)
    curvature = torch.func.grad(torch.func.grad(along(y)))(zero)
    left = (full - near).detach() / lam**2
    torch.testing.assert_close(left, (slope + curvature / 2).detach(), rtol=2e-3, atol=0)


def test_class_weights_and_smoothing_of_the_criterion_count():
    lam, w = 0.3, torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64)
    criterion = nn.CrossEntropyLoss(weight=w, label_smoothing=0.1)
    loss, _, (module, x, y) = loss_of(FedMix(lam, naive=True), MEAN_X, MEAN_Y, criterion=criterion)
    log_p = torch.log_softmax(module((1 - lam) * x + lam * MEAN_X), 1)
    targets = (1 - lam) * F.one_hot(y, 3) + lam * MEAN_Y
    smooth = 0.9 * targets + 0.1 / 3
    torch.testing.assert_close(loss, -(w * smooth * log_p).sum(1).mean())


@pytest.mark.parametrize("weight", [None, torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64)])
def test_a_module_that_gives_probabilities(weight):
    module = nn.Sequential(TwoLayers(), nn.Softmax(1))
    nll = loss_of(FedMix(0.3), MEAN_X, MEAN_Y, criterion=nn.NLLLoss(weight), module=module)[0]
    same = loss_of(FedMix(0.3), MEAN_X, MEAN_Y, criterion=nn.CrossEntropyLoss(weight), module=module[0])[0]
    torch.testing.assert_close(nll, same, rtol=1e-12, atol=0)


def report_of(algorithm, X, y, weights=None):
    X, y = torch.as_tensor(X, dtype=torch.float64), torch.as_tensor(y)
    weights = torch.ones(len(X), dtype=torch.float64) if weights is None else torch.tensor(weights).double()
    local = Local({}, {}, {}, None, stream=np.random.default_rng(0))
    model = Model(nn.Identity(), nn.CrossEntropyLoss(), 3)
    return algorithm.client_report(model, ClientData(X, y, weights, weights), local)


def test_a_client_shares_one_mean_of_its_rows_and_labels():
    report = report_of(FedMix(), [[1.0, 2.0], [3.0, 4.0], [8.0, 0.0]], [0, 2, 2], [1, 1, 2])
    assert report["x"].tolist() == [[5.0, 1.5]]
    assert report["y"].tolist() == [[0.25, 0, 0.75]]


def test_rows_are_dealt_into_means_of_even_sizes():
    """Seven rows in means of at most three: sizes 3, 2, 2; every row in one of them."""
    X = 10.0 ** np.arange(7)[:, None]
    sums = report_of(FedMix(mean_size=3), X, np.zeros(7, int))["x"].ravel().numpy() * [3, 2, 2]
    assert sum(sums) == pytest.approx(1111111.0)
    digits = [sorted(str(round(total))) for total in sums]
    assert [d.count("1") for d in digits] == [3, 2, 2]
    assert sums[0] != pytest.approx(111.0)


def test_rows_without_weight_are_no_part_of_any_mean():
    report = report_of(FedMix(mean_size=1), [[1.0], [5.0], [7.0]], [0, 1, 2], [1, 0, 1])
    assert sorted(report["x"].ravel().tolist()) == [1.0, 7.0]


def test_images_keep_their_shape():
    report = report_of(FedMix(), np.arange(24.0).reshape(2, 3, 2, 2), [0, 1])
    assert report["x"].shape == (1, 3, 2, 2)
    images = {"x": report["x"], "y": MEAN_Y[None]}
    module = nn.Sequential(nn.Flatten(), nn.Linear(12, 3, dtype=torch.float64))
    x = torch.ones(2, 3, 2, 2, dtype=torch.float64)
    batch = Batch(x, torch.tensor([0, 1]), torch.full((2,), 0.5, dtype=torch.float64), nn.CrossEntropyLoss())
    loss = FedMix().client_loss(
        Model(module, batch.criterion, 3), batch, Local({}, {}, images, None, stream=Fixed)
    )
    assert loss.isfinite()


@pytest.mark.parametrize("participation", [1.0, 0.5])
def test_the_ledger(participation):
    """Models are one number of 8 bytes, means are one feature and two classes of 8 bytes each.

    Both clients send their mean before round 0; a client receives the pool of two when it first takes part.
    """
    history = fit("fedmix", n_rounds=8, participation=participation).history_
    up, down = history.column("bytes_up").tolist(), history.column("bytes_down").tolist()
    n = round(2 * participation)
    assert up == [n * 16 + 2 * 24, *[n * 16] * 7]
    seen, expected = set(), []
    for record in history:
        new = set(record.participants) - seen
        expected.append(n * 8 + len(new) * 48)
        seen |= new
    assert down == expected
    assert sum(down) == 8 * n * 8 + 2 * 48
    assert (expected[1] > n * 8) <= (participation < 1)


def test_rows_of_means_follow_the_mean_size():
    """Clients of 4 and 2 rows make 2 and 1 means of at most two rows."""
    history = fit(FedMix(mean_size=2)).history_
    assert history.column("bytes_up").tolist() == [2 * 16 + 3 * 24]
    assert history.column("bytes_down").tolist() == [2 * 8 + 2 * 3 * 24]


def test_no_share_is_fedavg():
    data = three_classes()
    plain, off = (
        fit(algorithm, TwoLayers, data, n_rounds=3).predict_proba(data[0])
        for algorithm in (FedAvg(), FedMix(0.0))
    )
    np.testing.assert_allclose(plain, off, rtol=0, atol=1e-14)


def test_a_client_of_one_row_and_batch_norm():
    X, y, groups = three_classes()
    groups[:1] = 9
    fed = fit("fedmix", WithBatchNorm, (X, y, groups), n_rounds=2)
    assert np.isfinite(fed.predict_proba(X)).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lam": 1.0}, "lam must be a finite number >= 0 and < 1, got 1.0"),
        ({"mean_size": 0}, "mean_size must be a whole number >= 1, got 0"),
        ({"naive": 0}, "naive must be True or False, got 0"),
    ],
)
def test_settings_out_of_range(settings, message):
    with pytest.raises(ValueError, match=message):
        fit(FedMix(**settings))
