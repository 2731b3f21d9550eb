"""Thresholds of many clients, beside those of single ones."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from fedrela_sk.relabel.formulas._threshold import THRESHOLDS
from tests.relabel.made_rows import clients_of, thresholds

RNG = np.random.default_rng(0)


def pairs(clients, z, k):
    """Those of one column, and of two columns at once."""
    one = clients.pair_at(z[:, np.newaxis], np.array(k)[:, np.newaxis])
    two = clients.pair_at(np.column_stack([z[::-1], z]), np.array(k)[:, np.newaxis])
    assert_array_equal(two[..., 1], one[..., 0])
    return one[..., 0]


def test_pairs_by_hand():
    clients = clients_of(np.array([3, 1, 4]))
    z = np.array([3.0, 1.0, 2.0, 7.0, 0.0, -1.0, 5.0, 4.0])
    assert_array_equal(pairs(clients, z, [1, 0, 0]), [[2, 7, -1], [3, 7, 0]])
    assert_array_equal(pairs(clients, z, [2, 0, 3]), [[3, 7, 5], [3, 7, 5]])


def test_pairs_of_weighted_rows_by_hand():
    clients = clients_of(np.array([3, 1]), np.array([2.0, 1.0, 1.0, 0.5]))
    z = np.array([3.0, 1.0, 2.0, 7.0])  # 1, 2, 3, 3
    assert_array_equal(clients.total, [[4], [0.5]])
    assert_array_equal(pairs(clients, z, [1, 0]), [[2, 7], [3, 7]])
    assert_array_equal(pairs(clients, z, [2, 0]), [[3, 7], [3, 7]])


@settings(deadline=None, max_examples=80)
@given(
    st.integers(0, 2**32),
    st.lists(st.integers(1, 40), min_size=1, max_size=8),
    st.one_of(st.floats(1e-3, 1), st.sampled_from([0.05, 0.1, 0.29, 0.3, 0.5, 1.0])),
    st.sampled_from(sorted(THRESHOLDS)),
    st.sampled_from(["none", "integers", "halves"]),
    st.booleans(),
)
def test_every_client_has_the_threshold_that_it_has_alone(seed, sizes, tau, rule, kind, ties):
    rng = np.random.default_rng(seed)
    n_rows = sum(sizes)
    z = rng.integers(-3, 4, n_rows) / 2 if ties else rng.normal(size=n_rows)
    weights = {
        "none": None,
        "integers": rng.integers(1, 4, n_rows) * 1.0,
        "halves": rng.integers(1, 4, n_rows) / 2,
    }
    weights = weights[kind]
    found = THRESHOLDS[rule](clients_of(np.array(sizes), weights), z[:, np.newaxis], tau)[:, 0]
    ends = np.cumsum(sizes)
    alone = [
        thresholds(z[a:b, np.newaxis], tau, rule, None if weights is None else weights[a:b])[0]
        for a, b in zip(ends - sizes, ends, strict=True)
    ]
    assert_array_equal(found, alone)


@pytest.mark.parametrize("weighted", [False, True])
def test_blocks_hold_at_most_twice_the_rows(weighted):
    sizes = RNG.integers(1, 300, 500)
    clients = clients_of(sizes, np.ones(sizes.sum()) if weighted else None)
    assert sum(rows.size for _, rows in clients.blocks) <= 2 * sizes.sum()
    assert sorted(np.concatenate([index for index, _ in clients.blocks])) == list(range(500))
