"""DirichletSplit: the law of each rule, its limits, the released code's settings."""

import numpy as np
import pytest

from fedrela_sk.exceptions import PartitionError
from fedrela_sk.splitters import DirichletSplit
from fedrela_sk.splitters._dirichlet import multinomial_owners
from tests.splitters.helpers import LONG_TAIL, clients, count_table, labels

METHODS = ["multinomial", "proportions", "equal_size"]


def full_table(splitter, y):
    """Like `count_table`, with a row for every client, empty ones too."""
    owners = splitter._owners(y, y)
    table = np.zeros((splitter.n_splits, y.max() + 1), dtype=int)
    np.add.at(table, (owners, y), 1)
    return table


def test_multinomial_counts_have_the_mean_and_variance_of_the_dirichlet_multinomial():
    alpha, n_clients, n_rows = 0.5, 4, 40
    y = labels([n_rows, 7])

    def first_class(owners):
        return np.bincount(owners[y == 0], minlength=n_clients)

    rng = np.random.default_rng(0)
    counts = np.stack([first_class(multinomial_owners(y, n_clients, alpha, 0, rng)) for _ in range(3000)])
    share = 1 / n_clients
    variance = n_rows * share * (1 - share) * (n_rows + n_clients * alpha) / (1 + n_clients * alpha)
    np.testing.assert_allclose(counts.mean(axis=0), n_rows * share, atol=5 * np.sqrt(variance / 3000))
    np.testing.assert_allclose(counts.var(axis=0), variance, rtol=0.1)


def test_multinomial_draws_every_row_on_its_own():
    # with one fixed share of 1/2 the number of rows at client 0 varies as a binomial: n / 4
    rng, codes = np.random.default_rng(0), np.zeros(100, dtype=int)
    counts = [np.sum(multinomial_owners(codes, 2, 1e9, 0, rng) == 0) for _ in range(2000)]
    assert np.var(counts) == pytest.approx(25, rel=0.15)


def test_proportions_at_even_shares_cut_without_chance():
    y = labels([100, 60])
    for seed in range(20):
        table = full_table(DirichletSplit(4, 1e9, method="proportions", random_state=seed), y)
        assert (np.abs(table - [25, 15]) <= 1).all()


def test_proportions_close_clients_that_hold_their_even_part():
    # at tiny alpha each class goes to one client; whoever has at least n / 4 = 25 rows gets no more
    y = np.repeat(np.arange(8), [30, 30, 30, 2, 2, 2, 2, 2])
    for seed in range(20):
        splitter = DirichletSplit(4, 1e-6, method="proportions", min_rows=0, random_state=seed)
        table = full_table(splitter, y)
        big = table[:, :3].max(axis=1) == 30
        assert big.sum() == 3
        assert (table[big].sum(axis=1) == 30).all()
        assert table[~big].sum() == 10


