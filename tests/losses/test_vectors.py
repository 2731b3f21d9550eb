"""Every loss at z = (2, 1, 0), n = (1000, 100, 10), against numbers worked out apart from this code."""

import math

import numpy as np
import pytest
import torch

from fedrela_sk import losses
from tests.losses.helpers import COUNTS, Y, Z


def at(make, *args):
    kwargs = {} if make is losses.FocalLoss else {"counts": COUNTS}
    return make(*args, reduction="none", **kwargs)(Z, Y).numpy()


@pytest.mark.parametrize(
    ("make", "args", "expected"),
    [
        (losses.PriorLoss, (), (0.407606, 1.407606, 2.407606)),
        (losses.FocalLoss, (), (0.045678, 0.802948, 1.993605)),
        (losses.FocalLoss, (1.0,), (0.136450, 1.063125, 2.190848)),
        (losses.BalancedSoftmaxLoss, (), (0.037432, 3.340017, 6.642602)),
        (losses.LogitAdjustedLoss, (), (0.037432, 3.340017, 6.642602)),
        (losses.FedLCLoss, (), (0.345336, 1.483736, 2.729850)),
        (losses.FedLCLoss, (0.5,), (0.374970, 1.444170, 2.567227)),
        (losses.EqualizationLoss, (0.01, 1.0), (0.313262, 1.313262, 2.407606)),
    ],
)
def test_losses(make, args, expected):
    np.testing.assert_allclose(at(make, *args), expected, rtol=0, atol=5e-7)


@pytest.mark.parametrize(
    ("beta", "weights"),
    [
        (0.9, (0.848568, 0.848591, 1.302841)),
        (0.99, (0.230147, 0.363011, 2.406842)),
        (0.9999, (0.028362, 0.271255, 2.700382)),
        (1.0, (0.027027, 0.270270, 2.702703)),
    ],
)
def test_class_balanced_weights(beta, weights):
    plain = at(losses.PriorLoss)
    np.testing.assert_allclose(at(losses.ClassBalancedLoss, beta) / plain, weights, rtol=0, atol=5e-7)
    focal = at(losses.FocalLoss, 2.0)
    np.testing.assert_allclose(at(losses.ClassBalancedLoss, beta, 2.0) / focal, weights, rtol=0, atol=5e-7)


def test_ldam():
    cosines = torch.tensor([[0.9, 0.4, 0.1]] * 3, dtype=torch.float64)
    loss = losses.LDAMLoss(counts=COUNTS, reduction="none")(cosines, Y)
    np.testing.assert_allclose(loss[1:], [23.4351, 39.0], rtol=0, atol=5e-5)
    assert loss[0].item() == pytest.approx(3.5e-5, abs=5e-7)
    margins = 0.5 * np.array([100, 10, 1]) ** -0.25
    np.testing.assert_allclose(margins, [0.158114, 0.281171, 0.5], rtol=0, atol=5e-7)
    shifted = 30 * (cosines.numpy() - np.diag(margins))
    expected = np.log(np.exp(shifted).sum(1)) - np.diag(shifted)
    np.testing.assert_allclose(loss, expected, rtol=0, atol=1e-12)


def test_fedlc_of_the_second_source():
    loss = losses.FedLCLoss(counts=[16, 1])(torch.zeros(1, 2, dtype=torch.float64), torch.tensor([1]))
    assert loss.item() == pytest.approx(math.log(1 + math.exp(0.5)), abs=1e-15)


def test_balanced_softmax_of_fedrod():
    criterion = losses.BalancedSoftmaxLoss(counts=[8, 1, 1], reduction="none")
    loss = criterion(torch.zeros(2, 3, dtype=torch.float64), torch.tensor([1, 0]))
    np.testing.assert_allclose(loss, [math.log(10), math.log(10 / 8)], rtol=0, atol=1e-15)
