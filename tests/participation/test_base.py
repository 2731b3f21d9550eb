"""What every rule of participation checks, and what a choice may be."""

import math

import numpy as np
import pytest

from fedrela_sk.participation import (
    Choice,
    ClusteredSampling,
    Mediators,
    OptimalSampling,
    Participation,
    UniformSampling,
)
from fedrela_sk.participation._base import n_chosen
from fedrela_sk.testing import check_participation
from tests.algorithms.helpers import fit

RULES = [UniformSampling, ClusteredSampling, OptimalSampling, Mediators]
SIZES = np.array([40.0, 5, 5, 20, 30, 1])
COUNTS = np.array([[40, 0, 0], [0, 5, 0], [2, 2, 1], [0, 0, 20], [15, 15, 0], [0, 1, 0]], dtype=float)


def choose(rule, round=0, seed=0, sizes=SIZES, counts=COUNTS):
    return rule.choose(round, np.random.default_rng(seed), sizes, counts)


# --- all rules ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", RULES)
@pytest.mark.parametrize("share", [0.01, 0.5, 1.0])
def test_the_promises_that_authors_check(kind, share):
    """An estimator; positions of clients that exist, one or many; equal streams, equal choices; no trace."""
    check_participation(kind(share=share))


@pytest.mark.parametrize("kind", RULES)
@pytest.mark.parametrize("share", [0, -0.1, 1.5, "all", None])
def test_a_share_lies_above_zero_and_up_to_one(kind, share):
    with pytest.raises(
        ValueError, match=rf"'share' parameter of {kind.__name__} .* \(0.0, 1.0\].*Got {share!r}"
    ):
        choose(kind(share=share))


@pytest.mark.parametrize("kind", RULES)
def test_a_lone_client_takes_part(kind):
    choice = choose(kind(share=0.01), sizes=[7.0], counts=[[3, 4]])
    assert choice.groups == ((0,),)
    assert choice.total == 1.0


@pytest.mark.parametrize("kind", RULES)
@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ([], r"sizes must be one number per client, got shape \(0,\) in round 4"),
        ([[1.0]], r"sizes must be one number per client, got shape \(1, 1\) in round 4"),
        ([1.0, math.nan], "sizes must be finite and >= 0, got nan in round 4"),
        ([1.0, -2.0], "sizes must be finite and >= 0, got -2.0 in round 4"),
    ],
)
def test_sizes_that_are_none(kind, sizes, message):
    with pytest.raises(ValueError, match=message):
        choose(kind(), round=4, sizes=sizes, counts=np.ones((len(sizes), 2)))


@pytest.mark.parametrize(
    ("kind", "needs_counts", "trains_all", "nbytes"),
    [
        (UniformSampling(), False, False, 0),
        (ClusteredSampling(), False, False, 0),
        (OptimalSampling(), False, True, 8),
        (OptimalSampling(approximate=True, j_max=3), False, True, 8 + 3 * 16),
        (Mediators(), True, False, 80),
    ],
)
def test_what_is_asked_of_clients(kind, needs_counts, trains_all, nbytes):
    assert (kind.needs_counts, kind.trains_all) == (needs_counts, trains_all)
    assert kind.report_nbytes(n_classes=10) == nbytes


@pytest.mark.parametrize("kind", [UniformSampling, ClusteredSampling, OptimalSampling])
def test_rules_that_need_no_histograms_get_none(kind):
    assert kind().choose(0, np.random.default_rng(0), SIZES) == choose(
        kind(), counts=np.full((6, 2), math.nan)
    )


class Alternating(Participation):
    """A user's own rule: even clients in even rounds, odd ones in odd rounds."""

    def __init__(self, share=1.0):
        self.share = share

    def _choose(self, round, stream, sizes, counts):
        return Choice(tuple((i,) for i in range(round % 2, len(sizes), 2)))


def test_a_rule_of_ones_own_writes_one_method():
    assert choose(Alternating(), round=3).groups == ((1,), (3,), (5,))
    assert Alternating().report_nbytes(10) == 0


class Loudest(Alternating):
    """Whoever moved most sends; nothing says that all train first but the method itself."""

    def _choose(self, round, stream, sizes, counts):
        return Choice(tuple((i,) for i in range(len(sizes))))

    def select(self, round, stream, weights, norms):
        return np.array([np.argmax(norms)]), np.ones(1)


class Counted(Alternating):
    needs_counts = True


def test_what_is_asked_follows_from_the_methods():
    assert Loudest().trains_all
    assert Loudest().report_nbytes(10) == 8
    assert Counted().report_nbytes(10) == 80
    assert not Alternating().trains_all


@pytest.mark.parametrize("engine", ["loop", "stacked"])
def test_a_select_is_called_though_nobody_says_so(engine):
    record = fit("fedavg", participation=Loudest(), engine=engine).history_[0]
    assert len(record.participants) == 2
    assert record.bytes_up == (8 + 8) + 2 * 8  # one update of one weight, and two norms
    everybody = fit("fedavg", engine=engine).history_[0]
    assert everybody.bytes_up == 2 * (8 + 8)


def test_a_rule_without_its_method_cannot_be_made():
    with pytest.raises(TypeError, match="_choose"):
        Participation()


@pytest.mark.parametrize(
    ("share", "n_clients", "expected"),
    [(0.145, 100, 15), (0.5, 5, 3), (0.1, 4, 1), (0.25, 10, 3), (0.24, 10, 2), (1, 7, 7), (0.001, 5, 1)],
)
def test_shares_round_half_up(share, n_clients, expected):
    assert n_chosen(share, n_clients) == expected


# --- a choice -----------------------------------------------------------------------------------------------


def test_a_choice_by_default_is_the_ordinary_mean():
    choice = Choice(((0,), (2, 1)))
    assert choice.weights is None
    assert choice.total == 1.0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"groups": ()}, r"at least one group, and every group a client, got \(\)"),
        ({"groups": ((0,), ())}, r"every group a client, got \(\(0,\), \(\)\)"),
        ({"groups": ((0, 1), (1,))}, r"takes part in a round once: .* got \(\(0, 1\), \(1,\)\)"),
        ({"groups": ((0,), (1,)), "weights": (1.0,)}, "got 1 weights for 2 groups"),
        ({"groups": ((0,), (1,)), "weights": (1.0, -1.0)}, r">= 0 and not all 0, got \(1.0, -1.0\)"),
        ({"groups": ((0,),), "weights": (math.inf,)}, r"finite, .* got \(inf,\)"),
        ({"groups": ((0,),), "weights": (math.nan,)}, r"finite, .* got \(nan,\)"),
        ({"groups": ((0,),), "weights": (0.0,)}, r"not all 0, got \(0.0,\)"),
        ({"groups": ((0,),), "total": 0.0}, "total must be finite and > 0, got 0.0"),
        ({"groups": ((0,),), "total": math.nan}, "total must be finite and > 0, got nan"),
    ],
)
def test_choices_that_cannot_be(settings, message):
    with pytest.raises(ValueError, match=message):
        Choice(**settings)
