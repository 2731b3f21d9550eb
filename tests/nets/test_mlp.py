"""The multilayer perceptron: its layers, its law, its output."""

import pytest
import torch
from torch import nn

from fedrela_sk.nets import MLP


def kinds(net):
    return [type(layer) for layer in net]


def shapes(net):
    return [tuple(layer.weight.shape) for layer in net if isinstance(layer, nn.Linear)]


def test_by_default_two_hidden_layers():
    net = MLP(10, 3)
    assert kinds(net) == [nn.Linear, nn.ReLU, nn.Linear, nn.ReLU, nn.Linear]
    assert shapes(net) == [(64, 10), (32, 64), (3, 32)]


def test_without_hidden_layers_it_is_multinomial_logistic_regression():
    net = MLP(4, 2, hidden=())
    assert kinds(net) == [nn.Linear]
    assert shapes(net) == [(2, 4)]


@pytest.mark.parametrize("hidden", [(5,), [5]])
def test_widths_are_as_asked(hidden):
    assert shapes(MLP(4, 2, hidden=hidden)) == [(5, 4), (2, 5)]


def test_dropout_follows_every_activation():
    net = MLP(4, 2, hidden=(6, 5), dropout=0.25)
    assert kinds(net) == [nn.Linear, nn.ReLU, nn.Dropout] * 2 + [nn.Linear]
    assert {layer.p for layer in net if isinstance(layer, nn.Dropout)} == {0.25}


def test_output_is_logits():
    net = MLP(2, 2, hidden=(2,))
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(torch.ones_like(p))
        # hidden units max(0, x1 + x2 + 1), each output their sum plus 1
        assert net(torch.tensor([[1.0, 2.0], [-5.0, 1.0]])).tolist() == [[9.0, 9.0], [1.0, 1.0]]
