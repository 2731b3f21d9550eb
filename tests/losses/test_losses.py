"""What is special about one loss or another."""

import math

import numpy as np
import pytest
import torch
from torch.func import vmap
from torch.nn import functional as F

from fedrela_sk import losses
from fedrela_sk.nets import CosineLinear
from tests.losses.helpers import COUNTS, Y, Z, batch, loss_and_gradient


def test_balanced_softmax_is_the_logit_adjusted_loss_at_one():
    logits, y = batch()
    counts = [50, 3, 0, 200]
    for absent in ("mask", "one"):
        one, two = (
            make(absent=absent, counts=counts)
            for make in (losses.BalancedSoftmaxLoss, losses.LogitAdjustedLoss)
        )
        assert torch.equal(one(logits, y), two(logits, y))


def test_plain_logits_become_balanced():
    """Rows that say nothing about their class, 9 of 10 in class 0: even logits are the minimum."""
    criterion = losses.LogitAdjustedLoss(counts=[90, 10])
    _, grad = loss_and_gradient(criterion, torch.zeros(10, 2, dtype=torch.float64), torch.arange(10) // 9)
    np.testing.assert_allclose(grad.sum(0), [0, 0], rtol=0, atol=1e-16)
    _, grad = loss_and_gradient(
        losses.PriorLoss([90, 10]), torch.zeros(10, 2, dtype=torch.float64), torch.arange(10) // 9
    )
    np.testing.assert_allclose(grad.sum(0), [-0.4, 0.4], rtol=0, atol=1e-15)


@pytest.mark.parametrize("gamma", [0.5, 2.0])
def test_focal_weighs_by_the_plain_posterior(gamma):
    """Weight and posterior of class-balanced focal losses are separate."""
    p = torch.softmax(Z, 1).diag()
    weights = np.array([10, 100, 1000]) * 3 / 1110
    expected = weights * ((1 - p) ** gamma * -torch.log(p)).numpy()
    loss = losses.ClassBalancedLoss(1.0, gamma, counts=[100, 10, 1], reduction="none")(Z, Y)
    np.testing.assert_allclose(loss, expected, rtol=1e-14)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0, 2.0])
def test_focal_of_a_row_that_is_certainly_right(gamma):
    logits = torch.tensor([[0.0, -200.0]])
    loss, grad = loss_and_gradient(losses.FocalLoss(gamma), logits, torch.tensor([0]))
    assert loss == 0
    assert not grad.any()


def test_class_balanced_weights_tend_to_the_inverse_count():
    near, limit = (
        losses.ClassBalancedLoss(b, counts=COUNTS, reduction="none")(Z, Y) for b in (1 - 1e-9, 1.0)
    )
    torch.testing.assert_close(near, limit, rtol=1e-5, atol=0)
    assert not torch.equal(near, limit)


def test_class_balanced_mean_is_over_rows_not_over_weights():
    """Only rows of the common class, of weight 1/2 at counts (3, 1): half the loss, not the whole."""
    criterion = losses.ClassBalancedLoss(1.0, counts=[3, 1])
    loss = criterion(torch.zeros(5, 2, dtype=torch.float64), torch.zeros(5, dtype=torch.int64))
    assert loss.item() == pytest.approx(math.log(2) / 2, abs=1e-15)


# -------------------------------------------------------------------------------------------------- LDAM


@pytest.mark.parametrize(
    ("progress", "weights"),
    [(0.0, [1, 1, 1]), (0.799, [1, 1, 1]), (0.8, [10, 100, 1000]), (1.0, [10, 100, 1000])],
)
def test_ldam_weighs_from_its_share_of_training_on(progress, weights):
    plain = losses.LDAMLoss(counts=COUNTS, reduction="none")
    deferred = losses.LDAMLoss(defer=0.8, beta=1.0, counts=COUNTS, reduction="none")
    deferred.use(None, progress)
    weights = np.array(weights) * 3 / sum(weights)
    cosines = Z / 2 - 0.5
    np.testing.assert_allclose(deferred(cosines, Y), weights * plain(cosines, Y).numpy(), rtol=1e-13)


def test_ldam_default_weights_are_effective_numbers():
    criterion = losses.LDAMLoss(0.0, 1.0, defer=0.0, counts=COUNTS, reduction="none")
    criterion.use(None, 0.0)
    balanced = losses.ClassBalancedLoss(counts=COUNTS, reduction="none")
    torch.testing.assert_close(criterion(Z, Y), balanced(Z, Y), rtol=1e-15, atol=0)


def test_ldam_trains_a_cosine_head():
    stream = torch.Generator().manual_seed(0)
    X = torch.randn(48, 2, generator=stream) + torch.tensor([[2.0, 2.0]] * 40 + [[-2.0, -2.0]] * 8)
    y = (torch.arange(48) >= 40).long()
    head, criterion = CosineLinear(2, 2), losses.LDAMLoss(counts=[40, 8])
    with torch.no_grad():
        head.weight.copy_(torch.tensor([[-1.0, 0.5], [0.5, 1.0]]))
    first = criterion(head(X), y).item()
    optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
    for _ in range(50):
        optimizer.zero_grad()
        loss = criterion(head(X), y)
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.1 * first
    assert (head(X).argmax(1) == y).all()


# ------------------------------------------------------------------------------------------------- FedLC


