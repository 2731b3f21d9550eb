"""Features of payments: equal to the slow twin, and deaf to the future."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrela_sk.datasets._payment_features import (
    DAY,
    DELAY,
    FEATURE_NAMES,
    HISTORY,
    payment_features,
    sort_by_owner,
)
from tests.reference.payment_features import payment_features as twin


def random_stream(seed, n=400, days=60, owners=4):
    """(time, customer, terminal, cents, fraud); few owners, so windows are full and times collide."""
    rng = np.random.default_rng(seed)
    time = np.sort(rng.integers(-20 * DAY, (days - 20) * DAY, size=n) // 3600 * 3600)
    return (
        time,
        rng.integers(owners, size=n),
        rng.integers(owners, size=n),
        rng.integers(0, 30_000, size=n),
        rng.random(n) < 0.3,
    )


@pytest.mark.parametrize("seed", range(3))
def test_equals_the_row_by_row_twin(seed):
    stream = random_stream(seed)
    X = payment_features(*stream)
    assert X.dtype == np.float32
    np.testing.assert_array_equal(X, np.asarray(twin(*stream), dtype=np.float32))
    assert (X.max(axis=0) > X.min(axis=0)).all()  # no column is constant, so the comparison says something


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_equals_the_twin_on_the_edges_of_windows(data):
    # times are whole days and their neighbors, where "later than" and "at least" part ways
    n = data.draw(st.integers(1, 25))
    days = data.draw(st.lists(st.integers(-40, 40), min_size=n, max_size=n))
    shift = data.draw(st.lists(st.sampled_from([-1, 0, 0, 1]), min_size=n, max_size=n))
    time = np.sort(DAY * np.array(days) + np.array(shift))
    rng = np.random.default_rng(data.draw(st.integers(0, 100)))
    stream = (
        time,
        rng.integers(2, size=n),
        rng.integers(2, size=n),
        rng.integers(500, size=n),
        rng.random(n) < 0.5,
    )
    np.testing.assert_array_equal(payment_features(*stream), np.asarray(twin(*stream), dtype=np.float32))


def test_by_hand():
    # one customer, one terminal; Monday noon, the same second again, eight days later, 40 days after the first
    time = np.array([0, 0, 8 * DAY, 40 * DAY]) + DAY // 2
    zeros = np.zeros(4, dtype=int)
    X = payment_features(
        time, zeros, zeros, np.array([100, 300, 500, 700]), np.array([1, 0, 0, 0], dtype=bool)
    )
    expected = [
        [1, 0, 0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0],
        [3, 0, 0, 2, 2, 2, 2, 2, 2, 0, 0, 0, 0, 0, 0],
        # customer: 1 d and 7 d hold itself, 30 d all three; terminal: days (0, 1] hold nothing, (-6, 1] both
        [5, 0, 0, 1, 5, 1, 5, 3, 3, 0, 0, 2, 0.5, 2, 0.5],
        # day 40 is a Saturday; customer: itself, since 30 d reach back to day 10.5; terminal: (3.5, 33.5] holds day 8
        [7, 1, 0, 1, 7, 1, 7, 1, 7, 0, 0, 0, 0, 1, 0],
    ]
    np.testing.assert_array_equal(X, np.array(expected, dtype=np.float32))


@pytest.mark.parametrize(
    ("seconds", "night", "weekend"),
    [
        (0, 1, 0),
        (7 * 3600 - 1, 1, 0),
        (7 * 3600, 0, 0),
        (5 * DAY - 1, 0, 0),
        (5 * DAY, 1, 1),
        (7 * DAY, 1, 0),
        (-1, 0, 1),
    ],
)
def test_calendar(seconds, night, weekend):
    one = np.zeros(1, dtype=int)
    X = payment_features(np.array([seconds]), one, one, one, one.astype(bool))
    assert X[0, FEATURE_NAMES.index("night")] == night
    assert X[0, FEATURE_NAMES.index("weekend")] == weekend


@pytest.mark.parametrize("seed", range(5))
def test_no_feature_knows_what_comes_later(seed):
    stream = random_stream(seed)
    time = stream[0]
    now = time[250]
    past = time <= now
    X = payment_features(*stream)[past]
    rng = np.random.default_rng(seed)
    removed = payment_features(*(column[past] for column in stream))
    np.testing.assert_array_equal(removed, X)
    n_later = (~past).sum()
    changed = [column.copy() for column in stream]
    changed[0][~past] = np.sort(rng.integers(now + 1, now + 90 * DAY, size=n_later))
    for column, high in zip(changed[1:4], (4, 4, 30_000), strict=True):
        column[~past] = rng.integers(high, size=n_later)
    changed[4][~past] ^= True
    np.testing.assert_array_equal(payment_features(*changed)[past], X)


@pytest.mark.parametrize("seed", range(5))
def test_no_feature_knows_a_fraud_before_its_delay(seed):
    time, customer, terminal, cents, fraud = random_stream(seed)
    now = time[250]
    unknown = time > now - DELAY * DAY
    X = payment_features(time, customer, terminal, cents, fraud)
    other = payment_features(time, customer, terminal, cents, fraud ^ unknown)
    np.testing.assert_array_equal(other[time <= now], X[time <= now])
    # the control: a label that is known by then does change them
    known = payment_features(time, customer, terminal, cents, fraud ^ ~unknown)
    assert (known[time == now] != X[time == now]).any()


def test_history_is_as_long_as_features_look_back():
    stream = random_stream(0, n=800, days=120)
    time = stream[0]
    X = payment_features(*stream)
    recent = time > time[-1] - HISTORY * DAY
    np.testing.assert_array_equal(payment_features(*(c[recent] for c in stream))[-1], X[-1])
    # the control: one day less is too short for some row
    shorter = [
        (
            payment_features(*(c[time > t - (HISTORY - 1) * DAY] for c in stream))[
                time[time > t - (HISTORY - 1) * DAY] == t
            ]
        )
        for t in np.unique(time[time > 60 * DAY])
    ]
    assert any(
        (got != X[time == t]).any() for got, t in zip(shorter, np.unique(time[time > 60 * DAY]), strict=True)
    )


def test_owners_never_share_a_window():
    # the last payment of owner 0 and the first of owner 1 are the closest that keys of two owners get
    time = np.array([0, 100 * DAY])
    _, key = sort_by_owner(time, np.array([1, 0]))
    assert key[1] - key[0] > HISTORY * DAY


def test_no_rows():
    none = np.zeros(0, dtype=int)
    assert payment_features(none, none, none, none, none.astype(bool)).shape == (0, len(FEATURE_NAMES))
