"""The weighted mean: exact small cases, dtypes, counters, order, memory, what it refuses."""

import math

import numpy as np
import pytest
import torch

from fedrela_sk.aggregation import WeightedMean


def add_one_by_one(mean, updates, weights):
    for tensors, weight in zip(updates, weights, strict=True):
        mean.add(tensors, weight)


def add_stacked(mean, updates, weights):
    stacks = {name: torch.stack([tensors[name] for tensors in updates]) for name in updates[0]}
    mean.add_stack(stacks, np.array(weights, dtype=np.float64))


WAYS = pytest.mark.parametrize("add", [add_one_by_one, add_stacked])


def mean_of(add, values, weights, dtype=torch.float64):
    mean = WeightedMean()
    add(mean, [{"w": torch.tensor(value, dtype=dtype)} for value in values], weights)
    return mean.result()["w"]


# ------------------------------------------------------------------------------------- the mean


@WAYS
@pytest.mark.parametrize(
    ("values", "weights", "expected"),
    [
        ([[0.0], [4.0]], [1, 3], [3.0]),
        ([[0.0], [4.0]], [0.25, 0.75], [3.0]),
        ([[2.0, -6.0], [4.0, 2.0], [9.0, 4.0]], [1, 1, 2], [6.0, 1.0]),
        ([[5.0]], [0.125], [5.0]),
        ([[5.0], [7.0]], [0.0, 2.0], [7.0]),
        ([[[1.0, 2.0], [3.0, 4.0]], [[3.0, 2.0], [1.0, 0.0]]], [1, 1], [[2.0, 2.0], [2.0, 2.0]]),
        ([1.0, 2.0], [1, 1], 1.5),
    ],
)
def test_mean_by_hand(add, values, weights, expected):
    assert mean_of(add, values, weights).tolist() == expected


@WAYS
def test_the_total_weight_is_the_sum_of_weights(add):
    mean = WeightedMean()
    assert mean.total_weight == 0.0
    add(mean, [{"w": torch.zeros(1)}] * 3, [0.5, 2.0, 4.0])
    assert mean.total_weight == 6.5


@WAYS
def test_every_tensor_has_a_mean_of_its_own_in_the_order_of_names(add):
    mean = WeightedMean()
    updates = [{"b": torch.tensor([k]), "a": torch.tensor([10.0 * k, 0.0])} for k in (1.0, 2.0)]
    add(mean, updates, [1, 3])
    result = mean.result()
    assert list(result) == ["b", "a"]
    assert result["b"].tolist() == [1.75]
    assert result["a"].tolist() == [17.5, 0.0]


@WAYS
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_tensors_come_back_in_their_dtype(add, dtype):
    result = mean_of(add, [[1.0], [2.0]], [1, 1], dtype)
    assert result.dtype == dtype
    assert result.item() == 1.5


@WAYS
def test_sums_run_in_double_precision(add):
    # 2**24 + 1 is no float32: single precision would lose every one of the small updates
    values = [[2.0**24]] + [[1.0]] * 4
    result = mean_of(add, values, [1] * 5, torch.float32)
    assert result.item() == np.float32((2.0**24 + 4) / 5)
    # half precision would overflow at 65504
    assert mean_of(add, [[60000.0]] * 4, [1] * 4, torch.float16).item() == 60000


@WAYS
def test_counters_take_the_maximum_whatever_the_weights(add):
    mean = WeightedMean()
    updates = [
        {"n": torch.tensor(k), "m": torch.tensor([k, -k], dtype=torch.int32), "w": torch.tensor([0.0])}
        for k in (3, 8, 5)
    ]
    add(mean, updates, [100, 0, 1])
    result = mean.result()
    assert (result["n"].item(), result["n"].dtype) == (8, torch.int64)
    assert (result["m"].tolist(), result["m"].dtype) == ([8, -3], torch.int32)


@WAYS
def test_flags_are_set_where_any_client_set_them(add):
    mean = WeightedMean()
    add(mean, [{"f": torch.tensor([True, False])}, {"f": torch.tensor([False, False])}], [1, 1])
    assert mean.result()["f"].tolist() == [True, False]


def test_stacks_and_single_updates_may_be_mixed():
    mean, one = WeightedMean(), WeightedMean()
    updates = [{"w": torch.tensor([float(k)]), "n": torch.tensor(k)} for k in (4, 9, 1, 6)]
    weights = [1.0, 2.0, 0.5, 3.0]
    add_stacked(mean, updates[:2], weights[:2])
    add_one_by_one(mean, updates[2:3], weights[2:3])
    add_stacked(mean, updates[3:], weights[3:])
    add_one_by_one(one, updates, weights)
    assert mean.total_weight == one.total_weight == 6.5
    assert mean.result()["w"].item() == one.result()["w"].item() == pytest.approx(40.5 / 6.5)
    assert mean.result()["n"].item() == one.result()["n"].item() == 9
    assert mean.result()["w"].dtype == torch.float32


