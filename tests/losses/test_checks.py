"""What a loss refuses when it is made."""

import math

import numpy as np
import pytest

from fedrela_sk import losses

STRENGTHS = [
    (losses.FocalLoss, "gamma", None),
    (losses.ClassBalancedLoss, "beta", 1),
    (losses.ClassBalancedLoss, "gamma", None),
    (losses.LDAMLoss, "max_margin", None),
    (losses.LDAMLoss, "scale", None),
    (losses.LDAMLoss, "defer", 1),
    (losses.LDAMLoss, "beta", 1),
    (losses.LogitAdjustedLoss, "tau", None),
    (losses.FedLCLoss, "tau", None),
    (losses.EqualizationLoss, "threshold", 1),
    (losses.EqualizationLoss, "gamma", 1),
]


@pytest.mark.parametrize(("make", "name", "high"), STRENGTHS)
@pytest.mark.parametrize("value", [-1e-9, -1, math.nan, math.inf, "1", True])
def test_strengths_that_are_none(make, name, high, value):
    expected = r"in \[0, 1\]" if high else "of at least 0"
    with pytest.raises(ValueError, match=rf"{name} must be a finite number {expected}, got {value!r}"):
        make(**{name: value})


@pytest.mark.parametrize(("make", "name", "high"), STRENGTHS)
def test_the_ends_of_the_range_are_inside(make, name, high):
    for value in (0, high or 100, np.float32(0.5)):
        assert getattr(make(**{name: value}), name) == value
    if high:
        with pytest.raises(ValueError, match=rf"{name} must be .* got 1\.5"):
            make(**{name: 1.5})


@pytest.mark.parametrize("make", [losses.BalancedSoftmaxLoss, losses.LogitAdjustedLoss, losses.FedLCLoss])
def test_another_answer_for_absent_classes(make):
    assert [make(absent=answer).absent for answer in ("mask", "one")] == ["mask", "one"]
    with pytest.raises(ValueError, match="absent must be one of 'mask', 'one'; got 'floor'"):
        make(absent="floor")


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ([3, -1], r"counts must be finite and not negative, got -1 for class 1"),
        ([3.0, 2.0, math.nan], r"finite and not negative, got nan for class 2"),
        ([math.inf, 1.0], r"finite and not negative, got inf for class 0"),
        ([0, 0], r"counts hold no rows at all, got \[0, 0\]"),
        ([], r"counts hold no rows at all, got \[\]"),
        ([[1, 2]], r"numbers of shape \(n_classes,\), got shape \(1, 2\) of int64"),
        (7, r"numbers of shape \(n_classes,\), got shape \(\) of int64"),
        (["3", "4"], r"numbers of shape \(n_classes,\), got shape \(2,\) of <U1"),
        ([True, False], r"numbers of shape \(n_classes,\), got shape \(2,\) of bool"),
    ],
)
@pytest.mark.parametrize(
    "give", [losses.BalancedSoftmaxLoss, lambda counts: losses.adjust_posteriors([[0.5, 0.5]], counts)]
)
def test_counts_that_are_none(give, counts, message):
    with pytest.raises(ValueError, match=rf"{message}.* Pass one number of rows per class, in the order"):
        give(counts=counts)
