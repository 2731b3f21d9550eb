"""FedLoGe's static classifier: exact zeros, equal lengths, equal angles."""

import numpy as np
import pytest
import torch

from fedrela_sk.exceptions import NetError
from fedrela_sk.nets import SparseETF, simplex_etf
from fedrela_sk.nets._sparse_etf import spread_gradient, spread_out, surviving_entries


def angles(W):
    units = W / np.linalg.norm(W, axis=1, keepdims=True)
    return np.degrees(np.arccos((units @ units.T)[~np.eye(len(W), dtype=bool)]))


@pytest.fixture(scope="module")
def classifier():
    torch.manual_seed(0)
    return SparseETF(512, 10, dtype=torch.float64)


def test_exactly_three_fifths_of_the_entries_are_zero(classifier):
    assert int((classifier.weight == 0).sum()) == 3072


def test_lengths_and_angles_after_ten_thousand_steps(classifier):
    W = classifier.weight.numpy()
    lengths = np.linalg.norm(W, axis=1)
    assert 0.1002 < lengths.min() < lengths.max() < 0.1007
    assert angles(W).mean() == pytest.approx(np.degrees(np.arccos(-1 / 9)), abs=0.002)  # 96.3794
    assert angles(W).var() < 0.01


def test_it_is_a_linear_layer_that_has_nothing_to_learn(classifier):
    h = torch.randn(3, 512, dtype=torch.float64)
    expected = h.numpy() @ classifier.weight.numpy().T + classifier.bias.numpy()
    np.testing.assert_allclose(classifier(h), expected, atol=1e-14)
    assert 0.5 * 512**-0.5 < classifier.bias.abs().max() <= 512**-0.5
    assert classifier.state_dict() == {}
    assert list(classifier.parameters()) == []


def test_the_stream_decides_and_the_dtype_follows():
    torch.manual_seed(5)
    first = SparseETF(8, 3, n_steps=3, bias=False)
    torch.manual_seed(5)
    again = SparseETF(8, 3, n_steps=3, bias=False)
    other = SparseETF(8, 3, n_steps=3, bias=False)
    assert torch.equal(first.weight, again.weight)
    assert not torch.equal(first.weight, other.weight)
    assert first.weight.dtype == torch.float32
    assert first.bias is None


def test_one_classifier_shares_no_memory_with_the_next():
    def weight():
        torch.manual_seed(5)
        return SparseETF(8, 3, n_steps=3, dtype=torch.float64).weight

    expected = weight().clone()
    weight().zero_()
    assert torch.equal(weight(), expected)


def test_no_steps_leave_the_simplex_with_holes():
    torch.manual_seed(2)
    W = SparseETF(8, 3, sparsity=0.5, n_steps=0, dtype=torch.float64).weight
    torch.manual_seed(2)
    start = simplex_etf(8, 3)
    assert torch.equal(W[W != 0], start[W != 0])
    assert int((W == 0).sum()) == 12


def loss(W, norm):
    lengths = W.norm(dim=1)
    units = W / lengths[:, None]
    cosines = units @ units.T - 3 * torch.eye(len(W), dtype=W.dtype)
    largest = cosines.amax(1).clamp(-0.99999, 0.99999)
    return ((lengths - norm) ** 2).sum() - torch.arccos(largest).mean()


def a_start(seed=0, n_rows=5, n_columns=7):
    stream = np.random.default_rng(seed)
    return stream.normal(size=(n_rows, n_columns)) * (stream.random((n_rows, n_columns)) < 0.6)


@pytest.mark.parametrize("seed", range(4))
def test_the_gradient_is_that_of_the_loss(seed):
    W = torch.from_numpy(a_start(seed)).requires_grad_()
    loss(W, 0.1).backward()
    np.testing.assert_allclose(spread_gradient(W.detach().numpy(), 0.1), W.grad, atol=1e-13)


def test_opposite_rows_have_no_angle_left_to_gain():
    W = np.array([[0.3, 0.0], [-0.2, 0.0]])
    np.testing.assert_allclose(spread_gradient(W, 0.1), [[0.4, 0.0], [-0.2, 0.0]], atol=1e-15)


def test_the_steps_are_adams_on_the_entries_that_stay():
    start = a_start()
    W, alive = torch.from_numpy(start).clone().requires_grad_(), torch.from_numpy(start != 0)
    optimizer = torch.optim.Adam([W], lr=1e-2)
    for _ in range(20):
        optimizer.zero_grad()
        loss(W, 0.1).backward()
        W.grad *= alive
        optimizer.step()
    found = spread_out(start, 0.1, 20, 1e-2)
    np.testing.assert_allclose(found, W.detach(), atol=1e-12)
    assert (found[start == 0] == 0).all()


@pytest.mark.parametrize(
    ("rows", "columns", "sparsity"), [(10, 9, 0.6), (2, 2, 0.5), (3, 2, 0.5), (4, 5, 0.79), (3, 4, 0.0)]
)
def test_every_class_keeps_an_entry(rows, columns, sparsity):
    for seed in range(20):
        torch.manual_seed(seed)
        stays = surviving_entries(rows, columns, sparsity)
        assert (~stays).sum() == int(sparsity * rows * columns)
        assert stays.any(1).all()


def test_too_few_entries_for_all_classes():
    with pytest.raises(
        NetError, match=r"sparsity=0.6 leaves 1 of 2 x 1 entries, fewer than one per class. Use"
    ):
        SparseETF(1, 2)
