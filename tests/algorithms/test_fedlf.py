"""FedLF: logits scaled by class counts, distances to class centers, features without correlation."""

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from fedrela_sk.algorithms import FedLF
from fedrela_sk.algorithms._fedlf import class_means, correlation, distances_to
from fedrela_sk.nets import MLP
from fedrela_sk.training import Batch
from tests.algorithms.heads import (
    GROUPS,
    B,
    OneLayer,
    W,
    X,
    Y,
    batch_of,
    cross_entropy_gradients,
    data_of,
    fit_small,
    local_of,
    model_of,
    run,
    softmax,
)
from tests.algorithms.helpers import TwoLayers, fit, three_classes


def reference_centers(h, y):
    """Class means and the margin, one class and one pair after the other."""
    centers = [h[y == c].mean(0) if (y == c).any() else torch.full_like(h[0], 1e-8) for c in range(3)]
    gaps = [torch.dist(a, b).item() for a in centers for b in centers]
    return torch.stack(centers), min(max(gaps), 100.0)


def reference_loss(module, x, y, counts, centers, gap, alpha=0.25):
    """The three losses of a batch, spelled out row by row."""
    h = module[1](module[0](x)) if isinstance(module, nn.Sequential) else x
    weight = module[2].weight if isinstance(module, nn.Sequential) else module.weight
    factor = torch.tensor([alpha + (1 - alpha) * n / max(counts) for n in counts], dtype=torch.float64)
    first = F.cross_entropy(factor * (h @ weight.T), y)
    minus = torch.stack(
        [torch.stack([-(((row - c) ** 2).sum() + 1e-8).sqrt() for c in centers]) for row in h]
    )
    second = F.cross_entropy(minus - gap * F.one_hot(y, 3).double(), y)
    Z = (h - h.mean(0)) / torch.sqrt(h.var(0) + 1e-8)
    R = Z.T @ Z
    off = [R[i, j] ** 2 for i in range(len(R)) for j in range(len(R)) if i != j]
    third = sum(off) / len(off) / len(x)
    return first, second, third


def test_a_round_by_hand_without_a_backbone():
    fed, ends = fit_small("fedlf"), []
    for k in (0, 1):
        x, y, w = X[k == GROUPS], Y[k == GROUPS], W.copy()
        n = np.bincount(y, minlength=3)
        factor = 0.25 + 0.75 * n / n.max()
        for _ in range(2):
            residual = (softmax(factor * (x @ w.T)) - np.eye(3)[y]) / len(y)
            w = w - 0.5 * factor[:, None] * (residual.T @ x)
        ends.append(w)
    expected = np.average(ends, axis=0, weights=(5, 2))
    np.testing.assert_allclose(fed.net_.module_.weight.detach(), expected, atol=1e-14)
    np.testing.assert_allclose(fed.net_.module_.bias.detach(), B, atol=1e-16)  # nothing trains them
    np.testing.assert_allclose(fed.predict_proba(X), softmax(X @ expected.T + B), atol=1e-14)
    gradient, _ = cross_entropy_gradients(X @ W.T + B, Y, X)
    assert np.abs(expected - (W - 0.5 * gradient)).max() > 0.01


def test_a_round_with_a_backbone():
    x, y, groups = data = three_classes(n_rows=40, n_clients=2)
    fed = fit("fedlf", TwoLayers, data)
    start = fit("fedlf", TwoLayers, data, lr=0.0).net_.module_
    ends = []
    for k in (0, 1):
        module = TwoLayers()
        module.load_state_dict(start.state_dict())
        xk, yk = torch.from_numpy(x[groups == k]), torch.from_numpy(y[groups == k])
        centers, gap = reference_centers(module[1](module[0](xk)).detach(), yk)
        optimizer = torch.optim.SGD(module.parameters(), lr=0.5)
        for _ in range(2):
            optimizer.zero_grad()
            first, second, third = reference_loss(module, xk, yk, np.bincount(yk, minlength=3), centers, gap)
            (first + 0.01 * second + 0.01 * third).backward()
            optimizer.step()
        ends.append(module.state_dict())
    weights = [np.mean(groups == k) for k in (0, 1)]
    for name, tensor in fed.net_.module_.state_dict().items():
        expected = weights[0] * ends[0][name] + weights[1] * ends[1][name]
        np.testing.assert_allclose(tensor, expected, atol=1e-13)


