"""ShardSplit: shards by hand, sizes, classes per client."""

import numpy as np
import pytest

from fedrela_sk.splitters import ShardSplit
from tests.splitters.helpers import clients, count_table, labels


def test_each_client_gets_whole_shards():
    # 4 classes of 10 rows, 8 shards of 5 rows: every class is two shards
    y = labels([10, 10, 10, 10])
    table = count_table(ShardSplit(4, 2, random_state=0), y)
    assert (table.sum(axis=1) == 10).all()
    assert set(table.ravel()) <= {0, 5, 10}


def test_one_shard_each_and_as_many_clients_as_classes_is_one_class_each():
    y = labels([6, 6, 6])
    table = count_table(ShardSplit(3, 1, random_state=0), y)
    assert sorted(map(tuple, table)) == [(0, 0, 6), (0, 6, 0), (6, 0, 0)]


@pytest.mark.parametrize("shards_per_client", [1, 2, 5])
def test_sizes_differ_by_at_most_the_shards_per_client(shards_per_client):
    y = labels([37, 20, 5])
    sizes = [len(test) for test in clients(ShardSplit(7, shards_per_client, random_state=1), y)]
    assert max(sizes) - min(sizes) <= shards_per_client


@pytest.mark.parametrize("shards_per_client", [1, 2, 3])
def test_classes_that_fill_whole_shards_bound_the_classes_per_client(shards_per_client):
    y = labels([60, 36, 24])  # shards of 12, 6 or 4 rows
    table = count_table(ShardSplit(10, shards_per_client, random_state=0), y)
    assert np.count_nonzero(table, axis=1).max() <= shards_per_client
    assert (table % (12 // shards_per_client) == 0).all()


def test_shards_go_to_clients_by_chance_and_evenly():
    # 4 shards, 2 clients: the partner of shard 0 is each of the 3 others equally often
    y = labels([5, 5, 5, 5])
    partners = np.zeros(4)
    for seed in range(500):
        table = count_table(ShardSplit(2, 2, random_state=seed), y)
        partners += table[table[:, 0].argmax()] > 0
    np.testing.assert_allclose(partners[1:] / 500, 1 / 3, atol=0.1)


def test_rows_inside_a_class_go_by_chance():
    y = np.repeat([0, 1], 20)
    first_rows = [clients(ShardSplit(4, 1, random_state=seed), y)[0] for seed in range(20)]
    # cut in file order, a client would hold ten neighbors
    assert any(np.ptp(rows) > 9 for rows in first_rows)


def test_fewer_rows_than_shards_leave_clients_empty():
    y = labels([3])
    splitter = ShardSplit(10, 1, random_state=0)
    assert [len(test) for test in clients(splitter, y)] == [1, 1, 1]
    assert splitter.n_empty_ == 7


def test_bad_shards_per_client():
    with pytest.raises(ValueError, match=r"'shards_per_client' parameter .* Got 0 instead"):
        ShardSplit(shards_per_client=0).split(np.zeros(9), np.zeros(9, dtype=int))
