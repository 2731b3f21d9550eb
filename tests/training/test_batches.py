"""Batches: bounds, the last batch of one row, orders as a function of (seed, round, client)."""

import numpy as np
import pytest

from fedrela_sk.training._client_round import epoch_orders
from fedrela_sk.training._net import batch_bounds


@pytest.mark.parametrize(
    ("n_rows", "batch_size", "bounds"),
    [
        (10, 4, [(0, 4), (4, 8), (8, 10)]),
        (8, 4, [(0, 4), (4, 8)]),
        (9, 4, [(0, 4), (4, 8), (8, 9)]),
        (3, 4, [(0, 3)]),
        (1, 4, [(0, 1)]),
        (3, 1, [(0, 1), (1, 2), (2, 3)]),
        (7, -1, [(0, 7)]),
        (1, -1, [(0, 1)]),
    ],
)
def test_bounds(n_rows, batch_size, bounds):
    assert batch_bounds(n_rows, batch_size) == bounds


@pytest.mark.parametrize(
    ("n_rows", "batch_size", "bounds"),
    [
        (9, 4, [(0, 4), (4, 9)]),
        (10, 4, [(0, 4), (4, 8), (8, 10)]),
        (8, 4, [(0, 4), (4, 8)]),
        (5, 4, [(0, 5)]),
        (3, 1, [(0, 1), (1, 3)]),
        (1, 4, [(0, 1)]),  # no neighbor to join
        (1, -1, [(0, 1)]),
    ],
)
def test_a_last_batch_of_one_row_joins_its_neighbor(n_rows, batch_size, bounds):
    assert batch_bounds(n_rows, batch_size, merge_single=True) == bounds


def test_without_shuffling_rows_keep_their_order():
    orders = epoch_orders(4, 3, False, seed=0, round=0, client=0)
    assert orders.dtype == np.int64
    np.testing.assert_array_equal(orders, np.tile([0, 1, 2, 3], (3, 1)))


def test_every_epoch_is_a_permutation_of_its_own():
    orders = epoch_orders(50, 4, True, seed=0, round=0, client=0)
    assert orders.dtype == np.int64
    np.testing.assert_array_equal(np.sort(orders, axis=1), np.tile(np.arange(50), (4, 1)))
    assert len({tuple(order) for order in orders}) == 4


def test_orders_are_a_function_of_seed_round_and_client():
    first = epoch_orders(30, 2, True, seed=1, round=2, client=3)
    np.random.seed(7)  # noqa: NPY002  the global state has no say
    np.testing.assert_array_equal(epoch_orders(30, 2, True, seed=1, round=2, client=3), first)
    for changed in ({"seed": 9}, {"round": 9}, {"client": 9}):
        other = epoch_orders(30, 2, True, **({"seed": 1, "round": 2, "client": 3} | changed))
        assert (other != first).any()


def test_more_epochs_do_not_change_the_first_ones():
    few, many = (epoch_orders(20, epochs, True, seed=0, round=0, client=0) for epochs in (2, 5))
    np.testing.assert_array_equal(many[:2], few)