@pytest.mark.parametrize(
    ("alpha", "center", "decorrelation"), [(0.25, 0.01, 0.01), (0.5, 2.0, 3.0), (1.0, 0.0, 0.0)]
)
def test_the_loss_of_a_batch(alpha, center, decorrelation):
    algorithm, module = FedLF(alpha, center, decorrelation), TwoLayers()
    x, y = torch.randn(6, 3, dtype=torch.float64), torch.tensor([0, 0, 1, 0, 1, 1])
    model = model_of(module, algorithm)
    start = algorithm.client_begin(model, data_of(x, y), local_of())
    centers, gap = reference_centers(module[1](module[0](x)).detach(), y)
    torch.testing.assert_close(start["centers"], centers, rtol=0, atol=1e-14)
    assert start["gap"].item() == pytest.approx(gap, abs=1e-14)
    loss = algorithm.client_loss(model, batch_of(x, y), local_of((8, 2, 0), start=start)).item()
    first, second, third = (v.item() for v in reference_loss(module, x, y, (8, 2, 0), centers, gap, alpha))
    assert loss == pytest.approx(first + center * second + decorrelation * third, abs=1e-12)


def test_the_factor_of_the_commonest_class_is_one_and_of_an_absent_one_alpha():
    algorithm = FedLF(center_weight=0.0, decorrelation_weight=0.0)
    model = model_of(OneLayer(), algorithm)
    start = {"centers": torch.zeros(3, 2), "gap": torch.zeros(())}
    loss = algorithm.client_loss(
        model, batch_of(np.array([[1.0, 0.0]]), [0]), local_of((8, 4, 0), start=start)
    ).item()
    z = np.array([1.0, 0.25 + 0.75 / 2, 0.25]) * W[:, 0]
    assert loss == pytest.approx(math.log(np.exp(z).sum()) - z[0], abs=1e-14)


def test_the_margin_has_a_limit():
    h = torch.tensor([[0.0, 0.0], [300.0, 400.0]], dtype=torch.float64)
    model = model_of(nn.Linear(2, 3, dtype=torch.float64), FedLF())
    start = FedLF().client_begin(model, data_of(h, torch.tensor([0, 1])), local_of())
    assert start["gap"].item() == 100.0
    assert start["centers"].tolist() == [[0, 0], [300, 400], [1e-8, 1e-8]]


def test_centers_count_row_weights():
    h, y = torch.tensor([[1.0], [4.0], [7.0]]), torch.tensor([0, 0, 1])
    assert class_means(h, y, torch.tensor([2.0, 1.0, 0.0]), 3)[:, 0].tolist() == pytest.approx(
        [2, 1e-8, 1e-8]
    )


def test_a_row_on_its_center_has_no_gradient_and_no_nan():
    h = torch.tensor([[3.0, 4.0]], requires_grad=True)
    distances = distances_to(h, torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    assert distances.flatten().tolist() == pytest.approx([1e-4, 5.0])
    distances.sum().backward()
    torch.testing.assert_close(h.grad, torch.tensor([[0.6, 0.8]]))


def test_correlation_by_hand():
    # standardized columns (1, -1)/sqrt 2 x sign: Z^T Z off the diagonal is -1 for two rows
    h, both = torch.tensor([[1.0, 5.0], [3.0, 1.0]], dtype=torch.float64), torch.tensor([True, True])
    assert correlation(h, both).item() == pytest.approx(1 / 2, abs=1e-7)
    assert correlation(h, torch.tensor([True, False])).item() == 0
    assert correlation(h[:, :1], both).item() == 0


def test_rows_that_fill_up_do_not_correlate():
    h = torch.randn(5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    padded = torch.cat([h, 100 * torch.ones(3, 4, dtype=torch.float64)])
    real = torch.arange(8) < 5
    assert correlation(padded, real).item() == pytest.approx(correlation(h, real[:5]).item(), abs=1e-15)


def test_row_weights_count_as_repetition_without_the_third_loss():
    algorithm = FedLF(decorrelation_weight=0.0)
    model = model_of(TwoLayers(), algorithm)
    x, y = torch.randn(3, 3, dtype=torch.float64), torch.tensor([0, 1, 2])
    start = algorithm.client_begin(model, data_of(x, y), local_of())
    local, plain = local_of((3, 2, 1), start=start), batch_of(x[[0, 0, 1]], y[[0, 0, 1]])
    weighted = Batch(x, y, torch.tensor([2 / 3, 1 / 3, 0.0], dtype=torch.float64), plain.criterion)
    assert algorithm.client_loss(model, weighted, local).item() == pytest.approx(
        algorithm.client_loss(model, plain, local).item(), abs=1e-14
    )


def test_biases_of_the_head_stay_as_they_began():
    before = run("fedlf", n_rounds=1, lr=0.0).net_.module_[2].bias
    after = run("fedlf", n_rounds=2, engine="stacked").net_.module_[2].bias
    assert torch.equal(before, after)
    assert FedLF().prepare_module(MLP(3, 3), 3)[4].is_head


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"alpha": 1.5}, "alpha must be a finite number >= 0 and <= 1"),
        ({"center_weight": -1}, "center_weight must be a finite number >= 0"),
        ({"decorrelation_weight": None}, "decorrelation_weight must be a finite number >= 0"),
        ({"counts": "new"}, "counts must be one of 'original', 'relabeled'"),
    ],
)
def test_bad_values(params, message):
    with pytest.raises(ValueError, match=message):
        fit_small(FedLF(**params))
