"""The signed mean: weights on what is asked for, plain means for the rest, what it refuses."""

import math

import numpy as np
import pytest
import torch

from fedrela_sk.aggregation import SignedMean

UPDATES = [
    {"step": torch.tensor([[2.0, -4.0]]), "var": torch.tensor([1.0]), "count": torch.tensor(3)},
    {"step": torch.tensor([[6.0, 1.0]]), "var": torch.tensor([3.0]), "count": torch.tensor(7)},
    {"step": torch.tensor([[0.0, 2.0]]), "var": torch.tensor([8.0]), "count": torch.tensor(5)},
]
WEIGHTS = [-1.0, 2.0, 0.5]


def one_by_one(mean, updates, weights):
    for tensors, weight in zip(updates, weights, strict=True):
        mean.add(tensors, weight)


def stacked(mean, updates, weights):
    stacks = {name: torch.stack([tensors[name] for tensors in updates]) for name in updates[0]}
    mean.add_stack(stacks, np.array(weights))


WAYS = pytest.mark.parametrize("fold", [one_by_one, stacked])


@WAYS
def test_weights_act_on_the_signed_alone_and_are_not_normalized(fold):
    mean = SignedMean(["step"])
    fold(mean, UPDATES, WEIGHTS)
    result = mean.result()
    np.testing.assert_allclose(result["step"], [[10 / 3, 7 / 3]], rtol=1e-15)
    assert result["var"].tolist() == [4.0]
    assert result["count"].tolist() == 7
    assert [result[name].dtype for name in ("step", "var", "count")] == [
        torch.float64, torch.float32, torch.int64,
    ]  # fmt: skip


@WAYS
def test_weights_that_cancel_are_legal(fold):
    mean = SignedMean(["step"])
    fold(mean, UPDATES[:2], [-1.0, 1.0])
    assert mean.result()["step"].tolist() == [[2.0, 2.5]]


def test_what_is_added_stays_as_it_was():
    tensors = {"step": torch.tensor([1.0], dtype=torch.float64)}
    SignedMean(["step"]).add(tensors, 3.0)
    assert tensors["step"].item() == 1.0


@WAYS
@pytest.mark.parametrize("weight", [math.nan, math.inf, -math.inf])
def test_a_weight_that_is_no_number(fold, weight):
    with pytest.raises(ValueError, match=f"weight must be finite, got {weight}"):
        fold(SignedMean(["step"]), UPDATES[:2], [1.0, weight])


def test_no_update_has_no_mean():
    with pytest.raises(ValueError, match="no mean"):
        SignedMean(["step"]).result()
