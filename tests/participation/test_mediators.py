"""Mediators: chains of clients, each addition the one that balances the pooled classes best."""

import math

import numpy as np
import pytest

from fedrela_sk.participation import Mediators, UniformSampling
from fedrela_sk.participation._mediators import balanced_chains, divergence_from_uniform


def divergence(histogram):
    """KL divergence from uniform, one class after the other."""
    total, n_classes = sum(histogram), len(histogram)
    return sum(n / total * math.log(n / total * n_classes) for n in histogram if n)


def choose(rule, counts, seed=0, sizes=None):
    counts = np.asarray(counts, dtype=float)
    return rule.choose(0, np.random.default_rng(seed), counts.sum(1) if sizes is None else sizes, counts)


@pytest.mark.parametrize(
    ("histogram", "expected"),
    [
        ([5, 5], 0.0),
        ([5, 0], math.log(2)),
        ([3, 1], 0.75 * math.log(1.5) + 0.25 * math.log(0.5)),
        ([2, 2, 0, 0], math.log(2)),
        ([0, 7, 0], math.log(3)),
        ([0, 0, 0], math.log(3)),  # no rows: as far as it gets
        ([4], 0.0),
    ],
)
def test_the_divergence_by_hand(histogram, expected):
    found = divergence_from_uniform(np.array([histogram], dtype=float))
    np.testing.assert_allclose(found, [expected], rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("length", [1, 2, 3, 5, 30])
@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_every_addition_is_the_best_of_those_left(n_classes, length):
    counts = np.random.default_rng(n_classes).integers(0, 30, (12, n_classes)) + np.eye(12, n_classes)
    chains = balanced_chains(counts, length)
    assert [len(chain) for chain in chains[:-1]] == [length] * (len(chains) - 1)
    assert 1 <= len(chains[-1]) <= length
    rest = set(range(12))
    for chain in chains:
        pooled = np.zeros(n_classes)
        for client in chain:
            scores = {other: divergence(pooled + counts[other]) for other in rest}
            assert scores[client] <= min(scores.values()) + 1e-15
            rest.remove(client)
            pooled += counts[client]
    assert not rest


def test_chains_by_hand():
    # the third is nearest to balance alone, then the second; the rest follow
    counts = [[8, 0], [1, 3], [4, 2], [6, 0]]
    choice = choose(Mediators(n_clients=2), counts)
    assert choice.groups == ((2, 1), (0, 3))
    assert choice.weights == (10.0, 14.0)
    assert choice.total == 1.0


def test_ties_go_to_the_earlier_client():
    assert balanced_chains(np.array([[0.0, 3], [3, 0], [0, 3], [3, 0]]), 2) == [[0, 1], [2, 3]]


def test_a_class_that_nobody_holds_changes_nothing():
    counts = np.random.default_rng(0).integers(1, 30, (9, 3))
    with_absent = np.insert(counts, [0, 2, 3], 0, axis=1)
    rule = Mediators(n_clients=3)
    assert choose(rule, with_absent) == choose(rule, counts)


def test_a_mediator_weighs_its_rows():
    choice = choose(Mediators(n_clients=2), [[1, 1], [1, 1], [1, 1]], sizes=[0.5, 2.0, 4.0])
    assert choice.groups == ((0, 1), (2,))
    assert choice.weights == (2.5, 4.0)


def test_chains_of_one_are_plain_averaging_by_rows():
    counts = np.array([[8, 0], [1, 3], [4, 2]])
    choice = choose(Mediators(n_clients=1), counts)
    weights = dict(zip(choice.groups, choice.weights, strict=True))
    assert weights == {(0,): 8.0, (1,): 4.0, (2,): 6.0}


def test_a_share_takes_part_and_no_other_client_matters():
    counts = np.random.default_rng(1).integers(0, 30, (10, 3)).astype(float)
    uniform = UniformSampling(0.4).choose(0, np.random.default_rng(3), counts.sum(1)).groups
    chosen = [position for (position,) in uniform]
    others = [position for position in range(10) if position not in chosen]
    choice = choose(Mediators(n_clients=2, share=0.4), counts, seed=3)
    assert sorted(position for group in choice.groups for position in group) == chosen
    changed = counts.copy()
    changed[others] = 99
    assert choose(Mediators(n_clients=2, share=0.4), changed, seed=3) == choice


def test_histograms_must_be_there():
    with pytest.raises(
        ValueError, match=r"Mediators groups .* pass counts of shape \(2, n_classes\), got None in round 3"
    ):
        Mediators().choose(3, np.random.default_rng(0), [1.0, 2.0])


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        (np.ones((3, 2)), r"shape \(2, n_classes\), one row per client, got \(3, 2\) in round 0"),
        (np.ones(2), r"got \(2,\)"),
        (np.ones((2, 0)), r"got \(2, 0\)"),
        ([[1, 2], [math.nan, 1]], "counts must be finite and >= 0, got nan in round 0"),
        ([[1, 2], [-1, 1]], "counts must be finite and >= 0, got -1.0 in round 0"),
    ],
)
def test_histograms_that_are_none(counts, message):
    with pytest.raises(ValueError, match=message):
        Mediators().choose(0, np.random.default_rng(0), [1.0, 2.0], counts)


@pytest.mark.parametrize("n_clients", [0, 1.5, None])
def test_a_chain_has_a_whole_length(n_clients):
    with pytest.raises(ValueError, match=f"'n_clients' parameter of Mediators .*Got {n_clients}"):
        choose(Mediators(n_clients=n_clients), [[1, 2]])
