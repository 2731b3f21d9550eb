"""A class without rows: one answer per loss."""

import math

import numpy as np
import pytest
import torch

from fedrela_sk import losses
from tests.losses.helpers import loss_and_gradient

COUNTS = [6.0, 0.0, 2.0]
E0, E1, E2 = np.exp([2.0, 1.0, 0.0])
SHIFTED = {
    "balanced softmax": (losses.BalancedSoftmaxLoss, lambda n: n),
    "logit adjusted": (lambda **kw: losses.LogitAdjustedLoss(2.0, **kw), lambda n: n**2),
    "FedLC": (losses.FedLCLoss, lambda n: math.exp(-(n**-0.25))),
}
shifted = pytest.mark.parametrize(("make", "factor"), SHIFTED.values(), ids=SHIFTED.keys())


def rows(criterion):
    """(losses, gradients) at z = (2, 1, 0) with each class as label."""
    criterion.reduction = "none"
    return loss_and_gradient(
        criterion, torch.tensor([[2.0, 1.0, 0.0]] * 3, dtype=torch.float64), torch.arange(3)
    )


@shifted
def test_a_masked_class_is_not_in_the_softmax(make, factor):
    """Only its own rows keep it, counted as the rarest class that is present."""
    six, two = factor(6) * E0, factor(2) * E2
    own = factor(2) * E1
    expected = -np.log([six / (six + two), own / (six + two + own), two / (six + two)])
    loss, grad = rows(make(absent="mask", counts=COUNTS))
    np.testing.assert_allclose(loss, expected, rtol=1e-14)
    assert grad[[0, 2], 1].tolist() == [0.0, 0.0]
    assert grad[1, 1] < 0


@shifted
def test_it_counts_as_one_row(make, factor):
    six, one, two = factor(6) * E0, factor(1) * E1, factor(2) * E2
    expected = -np.log(np.array([six, one, two]) / (six + one + two))
    loss, grad = rows(make(counts=COUNTS))
    np.testing.assert_allclose(loss, expected, rtol=1e-14)
    assert (grad[[0, 2], 1] > 0).all()


@shifted
@pytest.mark.parametrize("unit", [1 / 8, 1e-6, 1e-30])
def test_it_is_never_commoner_than_a_class_that_is_present(make, factor, unit):
    """Counts may be shares, or sums of small weights."""
    few, filled = ([unit * n for n in counts] for counts in (COUNTS, [6.0, 2.0, 2.0]))
    np.testing.assert_array_equal(rows(make(counts=few))[0], rows(make(counts=filled))[0])


@shifted
def test_masking_is_the_limit_of_few_rows(make, factor):
    """For labels that are present; n^(-1/4) is slow."""
    nearly = rows(make(counts=[6.0, 1e-12, 2.0]))[0]
    masked = rows(make(absent="mask", counts=COUNTS))[0]
    np.testing.assert_allclose(nearly[[0, 2]], masked[[0, 2]], rtol=1e-10)


@shifted
def test_without_any_rows_all_classes_are_alike(make, factor):
    criterion = make()
    criterion.use(torch.zeros(3), 0.0)
    np.testing.assert_allclose(rows(criterion)[0], np.log(E0 + E1 + E2) - [2, 1, 0], rtol=1e-14)


def test_class_balanced_weighs_it_as_the_rarest_class():
    """Weights 1/6 and 1/2, scaled to a mean of 1 over the two classes that are present."""
    weights = rows(losses.ClassBalancedLoss(1.0, counts=COUNTS))[0] / rows(losses.FocalLoss(0.0))[0]
    np.testing.assert_allclose(weights, [0.5, 1.5, 1.5], rtol=1e-14)


def test_a_client_of_one_class_does_not_take_longer_steps():
    plain = rows(losses.FocalLoss(0.0))[0]
    for beta in (0.0, 0.9999, 1.0):
        np.testing.assert_allclose(
            rows(losses.ClassBalancedLoss(beta, counts=[50, 0, 0]))[0], plain, rtol=1e-14
        )


def test_ldam_gives_it_the_margin_and_the_weight_of_the_rarest_class():
    criterion = losses.LDAMLoss(0.4, scale=1.0, defer=0.0, beta=1.0, counts=COUNTS)
    criterion.use(None, 0.0)
    margin = np.array([0.4 * 3**-0.25, 0.4, 0.4])
    own = np.array([E0, E1, E2]) * np.exp(-margin)
    expected = -np.log(own / (own + E0 + E1 + E2 - [E0, E1, E2])) * [0.5, 1.5, 1.5]
    np.testing.assert_allclose(rows(criterion)[0], expected, rtol=1e-14)


def test_equalization_spares_it_as_a_rare_class():
    loss, grad = rows(losses.EqualizationLoss(0.1, 1.0, counts=COUNTS))
    total = np.array([E0 + E2, E0 + E1 + E2, E0 + E2])
    np.testing.assert_allclose(loss, np.log(total) - [2, 1, 0], rtol=1e-14)
    assert grad[[0, 2], 1].tolist() == [0.0, 0.0]
