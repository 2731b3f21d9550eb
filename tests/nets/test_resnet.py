"""Residual nets: how many numbers they hold, how they cut images down, a block by hand, their head, training."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from fedrela_sk.exceptions import NetError
from fedrela_sk.nets import ResNet8, ResNet18, ResNet34, find_head, forward_with_features
from fedrela_sk.nets._resnet import ResidualBlock
from tests.nets.images import N_CLASSES, fit_federation


def n_numbers(tensors):
    return sum(tensor.numel() for tensor in tensors)


@pytest.mark.parametrize(
    ("kind", "n_classes", "n_backbone", "n_head", "n_buffers"),
    [
        (ResNet8, 10, 1_227_594 - 2_570, 2_570, None),
        (ResNet8, 100, 1_250_724 - 25_700, 25_700, None),
        (ResNet18, 10, 11_168_832, 5_130, 9_600),
        (ResNet34, 100, 21_276_992, 51_300, 17_024),
    ],
)
def test_numbers_of_the_published_code(kind, n_classes, n_backbone, n_head, n_buffers):
    with torch.device("meta"):
        net = kind(n_classes=n_classes)
    assert n_numbers(net.head.parameters()) == n_head
    assert n_numbers(net.parameters()) == n_backbone + n_head
    if n_buffers is not None:  # running means and variances, without the counters
        assert n_numbers(buffer for buffer in net.buffers() if buffer.ndim) == n_buffers


def test_the_defaults_are_those_of_the_data_sets():
    with torch.device("meta"):
        assert [kind().head.out_features for kind in (ResNet8, ResNet18, ResNet34)] == [10, 10, 100]


@pytest.mark.parametrize(
    ("kind", "depths"), [(ResNet8, [1, 1, 1]), (ResNet18, [2, 2, 2, 2]), (ResNet34, [3, 4, 6, 3])]
)
def test_stages_double_the_channels_and_halve_the_image(kind, depths):
    net = kind(n_classes=4, n_channels=2, width=3)
    stages = [net.get_submodule(f"stage{i + 1}") for i in range(len(depths))]
    assert [len(stage) for stage in stages] == depths
    x = net.stem(torch.randn(2, 2, 20, 12))
    assert x.shape == (2, 3, 20, 12)
    for i, stage in enumerate(stages):
        x = stage(x)
        assert x.shape == (2, 3 * 2**i, -(-20 // 2**i), -(-12 // 2**i))
    assert torch.equal(net.flat(net.pool(x)), x.mean((2, 3)))
    assert net(torch.randn(2, 2, 20, 12)).shape == (2, 4)


def normed(x, convolution, norm, stride):
    x = F.conv2d(x, convolution.weight, stride=stride, padding=convolution.weight.shape[2] // 2)
    mean, var = x.mean((0, 2, 3), keepdim=True), x.var((0, 2, 3), unbiased=False, keepdim=True)
    return (x - mean) / (var + norm.eps).sqrt()


@pytest.mark.parametrize(("n_out", "stride"), [(3, 1), (5, 1), (3, 2), (5, 2)])
def test_a_block_by_hand(n_out, stride):
    torch.manual_seed(0)
    block, x = ResidualBlock(3, n_out, stride).double(), torch.randn(4, 3, 6, 6, dtype=torch.float64)
    first, norm1, _, second, norm2 = block.residual
    expected = normed(F.relu(normed(x, first, norm1, stride)), second, norm2, 1)
    plain = (n_out, stride) == (3, 1)
    assert len(block.shortcut) == (0 if plain else 2)
    expected = expected + (x if plain else normed(x, *block.shortcut, stride))
    torch.testing.assert_close(block(x), F.relu(expected), rtol=0, atol=1e-12)


def test_layers_start_as_torch_starts_them():
    torch.manual_seed(0)
    net = ResNet8()
    assert all((layer.weight == 1).all() for layer in net.modules() if isinstance(layer, nn.BatchNorm2d))
    weight = net.stage3[0].residual[3].weight  # uniform within 1 / sqrt(fan in)
    bound = (256 * 9) ** -0.5
    assert 0.999 * bound < weight.abs().max() <= bound


def test_the_head_takes_the_features():
    net, x = ResNet8(width=4).eval(), torch.randn(2, 3, 8, 8)
    assert find_head(net, 10) == find_head(net, 10, X=x) == "head"
    features, logits = forward_with_features(net, "head", net, x)
    assert features.shape == (2, 16)
    assert torch.equal(logits, net(x))


SMALL = {"module__n_classes": N_CLASSES, "module__n_channels": 1, "module__width": 4, "n_rounds": 4}


@pytest.mark.parametrize("algorithm", ["fedavg", "fedetf", "fedloge", "moon"])
def test_it_trains_in_the_loop(algorithm):
    federation, X, y = fit_federation(ResNet8, (1, 9, 9), engine="auto", algorithm=algorithm, **SMALL)
    assert federation.engine_.startswith("loop")
    assert federation.predict_proba(X).shape == (len(y), N_CLASSES)
    if algorithm == "fedavg":
        assert np.mean(federation.predict(X) == y) > 0.9


def test_the_stacked_engine_refuses_it():
    with pytest.raises(NetError, match=r"engine='stacked' cannot train this net: layer"):
        fit_federation(ResNet8, (1, 9, 9), engine="stacked", **SMALL)
