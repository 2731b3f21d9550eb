"""The cosine head: directions alone count."""

import pytest
import torch
from torch.func import functional_call, stack_module_state, vmap

from fedrela_sk.nets import CosineLinear


def test_outputs_are_cosines():
    head = CosineLinear(2, 3).double()
    with torch.no_grad():
        head.weight.copy_(torch.tensor([[2.0, 0.0], [-3.0, 3.0], [0.0, -0.5]]))
    half = 0.5**0.5
    expected = torch.tensor([[0.6, 0.2 * half, -0.8], [1.0, -half, 0.0]], dtype=torch.float64)
    features = torch.tensor([[30.0, 40.0], [1e-3, 0.0]], dtype=torch.float64)
    torch.testing.assert_close(head(features), expected, rtol=0, atol=1e-15)


def test_a_row_of_zeros_has_cosine_zero_and_no_gradient_for_the_classes():
    head = CosineLinear(4, 3)
    output = head(torch.zeros(1, 4))
    output.sum().backward()
    assert output.tolist() == [[0.0, 0.0, 0.0]]
    assert not head.weight.grad.any()


def test_directions_at_the_start_have_length_one_and_are_drawn_by_torch():
    torch.manual_seed(0)
    head = CosineLinear(5, 3)
    torch.testing.assert_close(head.weight.norm(dim=1), torch.ones(3))
    torch.manual_seed(0)
    assert torch.equal(CosineLinear(5, 3).weight, head.weight)
    assert not torch.equal(CosineLinear(5, 3).weight, head.weight)


def test_directions_at_the_start_point_everywhere():
    torch.manual_seed(0)
    weight = CosineLinear(2, 4000).weight
    # a quarter of the directions in each quadrant: standard deviation 0.0068
    quadrant = (weight[:, 0] > 0).long() + 2 * (weight[:, 1] > 0).long()
    assert torch.bincount(quadrant, minlength=4).div(4000).tolist() == pytest.approx([0.25] * 4, abs=0.03)


def test_it_has_the_sizes_of_a_linear_layer_and_no_bias():
    head = CosineLinear(5, 3)
    assert (head.in_features, head.out_features) == (5, 3)
    assert [name for name, _ in head.named_parameters()] == ["weight"]


def test_stacked_heads_give_what_each_gives():
    heads = [CosineLinear(5, 3) for _ in range(4)]
    features = torch.randn(4, 7, 5)
    params, buffers = stack_module_state(heads)
    stacked = vmap(lambda p, b, x: functional_call(heads[0], (p, b), (x,)))(params, buffers, features)
    expected = torch.stack([head(x) for head, x in zip(heads, features, strict=True)])
    torch.testing.assert_close(stacked, expected)
