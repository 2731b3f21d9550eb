"""Arithmetic on named tensors."""

import pytest
import torch

from fedrela_sk import _tree


def test_a_copy_is_detached_and_shares_no_memory():
    tree = {"w": torch.ones(2, requires_grad=True), "n": torch.tensor(3)}
    copied = _tree.copy(tree)
    assert list(copied) == ["w", "n"]
    assert not copied["w"].requires_grad
    copied["w"].fill_(5)
    copied["n"].fill_(5)
    assert tree["w"].tolist() == [1, 1]
    assert tree["n"].item() == 3


def test_a_copy_lies_in_memory_row_by_row():
    stack = torch.zeros(5, 3, 2).transpose(1, 2)
    copied = _tree.copy({"w": stack[1]})["w"]
    assert not stack[1].is_contiguous()
    assert copied.is_contiguous()
    assert copied.untyped_storage().nbytes() == copied.nbytes


def test_a_subset_has_the_order_of_the_names_and_the_same_tensors():
    tree = {"a": torch.zeros(1), "b": torch.ones(1), "c": torch.ones(1)}
    chosen = _tree.subset(tree, ("c", "a"))
    assert list(chosen) == ["c", "a"]
    assert chosen["a"] is tree["a"]
    assert _tree.subset(tree, ()) == {}
    with pytest.raises(KeyError, match="d"):
        _tree.subset(tree, ["d"])


def test_bytes_are_entries_times_their_size():
    tree = {
        "double": torch.zeros(2, 3, dtype=torch.float64),
        "half": torch.zeros(5, dtype=torch.float16),
        "count": torch.tensor(1),
        "empty": torch.zeros(0),
    }
    assert _tree.nbytes(tree) == 48 + 10 + 8
    assert _tree.nbytes({}) == 0
    # what a view shows is what is sent
    assert _tree.nbytes({"w": torch.zeros(100)[:3]}) == 12


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16])
def test_the_first_tensor_that_is_not_finite(value, dtype):
    tree = {name: torch.ones(2, 3, dtype=dtype) for name in "abc"}
    assert _tree.first_not_finite(tree) is None
    tree["b"][1, 2] = value
    tree["c"][0, 0] = value
    assert _tree.first_not_finite(tree) == "b"


def test_infinities_do_not_cancel():
    assert _tree.first_not_finite({"w": torch.tensor([float("inf"), -float("inf")])}) == "w"


def test_the_largest_numbers_are_finite():
    largest = torch.full((1000,), torch.finfo(torch.float32).max)
    assert _tree.first_not_finite({"w": largest, "empty": torch.zeros(0)}) is None


def test_integers_are_always_finite():
    assert _tree.first_not_finite({"n": torch.tensor([2**62]), "f": torch.tensor([True])}) is None
    assert _tree.first_not_finite({}) is None


def test_squared_distance_by_hand_and_its_gradient():
    tree = {"w": torch.tensor([1.0, 2.0], requires_grad=True), "b": torch.tensor([3.0], requires_grad=True)}
    other = {"w": torch.tensor([0.0, 4.0]), "b": torch.tensor([1.0]), "more": torch.tensor([9.0])}
    distance = _tree.squared_distance(tree, other)
    assert distance.item() == 1 + 4 + 4
    distance.backward()
    assert tree["w"].grad.tolist() == [2, -4]
    assert tree["b"].grad.tolist() == [4]
