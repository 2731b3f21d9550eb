"""The new label's posterior: after relabeling the posterior is the old one times the matrix of transitions."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tests.theory.clients import Client, by_push, client_with_rates, fedrela_client, transitions
from tests.theory.local_fit import SIGMAS
from tests.theory.mixtures import THREE, two_normals

CLIENTS = {
    "1-D, to the minority alone": client_with_rates(two_normals(0.1), lambda x: 0.4 / (1 + np.exp(2 - x))),
    "1-D, both ways": client_with_rates(two_normals(0.1), 0.3, lambda x: 0.2 / (1 + x**2)),
    "1-D, FedReLa": fedrela_client(two_normals(0.1), 0.1),
    "2-D, three classes": Client(THREE, by_push),
    "2-D, three classes, released draw": Client(THREE, by_push, "argmax_of_successes"),
    "2-D, three classes, FedReLa": fedrela_client(THREE, 0.15, step=0.05),
    "2-D, three classes, FedReLa, released draw": fedrela_client(
        THREE, 0.15, step=0.05, target="argmax_of_successes"
    ),
}


@pytest.mark.parametrize("name", CLIENTS)
def test_shares_of_new_labels_in_cells_of_the_feature_space(name):
    """Every cell with 300 rows or more, every class, to four standard errors."""
    client = CLIENTS[name]
    x, y, y_new = client.sample(400_000, np.random.default_rng(1))
    assert 0.01 < np.mean(y != y_new) < 0.5
    new = client.new_posteriors(x)
    assert_allclose(new.sum(axis=1), 1)
    # cells of half a unit
    _, cell = np.unique(np.floor(2 * x), axis=0, return_inverse=True)
    cell = cell.ravel()  # NumPy 2.0.0 gives it two dimensions
    rows = np.bincount(cell)
    off = []
    for label in range(new.shape[1]):
        expected = np.bincount(cell, weights=new[:, label])
        error = np.sqrt(np.bincount(cell, weights=new[:, label] * (1 - new[:, label])))
        seen = np.bincount(cell, weights=y_new == label)
        off.append(np.abs(seen - expected)[rows >= 300] / error[rows >= 300])
    assert np.size(off) > 20
    assert np.max(off) < SIGMAS


@pytest.mark.parametrize("name", [name for name in CLIENTS if "FedReLa" in name])
def test_transform_is_this_posterior(name):
    client = CLIENTS[name]
    x, _ = client.mixture.sample(2000, np.random.default_rng(0))
    mixed = client.relabeler.transform(client.mixture.posteriors(x))
    # `transform` cuts rho at 1 - 1e-6
    assert_allclose(mixed, client.new_posteriors(x), rtol=0, atol=1e-6)
    assert np.abs(mixed - client.mixture.posteriors(x)).max() > 0.1


def test_two_classes_and_one_direction():
    """q~_j = q_j + q_l rho_lj, and q~_l = q_l (1 - rho_lj)."""
    client = CLIENTS["1-D, to the minority alone"]
    x = np.linspace(-3, 5, 50)[:, np.newaxis]
    old, rho = client.mixture.posteriors(x), client.rho(x, 0)[:, 1]
    expected = np.column_stack([old[:, 0] * (1 - rho), old[:, 1] + old[:, 0] * rho])
    assert_allclose(client.new_posteriors(x), expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("target", "moved", "mixed"),
    [
        ("argmax", [0.1, 0.0, 0.9], [0.06, 0.3, 0.64]),
        ("argmax_of_successes", [0.1, 0.1, 0.8], [0.06, 0.36, 0.58]),
    ],
)
def test_by_hand(target, moved, mixed):
    """Label 0 has rho = (0, 0.5, 0.8), the others none; posteriors are 0.6, 0.3, 0.1."""
    T = np.stack(
        [
            transitions(np.array([rho]), label, target)[0]
            for label, rho in enumerate([[0, 0.5, 0.8], [0] * 3, [0] * 3])
        ]
    )
    assert_allclose(T, [moved, [0, 1, 0], [0, 0, 1]], atol=1e-15)
    assert_allclose([0.6, 0.3, 0.1] @ T, mixed)