def test_the_literal_fedlc_is_unbounded_and_not_what_is_computed():
    """Without the true class below the line: -0.8856 already, less for ever as its logit grows."""
    margins = np.array(COUNTS) ** -0.25
    for raise_by, below in ((0.0, -0.8856), (100.0, -100.0)):
        z = np.array([2.0 + raise_by, 1.0, 0.0]) - margins
        assert np.log(np.exp(z[1:]).sum()) - z[0] <= below + 1e-4
        ours = losses.FedLCLoss(counts=COUNTS)(torch.tensor([[2.0 + raise_by, 1.0, 0.0]]), torch.tensor([0]))
        assert ours >= 0


# ------------------------------------------------------------------------------------------ equalization


def test_equalization_draws_for_every_row_and_rare_rival():
    """Over many rows: a rival is spared with probability gamma, whatever becomes of the other rival."""
    torch.manual_seed(0)
    n = 20_000
    criterion = losses.EqualizationLoss(0.1, 0.3, counts=[98, 1, 1], reduction="none")
    logits = torch.tensor([[0.0, 1.0, 2.0]], dtype=torch.float64).repeat(n, 1)
    _, grad = loss_and_gradient(criterion, logits, torch.zeros(n, dtype=torch.int64))
    spared = grad[:, 1:] == 0
    assert spared.double().mean(0).tolist() == pytest.approx([0.3, 0.3], abs=0.015)
    assert spared.all(1).double().mean().item() == pytest.approx(0.09, abs=0.01)


def test_equalization_draws_apart_for_clients_in_one_call():
    torch.manual_seed(0)
    criterion = losses.EqualizationLoss(0.1, 0.5, counts=[98, 1, 1])
    logits = torch.zeros(2, 64, 3)
    rows = vmap(
        lambda z: criterion.row_losses(z, torch.zeros(64, dtype=torch.int64), None, 0.0),
        randomness="different",
    )
    one, two = rows(logits)
    assert not torch.equal(one, two)


def test_equalization_is_repeatable():
    logits, y = batch()
    criterion = losses.EqualizationLoss(0.2, 0.5, counts=[50, 3, 1, 200])
    values = []
    for _ in range(2):
        torch.manual_seed(7)
        values.append([criterion(logits, y).item() for _ in range(3)])
    assert values[0] == values[1]
    assert len(set(values[0])) > 1


def test_equalization_in_evaluation_takes_the_mean_weight_and_draws_nothing():
    criterion = losses.EqualizationLoss(0.01, 0.9, counts=COUNTS, reduction="none").eval()
    before = torch.get_rng_state()
    loss = criterion(Z, Y)
    assert torch.equal(torch.get_rng_state(), before)
    e = np.exp([2.0, 1.0, 0.0])
    total = np.array([e[0] + e[1] + 0.1 * e[2]] * 2 + [e.sum()])
    np.testing.assert_allclose(loss, np.log(total) - [2, 1, 0], rtol=1e-14)


def test_equalization_in_evaluation_with_certain_sparing():
    criterion = losses.EqualizationLoss(0.01, 1.0, counts=COUNTS, reduction="none")
    assert torch.equal(criterion.eval()(Z, Y), criterion.train()(Z, Y))


def test_a_share_at_the_threshold_is_not_rare():
    logits, y = torch.tensor([[0.0, 3.0]], dtype=torch.float64), torch.tensor([0])
    for n, rare in ((1, False), (0.999, True)):
        loss = losses.EqualizationLoss(0.1, 1.0, counts=[9 + (1 - n), n])(logits, y)
        assert loss.item() == pytest.approx(0 if rare else F.cross_entropy(logits, y).item(), abs=1e-15)


@pytest.mark.parametrize("beta", [0.99, 1.0])
def test_ldam_may_divide_by_weights_as_its_authors_do(beta):
    """Their code: cross_entropy(scale (z - margin), y, weight), effective numbers scaled to a mean of 1."""
    logits, y = batch(n_classes=3)
    criterion = losses.LDAMLoss(scale=3.0, defer=0.8, beta=beta, divide_by="weights", counts=COUNTS)
    n = np.array(COUNTS)
    weight = 1 / n if beta == 1 else (1 - beta) / (1 - beta**n)
    weight = torch.from_numpy(weight / weight.sum() * 3)
    margin = torch.from_numpy(0.5 * (10 / n) ** 0.25)
    shifted = 3.0 * (logits - F.one_hot(y, 3) * margin)
    for progress, table in ((0.79, None), (0.8, weight)):
        criterion.use(None, progress)
        expected = F.cross_entropy(shifted, y, weight=table)
        torch.testing.assert_close(criterion(logits, y), expected, rtol=0, atol=1e-14)
    ignoring = losses.LDAMLoss(
        scale=3.0, defer=0.0, beta=beta, divide_by="weights", counts=COUNTS, ignore_index=1
    )
    ignoring.use(None, 1.0)
    expected = F.cross_entropy(shifted, y, weight=weight, ignore_index=1)
    torch.testing.assert_close(ignoring(logits, y), expected, rtol=0, atol=1e-14)


def test_what_ldam_divides_by_is_one_of_two():
    with pytest.raises(ValueError, match="divide_by must be one of 'rows', 'weights'; got 'sum'"):
        losses.LDAMLoss(divide_by="sum")
