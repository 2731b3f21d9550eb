"""Class vectors at the corners of a simplex, and the head that holds them."""

import numpy as np
import pytest
import torch
from torch import nn

from fedrela_sk.exceptions import NetError
from fedrela_sk.nets import ETFHead, simplex_etf

SIZES = pytest.mark.parametrize(("d", "C"), [(1, 2), (2, 2), (2, 3), (9, 10), (10, 10), (512, 10), (64, 2)])


@SIZES
def test_the_gram_matrix_of_a_simplex(d, C):
    vectors = simplex_etf(d, C, torch.Generator().manual_seed(1)).numpy()
    np.testing.assert_allclose(vectors @ vectors.T, C / (C - 1) * (np.eye(C) - 1 / C), atol=1e-14)
    np.testing.assert_allclose(vectors.sum(0), 0, atol=1e-14)


@pytest.mark.parametrize(("C", "degrees"), [(2, 180.0), (3, 120.0), (10, 96.3794), (100, 90.5788)])
def test_the_angle_between_classes(C, degrees):
    vectors = simplex_etf(512, C)
    cosines = (vectors @ vectors.T)[~torch.eye(C, dtype=torch.bool)].clamp(-1, 1)
    np.testing.assert_allclose(torch.rad2deg(torch.arccos(cosines)), degrees, atol=6e-5)


def test_one_stream_one_frame():
    first, again = (simplex_etf(6, 4, torch.Generator().manual_seed(3)) for _ in range(2))
    assert torch.equal(first, again)
    assert not torch.allclose(first, simplex_etf(6, 4, torch.Generator().manual_seed(4)), atol=0.01)


def test_too_few_features_for_a_simplex():
    with pytest.raises(
        NetError, match=r"10 class vectors .* at least 9 features, but the head gets 8. Use a wider"
    ):
        ETFHead(8, 10, projection=False)


@pytest.mark.parametrize("C", [2, 5])
def test_logits_are_scaled_cosines_of_projected_features(C):
    head = ETFHead(3, C, dtype=torch.float64)
    h = torch.randn(4, 3, dtype=torch.float64)
    with torch.no_grad():
        head.scale.fill_(2.5)
    u = head.projection(h).detach().numpy()
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    np.testing.assert_allclose(head(h).detach(), 2.5 * u @ head.vectors.numpy().T, atol=1e-14)
    assert list(head.state_dict()) == ["scale", "projection.weight", "projection.bias"]


def test_without_a_projection_nothing_is_learned():
    head = ETFHead(3, 3, projection=False)
    assert head.vectors.dtype == torch.float32
    assert head.state_dict() == {}
    torch.testing.assert_close(head(5 * head.vectors)[0], torch.tensor([1.0, -0.5, -0.5]))
    assert head(torch.zeros(1, 3)).tolist() == [[0.0] * 3]


def test_the_vectors_go_where_the_module_goes():
    module = nn.Sequential(ETFHead(3, 3)).double()
    assert module[0].vectors.dtype == torch.float64
