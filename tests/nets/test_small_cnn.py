"""The small convolutional net: its layers, its output by hand, its head, and that it trains everywhere."""

import numpy as np
import pytest
import torch
from torch import nn

from fedrela_sk.nets import SmallCNN, find_head, forward_with_features, swap_head
from tests.nets.images import N_CLASSES, fit_federation

SHAPE = (1, 12, 12)
SMALL = {"module__image_shape": SHAPE, "module__n_classes": N_CLASSES, "module__widths": (4, 6)}


def shapes(net):
    return [tuple(layer.weight.shape) for layer in net if hasattr(layer, "weight")]


def test_layers_by_default():
    net = SmallCNN()
    convolution, linear = [nn.Conv2d, nn.ReLU], [nn.Linear, nn.ReLU]
    assert [type(layer) for layer in net] == [
        *convolution,
        *convolution,
        nn.Flatten,
        *linear,
        nn.Linear,
    ]
    # 28 x 28 -> 14 x 14 -> 7 x 7
    assert shapes(net) == [(8, 1, 5, 5), (16, 8, 3, 3), (64, 16 * 7 * 7), (10, 64)]
    assert {layer.stride for layer in net if isinstance(layer, nn.Conv2d)} == {(2, 2)}


@pytest.mark.parametrize(
    ("shape", "widths", "n_flat"),
    [((3, 32, 32), (4, 5, 6), 6 * 4 * 4), ((2, 9, 14), (4,), 4 * 5 * 7), ((1, 5, 3), (4, 5), 5 * 2 * 1)],
)
def test_any_number_of_convolutions_and_any_size_of_image(shape, widths, n_flat):
    net = SmallCNN(shape, n_classes=7, widths=widths, hidden=11)
    assert [kernel for _, _, kernel, _ in shapes(net)[: len(widths)]] == [5, 3, 3][: len(widths)]
    assert shapes(net)[-2:] == [(11, n_flat), (7, 11)]
    assert net(torch.zeros(3, *shape)).shape == (3, 7)


def test_output_is_logits():
    net = SmallCNN((1, 2, 2), n_classes=2, widths=(1,), hidden=1)
    with torch.no_grad():
        for p in net.parameters():
            p.fill_(1.0)
        # the one window sees all four pixels: max(0, 1 + 2 + 3 - 5 + 1) = 2, then + 1, then + 1
        assert net(torch.tensor([[[[1.0, 2.0], [3.0, -5.0]]]])).tolist() == [[4.0, 4.0]]


def test_its_last_layer_is_the_head():
    net, x = SmallCNN(SHAPE, n_classes=64), torch.ones(2, *SHAPE)  # the hidden layer has 64 outputs as well
    name = find_head(net, 64)
    assert net.get_submodule(name) is net[-1]
    assert find_head(net, 64, X=x) == name
    features, logits = forward_with_features(net, name, net, x)
    assert torch.equal(features, nn.Sequential(*list(net)[:-1])(x))
    assert torch.equal(logits, net(x))
    assert swap_head(net, name, nn.Linear(64, 5))(x).shape == (2, 5)


@pytest.mark.parametrize("algorithm", ["fedavg", "fedetf", "fedloge", "moon"])
def test_it_trains(algorithm):
    federation, X, y = fit_federation(SmallCNN, SHAPE, algorithm=algorithm, **SMALL)
    assert federation.predict_proba(X).shape == (len(y), N_CLASSES)
    if algorithm == "fedavg":
        assert (federation.predict(X) == y).mean() > 0.9


def test_both_engines_give_the_same():
    one_round = SMALL | {"n_rounds": 1}
    (loop, X, _), (stacked, _, _) = (
        fit_federation(SmallCNN, SHAPE, e, **one_round) for e in ("loop", "stacked")
    )
    assert stacked.engine_.startswith("stacked")
    np.testing.assert_allclose(loop.predict_proba(X), stacked.predict_proba(X), atol=1e-5)
