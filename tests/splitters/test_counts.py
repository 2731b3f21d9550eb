"""Arithmetic of partitions, by hand and by law."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrela_sk.splitters._counts import (
    cut_points,
    owners_from_counts,
    raise_to_minimum,
    symmetric_dirichlet,
)


@pytest.mark.parametrize("alpha", [0.01, 0.3, 1.0, 10.0])
def test_dirichlet_has_the_mean_variance_and_covariance_of_the_law(alpha):
    size, n_draws = 5, 10_000
    rng = np.random.default_rng(0)
    draws = np.stack([symmetric_dirichlet(alpha, size, rng) for _ in range(n_draws)])
    np.testing.assert_allclose(draws.sum(axis=1), 1.0, rtol=1e-12)
    variance = (1 / size) * (1 - 1 / size) / (size * alpha + 1)
    error = 5 * np.sqrt(variance / n_draws)
    np.testing.assert_allclose(draws.mean(axis=0), 1 / size, atol=error)
    np.testing.assert_allclose(draws.var(axis=0), variance, rtol=0.08)
    covariance = np.cov(draws.T)[np.triu_indices(size, 1)]
    np.testing.assert_allclose(covariance, -variance / (size - 1), rtol=0.25)


def test_dirichlet_agrees_with_numpys_own_in_distribution():
    rng = np.random.default_rng(1)
    ours = np.sort([symmetric_dirichlet(0.5, 3, rng)[0] for _ in range(20_000)])
    theirs = np.sort(rng.dirichlet([0.5] * 3, size=20_000)[:, 0])
    both = np.concatenate([ours, theirs])
    distance = np.abs(np.searchsorted(ours, both) - np.searchsorted(theirs, both)).max() / 20_000
    assert distance < 1.95 * np.sqrt(2 / 20_000)  # Kolmogorov-Smirnov at 0.1 %


@pytest.mark.parametrize("alpha", [1e-320, 1e-300, 1e-9, 1e-5])
def test_dirichlet_at_tiny_alpha_gives_everything_to_one_and_to_each_as_often(alpha):
    rng = np.random.default_rng(0)
    draws = np.stack([symmetric_dirichlet(alpha, 4, rng) for _ in range(2000)])
    assert np.isfinite(draws).all()
    assert np.mean(draws.max(axis=1) > 1 - 1e-9) > 0.995
    winners = np.bincount(draws.argmax(axis=1), minlength=4)
    assert (np.abs(winners - 500) < 5 * np.sqrt(2000 * 0.25 * 0.75)).all()


@pytest.mark.parametrize("alpha", [1e9, 1e300])
def test_dirichlet_at_huge_alpha_is_even(alpha):
    np.testing.assert_allclose(symmetric_dirichlet(alpha, 4, np.random.default_rng(0)), 0.25, rtol=1e-3)


def test_dirichlet_of_one():
    assert symmetric_dirichlet(0.1, 1, np.random.default_rng(0)).tolist() == [1.0]


def test_cut_points_by_hand():
    assert cut_points([0.5, 0.3, 0.2], 10).tolist() == [5, 3, 2]
    assert cut_points([0.35, 0.35, 0.3], 10).tolist() == [3, 4, 3]  # floor(3.5), floor(7.0), 10
    assert cut_points([0.0, 1.0], 4).tolist() == [0, 4]
    assert cut_points([1.0], 4).tolist() == [4]


@settings(max_examples=100, deadline=None)
@given(
    weights=st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=30),
    total=st.integers(0, 10_000),
)
def test_rounding_keeps_the_total_and_stays_near(weights, total):
    shares = np.array(weights) / np.sum(weights)
    sizes = cut_points(shares, total)
    assert sizes.sum() == total
    assert (sizes >= 0).all()
    assert (np.abs(sizes - total * shares) < 1 + 1e-6).all()


def test_minimum_by_hand():
    counts = np.array([[10, 2], [0, 1], [0, 0]])
    # client 1 lacks 2, client 2 lacks 3: both from class 0 of client 0
    assert raise_to_minimum(counts, 3).tolist() == [[5, 2], [2, 1], [3, 0]]
    assert counts.tolist() == [[10, 2], [0, 1], [0, 0]]
    assert raise_to_minimum(counts, 0).tolist() == counts.tolist()


def test_minimum_takes_from_the_largest_of_the_moment_and_never_below_the_minimum():
    # client 2 lacks 3: client 0 (6 rows) gives 2 of class 0 and stands at the minimum, client 1 gives 1
    counts = np.array([[3, 3], [5, 0], [1, 0]])
    assert raise_to_minimum(counts, 4).tolist() == [[1, 3], [4, 0], [4, 0]]
    # the donor's class runs out: client 1 lacks 3, client 0 gives 2 of class 0, then 1 of class 1
    assert raise_to_minimum(np.array([[2, 1, 1, 1, 1], [0, 0, 0, 0, 0]]), 3).tolist() == [
        [0, 0, 1, 1, 1],
        [2, 1, 0, 0, 0],
    ]


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_clients=st.integers(1, 20),
    n_classes=st.integers(1, 5),
    min_rows=st.integers(0, 6),
)
def test_minimum_keeps_class_totals_and_touches_nobody_without_need(seed, n_clients, n_classes, min_rows):
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 12, size=(n_clients, n_classes)) * rng.integers(0, 2, size=(n_clients, 1))
    counts[0, 0] += max(0, min_rows * n_clients - counts.sum())
    result = raise_to_minimum(counts, min_rows)
    assert (result >= 0).all()
    assert (result.sum(axis=0) == counts.sum(axis=0)).all()
    assert result.sum(axis=1).min() >= min_rows
    before, after = counts.sum(axis=1), result.sum(axis=1)
    assert (after[before < min_rows] == min_rows).all()
    assert (after[before >= min_rows] <= before[before >= min_rows]).all()


def test_owners_have_exactly_the_counts_and_every_row_the_same_chance():
    counts = np.array([[3, 0], [1, 2]])
    codes = np.array([0, 1, 0, 0, 1, 0])
    rng = np.random.default_rng(0)
    at_client_1 = np.zeros(6)
    for _ in range(4000):
        owners = owners_from_counts(counts, codes, rng)
        for client in (0, 1):
            assert np.bincount(codes[owners == client], minlength=2).tolist() == counts[client].tolist()
        at_client_1 += owners == 1
    np.testing.assert_allclose(at_client_1 / 4000, np.where(codes == 1, 1.0, 0.25), atol=0.035)
