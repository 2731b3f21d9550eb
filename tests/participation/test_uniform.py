"""Uniform sampling is the rule that a share of participation has always meant."""

import math
from itertools import combinations

import numpy as np
import pytest

from fedrela_sk._random import Purpose, numpy_stream
from fedrela_sk.federation.clients._sampling import choose_clients
from fedrela_sk.participation import UniformSampling


def positions(rule, n_clients, stream):
    return [position for (position,) in rule.choose(0, stream, np.ones(n_clients)).groups]


@pytest.mark.parametrize("n_clients", [1, 2, 7, 40, 100])
@pytest.mark.parametrize("share", [0.01, 0.145, 0.5, 0.99, 1.0])
def test_the_same_clients_as_by_a_share(share, n_clients):
    for round in range(5):
        stream = numpy_stream(7, Purpose.PARTICIPATION, round)
        expected = choose_clients(list(range(n_clients)), share, round, seed=7)
        assert positions(UniformSampling(share), n_clients, stream) == expected


@pytest.mark.parametrize(("share", "n_clients"), [(0.3, 10), (0.145, 100), (0.01, 3)])
def test_the_rule_in_numbers(share, n_clients):
    n = max(1, math.floor(share * n_clients + 0.5 + 1e-9))
    expected = sorted(np.random.default_rng(5).choice(n_clients, n, replace=False).tolist())
    assert positions(UniformSampling(share), n_clients, np.random.default_rng(5)) == expected


def test_everyone_takes_part_without_a_draw():
    stream = np.random.default_rng(0)
    before = stream.bit_generator.state
    assert positions(UniformSampling(), 4, stream) == [0, 1, 2, 3]
    assert positions(UniformSampling(0.9), 4, stream) == [0, 1, 2, 3]
    assert stream.bit_generator.state == before


def test_usual_weights_and_the_ordinary_mean():
    choice = UniformSampling(0.5).choose(0, np.random.default_rng(0), [1.0, 2.0, 3.0, 4.0])
    assert choice.weights is None
    assert choice.total == 1.0


def test_every_pair_is_drawn():
    stream = np.random.default_rng(0)
    drawn = {tuple(positions(UniformSampling(0.4), 5, stream)) for _ in range(300)}
    assert drawn == set(combinations(range(5), 2))
