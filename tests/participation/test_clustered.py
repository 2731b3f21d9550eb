"""Clustered sampling: exact properties of its distributions, then what is drawn from them."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from fedrela_sk.participation import ClusteredSampling
from fedrela_sk.participation._clustered import clustered_distributions

CASES = {
    "even": ([10, 10, 10, 10], 2),
    "whole": ([40, 30, 20, 10], 2),
    "ragged": ([7, 1, 23, 5, 5, 17, 2], 3),
    "giant": ([90, 4, 3, 2, 1], 4),
    "all": ([5, 1, 3], 3),
    "one": ([5, 1, 3], 1),
    "lone": ([4], 1),
    "zeros": ([0, 6, 0, 3, 2], 3),
    "many": (np.random.default_rng(0).integers(1, 500, 60), 13),
    "weighted": ([0.1, 0.7, 1.3, 0.2, 2.9], 3),
}


@pytest.fixture(params=CASES.values(), ids=CASES)
def case(request):
    sizes, m = request.param
    sizes = np.asarray(sizes, dtype=float)
    return sizes / sizes.sum(), m, clustered_distributions(sizes, m)


def reference(sizes, m):
    """Algorithm 1 by hand, in exact arithmetic: the largest client first, each box filled before the next."""
    total = sum(sizes)
    boxes = [[Fraction(0)] * len(sizes) for _ in range(m)]
    box, room = 0, Fraction(total)
    for client in sorted(range(len(sizes)), key=lambda i: (-sizes[i], i)):
        left = Fraction(m * sizes[client])
        while left > 0:
            part = min(left, room)
            boxes[box][client] += part
            left, room = left - part, room - part
            if room == 0:
                box, room = box + 1, Fraction(total)
    return np.array([[float(part / total) for part in row] for row in boxes])


@pytest.mark.parametrize("name", [name for name in CASES if name != "weighted"])
def test_distributions_are_those_of_the_paper(name):
    sizes, m = CASES[name]
    expected = reference([int(size) for size in sizes], m)
    distributions = clustered_distributions(np.asarray(sizes, dtype=float), m)
    np.testing.assert_allclose(distributions, expected, rtol=1e-13, atol=0)  # zeros where they are


def test_distributions_by_hand():
    # m p = (1.2, 0.6, 0.2): the first fills one box and a fifth of the next
    distributions = clustered_distributions(np.array([2.0, 6, 12]), 2)
    np.testing.assert_allclose(distributions, [[0, 0, 1], [0.2, 0.6, 0.2]], rtol=1e-15)


def test_each_distribution_sums_to_one_and_each_client_to_its_share(case):
    p, m, distributions = case
    assert (distributions >= 0).all()
    np.testing.assert_allclose(distributions.sum(1), 1, rtol=1e-14)
    np.testing.assert_allclose(distributions.sum(0), m * p, rtol=1e-13)


def test_weights_vary_no_more_than_in_multinomial_sampling(case):
    p, m, distributions = case
    variance = (distributions * (1 - distributions)).sum(0) / m**2
    assert (variance <= p * (1 - p) / m + 1e-16).all()


def test_clients_take_part_at_least_as_often_as_in_multinomial_sampling(case):
    p, m, distributions = case
    assert (1 - (1 - distributions).prod(0) >= 1 - (1 - p) ** m - 1e-14).all()


def test_clients_are_drawn_at_most_so_many_times(case):
    p, m, distributions = case
    drawn = np.count_nonzero(distributions, axis=0)
    assert (drawn <= np.floor(m * p + 1e-12) + 2).all()
    sure = (distributions > 1 - 1e-12).sum(0)  # a client of more than one box fills whole boxes
    assert (sure >= np.floor(m * p + 1e-12) - 1).all()


def test_ties_go_to_the_earlier_client():
    distributions = clustered_distributions(np.array([1.0, 2, 2, 1]), 3)
    np.testing.assert_array_equal(distributions, [[0, 1, 0, 0], [0, 0, 1, 0], [0.5, 0, 0, 0.5]])


class Scripted:
    """A stream whose draws are given, and the distributions that were asked for."""

    def __init__(self, draws):
        self.draws, self.asked = iter(draws), []

    def choice(self, n, p):
        self.asked.append(p)
        return next(self.draws)


def test_the_expected_weight_of_every_client_is_its_share():
    sizes, m = np.array([7.0, 1, 5, 3]), 2
    expected = np.zeros(4)
    for draws in product(range(4), repeat=m):
        stream = Scripted(draws)
        choice = ClusteredSampling(share=0.5).choose(0, stream, sizes)
        chance = np.prod([p[draw] for p, draw in zip(stream.asked, draws, strict=True)])
        for (position,), weight in zip(choice.groups, choice.weights, strict=True):
            expected[position] += chance * weight
    np.testing.assert_allclose(expected, sizes / sizes.sum(), rtol=1e-14)


def test_a_client_drawn_twice_trains_once_and_weighs_twice():
    choice = ClusteredSampling(share=0.6).choose(0, Scripted([3, 1, 3]), np.ones(5))
    assert choice.groups == ((1,), (3,))
    assert choice.weights == (1 / 3, 2 / 3)
    assert choice.total == 1.0


def test_draws_come_from_the_stream():
    sizes = np.arange(1.0, 21)
    rule = ClusteredSampling(share=0.25)
    drawn = {rule.choose(0, np.random.default_rng(seed), sizes).groups for seed in range(20)}
    assert len(drawn) > 10


def test_everyone_of_equal_size_takes_part():
    choice = ClusteredSampling(share=1.0).choose(0, np.random.default_rng(0), np.full(6, 3.0))
    assert choice.groups == ((0,), (1,), (2,), (3,), (4,), (5,))
    assert set(choice.weights) == {1 / 6}


def test_clients_without_weight_are_never_drawn():
    rule = ClusteredSampling(share=1.0)
    for seed in range(20):
        groups = rule.choose(0, np.random.default_rng(seed), [0.0, 2.0, 0.0, 3.0]).groups
        assert {position for (position,) in groups} <= {1, 3}


def test_somebody_must_have_rows():
    with pytest.raises(ValueError, match=r"all 2 sizes are 0 in round 6. Check sample_weight"):
        ClusteredSampling().choose(6, np.random.default_rng(0), [0.0, 0.0])
