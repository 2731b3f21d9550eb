"""Every corner case has one answer, the same as that of the row-by-row twin."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import softmax

from fedrela_sk.relabel import FedReLaRelabeler
from tests.reference.relabel_rows import RowByRow
from tests.relabel.made_rows import long_tailed_rows

SETTINGS = {
    "paper": {},
    "released code": {
        "ddof": 0,
        "min_scale": 1e-6,
        "threshold": "order_statistic",
        "target": "argmax_of_successes",
    },
    "minmax": {"normalization": "minmax", "target": "argmax_of_successes"},
    "none": {"normalization": "none"},
}


def rows_of(seed, labels, n_classes):
    rng = np.random.default_rng(seed)
    return softmax(rng.normal(0, 2, (len(labels), n_classes)), axis=1), np.array(labels)


def few_values():
    """Ties everywhere: posteriors in eighths."""
    rng = np.random.default_rng(5)
    rows = rng.multinomial(8, [0.5, 0.3, 0.2], 60) / 8
    return rows, rng.choice(3, 60, p=[0.7, 0.2, 0.1])


def with_equal_column():
    Q, y = rows_of(6, [0] * 9 + [1] * 4 + [2] * 2, 3)
    Q[y == 0] = np.column_stack([Q[y == 0, 0], 0.3 * (1 - Q[y == 0, 0]), 0.7 * (1 - Q[y == 0, 0])])
    Q[y == 0, 2] = 0.1
    Q[y == 0, 1] = 1 - Q[y == 0, 0] - 0.1
    return Q, y


def with_spread_below(size):
    Q, y = rows_of(7, [0] * 12 + [1] * 5 + [2], 3)
    step = size * np.arange(12) % (5 * size)
    Q[y == 0] = np.column_stack([0.5 - step, 0.3 + step - step[::-1], 0.2 + step[::-1]])
    return Q, y


def saturated():
    Q, y = rows_of(8, [0] * 30 + [1] * 2, 4)
    Q[:30] = softmax(np.random.default_rng(0).normal(0, 0.01, (30, 4)), axis=1)
    Q[3], Q[4] = [0, 0, 1, 0], [0.2, 0, 0, 0.8]
    return Q, y


CASES = {
    "all counts equal": (rows_of(0, [0, 0, 1, 1, 2, 2], 3), 3),
    "one class present": (rows_of(1, [0] * 12, 3), 3),
    "one class of one row": (rows_of(1, [0], 3), 3),
    "classes of one row": (rows_of(2, [0] * 10 + [1, 2], 3), 3),
    "only classes of one row, and absent ones": (rows_of(2, [0, 1], 4), 4),
    "absent classes": (rows_of(3, [0] * 15 + [2] * 6, 4), 4),
    "zero spread": (with_equal_column(), 3),
    "every row the same": ((np.full((7, 3), 1 / 3), np.array([0, 0, 0, 0, 1, 1, 2])), 3),
    "spread below 1e-6": (with_spread_below(1e-8), 3),
    "spread around 1e-6": (with_spread_below(5e-7), 3),
    "ties": (few_values(), 3),
    "saturated rho": (saturated(), 4),
    "fewer rows than one over tau": (rows_of(4, [0] * 8 + [1] * 3, 3), 3),
    "two classes": (rows_of(9, [0] * 20 + [1] * 5, 2), 2),
    "two classes, the first rarer": (rows_of(10, [0] * 5 + [1] * 20, 2), 2),
    "ordinary": (long_tailed_rows(11, 80, 4), 4),
}


def both(case, tau, setting, repeats=None):
    (Q, y), n_classes = CASES[case]
    setting = SETTINGS[setting]
    twin = RowByRow(Q.tolist(), y.tolist(), n_classes, tau=tau, repeats=repeats, **setting)
    ours = FedReLaRelabeler(tau, classes=range(n_classes), **setting).fit(Q, y, sample_weight=repeats)
    return ours, twin, Q, y


# where spreads are 1e-8 the rounding of the posteriors themselves is worth 1e-8
TOLERANCE = {"spread below 1e-6": 1e-7, "spread around 1e-6": 1e-8}


def clear(twin, rows, labels):
    """Rows without two rhos that are equal up to rounding: there, rounding decides which is the largest."""

    def apart(rho):
        positive = sorted(value for value in rho if value > 0)
        return all(high - low > 1e-9 for low, high in pairwise(positive))

    return np.array([all(apart(twin.rho(row, label)) for label in labels) for row in rows.tolist()])


@pytest.mark.parametrize("tau", [0.0, 0.02, 0.1, 0.3, 1.0])
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("case", CASES)
def test_the_same_as_row_by_row(case, setting, tau):
    ours, twin, Q, y = both(case, tau, setting)
    atol = TOLERANCE.get(case, 1e-12)
    assert_allclose(ours.prior_weight_, twin.v, atol=1e-15)
    if setting != "none":
        assert_allclose(ours.threshold_, twin.t, rtol=0, atol=atol)
    rho = np.array([twin.rho(row, label) for row, label in zip(Q.tolist(), y.tolist(), strict=True)])
    assert_allclose(ours.relabel_proba(Q, y), rho, rtol=0, atol=atol)
    draws = np.random.default_rng(0).random(Q.shape)
    new = np.array([twin.draw(*row) for row in zip(Q.tolist(), y.tolist(), draws.tolist(), strict=True)])
    seen = clear(twin, Q, range(Q.shape[1]))
    assert_array_equal(ours.relabel(Q, y, uniforms=draws)[seen], new[seen])
    rows = np.vstack([Q[seen][:15], rows_of(99, [0] * 15, Q.shape[1])[0]])
    rows = rows[clear(twin, rows, range(Q.shape[1]))]
    if case == "ordinary":
        assert len(rows) == 30
    expected = np.array([twin.expected(row) for row in rows.tolist()])
    assert_allclose(ours.transform(rows), expected, rtol=0, atol=atol)


@pytest.mark.parametrize("tau", [0.1, 0.5])
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("case", ["ties", "ordinary", "absent classes", "classes of one row", "two classes"])
def test_integer_weights_as_row_by_row_repetition(case, setting, tau):
    n_rows = len(CASES[case][0][1])
    repeats = np.random.default_rng(1).integers(0, 4, n_rows)
    repeats[0] = 2
    ours, twin, Q, y = both(case, tau, setting, repeats.tolist())
    assert_array_equal(ours.class_count_, twin.counts)
    rho = np.array([twin.rho(row, label) for row, label in zip(Q.tolist(), y.tolist(), strict=True)])
    assert_allclose(ours.relabel_proba(Q, y), rho, rtol=0, atol=1e-12)
    rows = Q[clear(twin, Q, range(Q.shape[1]))][:10]
    expected = np.array([twin.expected(row) for row in rows.tolist()])
    assert_allclose(ours.transform(rows), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("setting", ["paper", "released code", "minmax"])
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_any_small_client(setting, data):
    n_classes = data.draw(st.integers(2, 4))
    labels = data.draw(st.lists(st.integers(0, n_classes - 1), min_size=1, max_size=12))
    eighths = st.lists(st.integers(0, 8), min_size=n_classes, max_size=n_classes)
    scores = np.array(data.draw(st.lists(eighths, min_size=len(labels), max_size=len(labels)))) / 8
    tau = data.draw(st.sampled_from([0.05, 0.2, 0.5, 0.9, 1.0]))
    if (
        setting == "minmax"
    ):  # rho jumps at the threshold, which is a row, and so the same in both, at the median
        assume(len(labels) % 2 == 1)
        tau = 0.5
    twin = RowByRow(scores.tolist(), labels, n_classes, tau=tau, **SETTINGS[setting])
    ours = FedReLaRelabeler(tau, classes=range(n_classes), input="score", **SETTINGS[setting])
    ours.fit(scores, labels)
    rho = np.array([twin.rho(row, label) for row, label in zip(scores.tolist(), labels, strict=True)])
    assert_allclose(ours.relabel_proba(scores, labels), rho, rtol=0, atol=1e-12)
    mixed, posteriors = ours.transform(scores), softmax(scores, axis=1)
    for row in np.flatnonzero(clear(twin, scores, range(n_classes))):
        expected = twin.expected(scores[row].tolist(), posteriors[row].tolist())
        assert_allclose(mixed[row], expected, rtol=0, atol=1e-12)


class TestAnswers:
    """What the corner cases come to, in words."""

    def test_equal_counts_relabel_nothing(self):
        ours, _, Q, y = both("all counts equal", 1.0, "paper")
        assert_array_equal(ours.prior_weight_, [1, 1, 1])
        assert_array_equal(ours.relabel(Q, y, uniforms=np.zeros(Q.shape)), y)
        assert_array_equal(ours.transform(Q), Q)

    def test_a_single_class_may_lose_rows_to_the_absent_ones(self):
        ours, _, Q, y = both("one class present", 0.3, "paper")
        assert_array_equal(ours.prior_weight_, [0, 1, 1])
        assert set(ours.relabel(Q, y, uniforms=np.zeros(Q.shape))) == {0, 1, 2}

    def test_a_single_row_stays(self):
        for setting in ("paper", "released code", "minmax"):
            ours, _, Q, y = both("one class of one row", 1.0, setting)
            assert_array_equal(ours.relabel(Q, y, uniforms=np.zeros(Q.shape)), y)

    def test_absent_classes_are_the_most_wanted_targets(self):
        ours, _, Q, y = both("absent classes", 0.3, "paper")
        assert_array_equal(ours.prior_weight_[[1, 3]], [1, 1])
        y_new = ours.relabel(Q, y, uniforms=np.zeros(Q.shape))
        assert {1, 3} <= set(y_new[y == 0])
        assert np.all(ours.relabel_proba(Q, y)[:, 0] == 0)

    def test_zero_spread_is_a_z_of_exactly_zero(self):
        ours, _, Q, y = both("zero spread", 0.3, "paper")
        assert ours.scale_[0, 2] == 0
        assert ours.threshold_[2] >= 0
        assert not ours.relabel_proba(Q, y)[y == 0, 2].any()
        assert ours.relabel_proba([[0.0, 0.0, 1.0]], [0])[0, 2] == 0

    def test_a_floor_on_spreads_switches_relabeling_off(self):
        (Q, y), _ = CASES["spread below 1e-6"]
        rho = [FedReLaRelabeler(0.2, min_scale=floor).fit(Q, y).relabel_proba(Q, y) for floor in (0, 1e-6)]
        assert rho[0][y == 0].max() > 0.3
        assert rho[1][y == 0].max() < 0.05

    def test_saturated_rho_reaches_the_gain_in_rarity(self):
        ours, _, Q, y = both("saturated rho", 0.1, "paper")
        assert ours.relabel_proba(Q, y)[3, 2] > 0.99

    def test_fewer_rows_than_one_over_tau_only_stop_the_order_statistic(self):
        rho = {}
        for setting in ("paper", "released code"):
            ours, _, Q, y = both("fewer rows than one over tau", 0.05, setting)
            rho[setting] = ours.relabel_proba(Q, y)
        assert rho["paper"].any()
        assert not rho["released code"].any()