def test_proportions_give_ten_rows_to_each_client_by_default():
    y = labels(LONG_TAIL // 4)
    sizes = [len(test) for test in clients(DirichletSplit(40, 0.01, method="proportions", random_state=0), y)]
    assert len(sizes) == 40
    assert min(sizes) == 10


@pytest.mark.parametrize("n_clients", [1, 3, 7, 40, 64])
@pytest.mark.parametrize("alpha", [1e-4, 0.3, 100.0])
def test_equal_sizes_differ_by_at_most_one(n_clients, alpha):
    y = labels([20, 17, 13])
    splitter = DirichletSplit(n_clients, alpha, method="equal_size", random_state=0)
    sizes = np.bincount(splitter._owners(y, y), minlength=n_clients)
    assert sizes.max() - sizes.min() <= 1
    assert sizes.sum() == 50


@pytest.mark.parametrize("method", METHODS)
def test_large_alpha_gives_iid_clients(method):
    y = labels(LONG_TAIL)
    table = full_table(DirichletSplit(10, 1e9, method=method, random_state=0), y)
    expected = LONG_TAIL / 10
    # five standard deviations of a binomial; the other rules vary less
    assert (np.abs(table - expected) <= 5 * np.sqrt(expected)).all()


@pytest.mark.parametrize("method", ["multinomial", "proportions"])
def test_small_alpha_gives_each_class_to_one_client(method):
    y = labels([50, 40, 30, 20])
    splitter = DirichletSplit(10, 1e-9, method=method, min_rows=0, random_state=0)
    assert (np.count_nonzero(full_table(splitter, y), axis=0) == 1).all()


def test_small_alpha_with_equal_sizes_gives_pieces_of_few_classes():
    y = labels(np.full(20, 100))
    few = count_table(DirichletSplit(100, 1e-9, method="equal_size", random_state=0), y)
    many = count_table(DirichletSplit(100, 1e9, method="equal_size", random_state=0), y)
    assert np.count_nonzero(few, axis=1).mean() < 3
    assert np.count_nonzero(many, axis=1).mean() > 11


@pytest.mark.parametrize("method", METHODS)
def test_classes_per_client_grow_with_alpha(method):
    y = labels(LONG_TAIL)
    spread = [
        np.mean(count_table(DirichletSplit(20, alpha, method=method, random_state=1), y) > 0)
        for alpha in (1e-3, 0.1, 10.0)
    ]
    assert spread[0] < spread[1] < spread[2]


def test_a_minimum_at_tiny_alpha_brings_few_classes():
    y = labels(np.full(10, 100))
    table = full_table(DirichletSplit(100, 1e-9, min_rows=5, random_state=0), y)
    assert table.sum(axis=1).min() == 5
    assert np.count_nonzero(table, axis=1).mean() < 1.5


def test_counts_depend_on_the_class_counts_alone():
    y = np.r_[0, 1, 2, labels([29, 19, 9])]  # the same order of first appearance below
    again = np.r_[0, 1, 2, labels([29, 19, 9], seed=9)]
    for method in ("multinomial", "proportions"):
        splitter = DirichletSplit(5, 0.3, method=method, min_rows=0, random_state=0)
        np.testing.assert_array_equal(full_table(splitter, y), full_table(splitter, again))


def test_the_released_codes_setting_leaves_seven_of_ten_tail_cells_empty():
    """CIFAR-10-LT, 40 clients, alpha 0.1: the paper reports 70 % of (client, tail class) cells empty."""
    y = labels(LONG_TAIL)
    tables = [full_table(DirichletSplit(40, 0.1, random_state=seed), y) for seed in range(10)]
    empty_cells = [np.mean(table[:, 7:] == 0) for table in tables]
    assert np.mean(empty_cells) == pytest.approx(0.70, abs=0.02)
    empty_clients = [np.sum(table.sum(axis=1) == 0) for table in tables]
    assert max(empty_clients) <= 2


def test_empty_clients_are_counted_and_left_out():
    y = labels([5])
    splitter = DirichletSplit(50, 1e-9, random_state=0)
    assert len(clients(splitter, y)) == 1
    assert splitter.n_empty_ == 49


@pytest.mark.parametrize("method", METHODS)
def test_a_minimum_that_cannot_be_met(method):
    splitter = DirichletSplit(20, 0.3, method=method, min_rows=6)
    remedy = r"min_rows=6 for each of n_splits=20 clients needs 120 rows: lower min_rows to 5 .* got 119 rows"
    with pytest.raises(PartitionError, match=remedy):
        splitter.split(np.zeros(119), np.zeros(119, dtype=int))
    assert len(clients(splitter.set_params(min_rows=5, random_state=0), np.zeros(119, dtype=int))) == 20


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"alpha": 0}, r"'alpha' parameter .* range \(0\.0, inf\).* Got 0 instead"),
        ({"alpha": np.inf}, r"'alpha' parameter .* Got inf instead"),
        ({"alpha": "small"}, r"'alpha' parameter .* Got 'small' instead"),
        ({"method": "shards"}, r"'method' parameter .* among .* Got 'shards' instead"),
        ({"min_rows": -1}, r"'min_rows' parameter .* Got -1 instead"),
        ({"n_splits": 2.5}, r"'n_splits' parameter .* Got 2.5 instead"),
        ({"random_state": "a"}, r"'random_state' parameter .* Got 'a' instead"),
    ],
)
def test_bad_parameters_are_named_at_split(params, message):
    with pytest.raises(ValueError, match=message):
        DirichletSplit(**params).split(np.zeros(100), np.zeros(100, dtype=int))