def test_updates_are_folded_in_the_order_in_which_they_are_added():
    # in double precision 1 is lost beside 2**53, unless the large ones cancel first
    large, one = 2.0**53, 1.0
    assert mean_of(add_one_by_one, [[large], [one], [-large]], [1, 1, 1]).item() == 0.0
    assert mean_of(add_one_by_one, [[large], [-large], [one]], [1, 1, 1]).item() == 1 / 3


def test_the_result_may_be_read_at_any_time():
    mean = WeightedMean()
    mean.add({"w": torch.tensor([1.0]), "n": torch.tensor(1)}, 1)
    first = mean.result()
    mean.add({"w": torch.tensor([2.0]), "n": torch.tensor(2)}, 1)
    assert (first["w"].item(), first["n"].item()) == (1.0, 1)
    assert (mean.result()["w"].item(), mean.result()["n"].item()) == (1.5, 2)


# ---------------------------------------------------------------------------------------- memory


@WAYS
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_updates_are_left_as_they_are(add, dtype):
    updates = [{"w": torch.tensor([k], dtype=dtype), "n": torch.tensor([int(k)])} for k in (1.0, 2.0)]
    mean = WeightedMean()
    add(mean, updates, [2, 3])
    add(mean, updates, [2, 3])
    assert [tensors["w"].item() for tensors in updates] == [1, 2]
    assert [tensors["n"].item() for tensors in updates] == [1, 2]


@WAYS
def test_memory_is_one_model_in_double_precision(add):
    mean = WeightedMean()
    model = {"w": torch.ones(50), "b": torch.ones(7, dtype=torch.float64), "n": torch.tensor(3)}
    add(mean, [model], [1.0])
    held = {name: tensor.data_ptr() for name, tensor in mean._sums.items()}
    for _ in range(20):
        add(mean, [model, model], [1.0, 2.0])
    assert set(mean._sums) == set(model)
    assert sum(tensor.nbytes for tensor in mean._sums.values()) == 8 * (50 + 7 + 1)
    # the sums stay where they are: nothing grows with the number of updates
    assert {name: mean._sums[name].data_ptr() for name in ("w", "b")} == {n: held[n] for n in ("w", "b")}
    assert mean.result()["w"].tolist() == [1.0] * 50


def test_sums_share_no_memory_with_updates():
    update = {"w": torch.tensor([1.0], dtype=torch.float64), "n": torch.tensor([1])}
    mean = WeightedMean()
    mean.add(update, 1)
    update["w"].fill_(9)
    update["n"].fill_(9)
    assert mean.result()["w"].item() == 1
    assert mean.result()["n"].item() == 1


# -------------------------------------------------------------------------------------- refusals


@WAYS
def test_no_weight_no_mean(add):
    mean = WeightedMean()
    add(mean, [{"w": torch.tensor([1.0])}, {"w": torch.tensor([2.0])}], [0.0, 0.0])
    with pytest.raises(
        ValueError,
        match=r"^The weights of the updates sum to 0, so they.*Check client_weight and sample_weight",
    ):
        mean.result()
    add(mean, [{"w": torch.tensor([5.0])}], [1e-300])
    assert mean.result()["w"].item() == pytest.approx(5)


def test_no_update_no_mean():
    with pytest.raises(ValueError, match="sum to 0"):
        WeightedMean().result()


@WAYS
@pytest.mark.parametrize("weight", [-1.0, -1e-9, math.inf, math.nan])
def test_weights_that_are_none(add, weight):
    mean = WeightedMean()
    mean.add({"w": torch.tensor([1.0])}, 1)
    with pytest.raises(
        ValueError,
        match=rf"^An update's weight must be finite and >= 0, got {weight}\. Check client_weight\.$",
    ):
        add(mean, [{"w": torch.tensor([3.0])}, {"w": torch.tensor([4.0])}], [weight, 1.0])
    # nothing of it was added
    assert mean.total_weight == 1.0
    assert mean.result()["w"].item() == 1


@WAYS
@pytest.mark.parametrize(
    ("names", "named"),
    [(["w"], "v"), (["w", "v", "u"], "u"), (["w", "x"], "v"), (["v", "x"], "w"), ([], "v")],
)
def test_updates_must_hold_the_same_tensors(add, names, named):
    mean = WeightedMean()
    mean.add({"w": torch.tensor([1.0]), "v": torch.tensor([2.0])}, 1)
    with pytest.raises(
        ValueError,
        match=rf"^All updates must hold the same tensors, but '{named}' is in some of them only\. "
        r"Send it from every client, or from none\.$",
    ):
        add(mean, [{name: torch.tensor([1.0]) for name in names}], [1.0])
    assert mean.total_weight == 1.0


@WAYS
def test_the_order_of_names_does_not_matter(add):
    mean = WeightedMean()
    mean.add({"w": torch.tensor([1.0]), "v": torch.tensor([2.0])}, 1)
    add(mean, [{"v": torch.tensor([4.0]), "w": torch.tensor([3.0])}], [1])
    assert {name: tensor.item() for name, tensor in mean.result().items()} == {"w": 2, "v": 3}
