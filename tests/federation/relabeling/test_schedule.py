"""When things happen, each rule on values that can be worked out by hand."""

import numpy as np
import pytest

from fedrela_sk.federation._server import lr_factor
from fedrela_sk.federation.clients._sampling import choose_clients
from fedrela_sk.federation.relabeling._schedule import relabel_due, relabel_round
from tests.federation.helpers import make_spec


@pytest.mark.parametrize(
    ("relabel_at", "n_rounds", "expected"),
    [
        (1, 5, 1),
        (4, 5, 4),
        (5, 5, None),
        (9, 5, None),
        (1, 1, None),
        (np.int64(3), 5, 3),
        (0.8, 5, 4),
        (0.8, 100, 80),
        (0.8, 2, 1),
        (0.07, 100, 7),  # 0.07 * 100 is a hair above 7 in floating point
        (0.001, 10, 1),
        (0.999, 10, 9),
        (0.5, 3, 2),
        (0.8, 1, None),
    ],
)
def test_relabel_round(relabel_at, n_rounds, expected):
    assert relabel_round(relabel_at, n_rounds) == expected


@pytest.mark.parametrize("share", np.linspace(0.01, 0.99, 25))
@pytest.mark.parametrize("n_rounds", [2, 3, 7, 50])
def test_a_share_leaves_a_round_before_and_a_round_after(share, n_rounds):
    assert 1 <= relabel_round(share, n_rounds) <= n_rounds - 1


def due_rounds(absent=(), *, first=3, every=None, late="next", n_rounds=10):
    """Rounds in which a client relabels that is away in the rounds `absent`."""
    last, rounds = None, []
    for round in range(n_rounds):
        if round not in absent and relabel_due(round, last, first, every, late):
            last = round
            rounds.append(round)
    return rounds


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, [3]),
        ({"first": None}, []),
        ({"every": 2}, [3, 5, 7, 9]),
        ({"absent": {3, 4}}, [5]),
        ({"absent": {3, 4}, "late": "never"}, []),
        ({"absent": {3, 4}, "every": 3}, [5, 6, 9]),
        ({"absent": {3, 4}, "every": 3, "late": "never"}, [6, 9]),
        ({"absent": {3, 6, 7, 8, 9}, "every": 3}, [4]),
        ({"every": 1, "first": 8}, [8, 9]),
    ],
)
def test_due_rounds(settings, expected):
    assert due_rounds(**settings) == expected


def test_rate_by_number_and_by_callable():
    assert [lr_factor(0.5, round) for round in range(3)] == [1.0, 0.5, 0.25]
    assert [lr_factor(None, round) for round in range(2)] == [1.0, 1.0]
    drop = lambda round: 0.1 if round >= 2 else 1  # noqa: E731
    assert [lr_factor(drop, round) for round in range(4)] == [1.0, 1.0, 0.1, 0.1]
    assert lr_factor(lambda round: np.float32(0.5), 0) == 0.5
    assert lr_factor(lambda round: 0, 3) == 0.0


@pytest.mark.parametrize("factor", [-0.1, np.nan, np.inf, "0.1", None, np.ones(2)])
def test_a_factor_that_is_none_is_refused(factor):
    with pytest.raises(ValueError, match=r"lr_schedule must give a finite factor >= 0, got .* in round 7"):
        lr_factor(lambda round: factor, 7)


def test_a_number_that_grows_beyond_all_bounds_is_refused():
    with pytest.raises(ValueError, match=r"got .*inf.* in round 5000"):
        lr_factor(2.0, 5000)


@pytest.mark.parametrize(
    ("share", "n_clients", "expected"),
    [
        (1.0, 5, 5),
        (0.5, 5, 3),  # 2.5 is rounded up
        (0.3, 5, 2),  # 1.5 is rounded up
        (0.29, 5, 1),
        (0.1, 5, 1),
        (0.01, 5, 1),
        (0.145, 100, 15),  # 14.5 is meant, 14.499999999999998 is what floating point gives
        (0.99, 3, 3),
    ],
)
def test_how_many_clients_take_part(share, n_clients, expected):
    clients = [make_spec(k, [k], k) for k in range(n_clients)]
    assert len(choose_clients(clients, share, round=0, seed=0)) == expected


def test_clients_are_drawn_without_replacement_in_their_order_and_by_round():
    clients = [make_spec(k, [k], k) for k in range(20)]
    rounds = [[c.key for c in choose_clients(clients, 0.4, round, seed=1)] for round in range(30)]
    for keys in rounds:
        assert keys == sorted(set(keys))
        assert len(keys) == 8
    assert {key for keys in rounds for key in keys} == set(range(20))
    assert rounds[0] != rounds[1]
    assert rounds[0] == [c.key for c in choose_clients(clients, 0.4, 0, seed=1)]
    assert rounds[0] != [c.key for c in choose_clients(clients, 0.4, 0, seed=2)]
