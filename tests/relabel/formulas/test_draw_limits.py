"""Limits on changes, by hand and against their two promises."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from fedrela_sk.relabel.formulas._draw import limit_changes
from fedrela_sk.relabel.formulas._rho import Candidates


def limited(row, column, rho, codes, n_classes=3, min_remaining=0, max_ratio=None):
    drawn = Candidates(np.array(row), np.array(column), np.zeros(len(row)), np.array(rho))
    return limit_changes(drawn, np.array(codes), n_classes, min_remaining, max_ratio).tolist()


class TestByHand:
    CODES = [0, 0, 0, 0, 1, 1]

    def test_no_limit_makes_every_change(self):
        assert limited([0, 1, 4], [1, 1, 2], [0.1, 0.2, 0.3], self.CODES) == [True, True, True]

    def test_the_highest_rho_leaves_first(self):
        made = limited([0, 1, 2], [1, 2, 1], [0.1, 0.3, 0.2], self.CODES, min_remaining=2)
        assert made == [False, True, True]

    def test_at_equal_rho_the_earlier_row_leaves(self):
        made = limited([2, 0, 1], [1, 1, 1], [0.2, 0.2, 0.2], self.CODES, min_remaining=3)
        assert made == [False, True, False]

    @pytest.mark.parametrize(("floor", "leaving"), [(1, 3), (2, 2), (3, 1), (4, 0), (5, 0)])
    def test_a_floor_keeps_that_many_original_rows(self, floor, leaving):
        made = limited([0, 1, 2, 3], [1, 1, 2, 2], [0.4, 0.3, 0.2, 0.1], self.CODES, min_remaining=floor)
        assert made == [k < leaving for k in range(4)]

    def test_the_floor_holds_for_each_class_alone(self):
        made = limited([0, 4, 5], [2, 2, 2], [0.4, 0.3, 0.2], self.CODES, min_remaining=1)
        assert made == [True, True, False]

    @pytest.mark.parametrize(
        ("ratio", "entering"), [(0.0, 0), (0.1, 1), (0.5, 1), (0.51, 2), (1.0, 2), (1.5, 3)]
    )
    def test_room_grows_with_the_rows_of_the_target(self, ratio, entering):
        made = limited([0, 1, 2, 3], [1, 1, 1, 1], [0.4, 0.3, 0.2, 0.1], self.CODES, max_ratio=ratio)
        assert made == [k < entering for k in range(4)]

    @pytest.mark.parametrize(("ratio", "entering"), [(0.0, 0), (0.2, 1), (1.0, 1), (1.2, 2), (3.0, 3)])
    def test_an_absent_target_counts_as_one_row(self, ratio, entering):
        made = limited([0, 1, 2, 3], [2, 2, 2, 2], [0.4, 0.3, 0.2, 0.1], self.CODES, max_ratio=ratio)
        assert made == [k < entering for k in range(4)]

    def test_the_room_is_a_ceiling_without_rounding(self):
        codes = [0] * 40 + [1] * 30  # 0.1 * 30 is 3.0000000000000004
        made = limited(list(range(5)), [1] * 5, [0.5] * 5, codes, n_classes=2, max_ratio=0.1)
        assert made == [True, True, True, False, False]

    def test_a_change_without_room_leaves_its_place_to_the_next(self):
        # row 4 fills class 2, so row 0 cannot go there, and the place is row 1's
        made = limited(
            [4, 0, 1], [2, 2, 1], [0.9, 0.8, 0.7], [0, 0, 0, 0, 1, 1, 1, 1], min_remaining=3, max_ratio=0.5
        )
        assert made == [True, False, True]


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), min_remaining=st.integers(0, 6), max_ratio=st.none() | st.floats(0, 3))
def test_both_promises_hold_and_no_further_change_could_be_made(seed, min_remaining, max_ratio):
    rng = np.random.default_rng(seed)
    codes = rng.choice(4, 30, p=[0.5, 0.3, 0.2, 0.0])
    row = np.flatnonzero(rng.random(30) < 0.7)
    column = (codes[row] + rng.integers(1, 4, len(row))) % 4
    rho = rng.choice([0.2, 0.5, 0.9], len(row))
    made = np.array(
        limited(row, column, rho, codes, 4, min_remaining=min_remaining, max_ratio=max_ratio), dtype=bool
    )
    counts = np.bincount(codes, minlength=4)
    left = np.bincount(codes[row][made], minlength=4)
    entered = np.bincount(column[made], minlength=4)
    room = np.inf if max_ratio is None else np.ceil(max_ratio * np.maximum(counts, 1) - 1e-9)
    may_leave = np.maximum(counts - min_remaining, 0)
    assert np.all(left <= may_leave)
    assert np.all(entered <= room)
    full = (left == may_leave)[codes[row]] | (entered == room)[column]
    assert_array_equal(full[~made], True)


def one_after_the_other(row, column, rho, codes, n_classes, min_remaining, max_ratio):
    """The definition: in order of falling rho, then rising row, each change is made if there is room."""
    counts = [codes.count(label) for label in range(n_classes)]
    may_leave = [count - min_remaining for count in counts]
    room = [math.inf if max_ratio is None else math.ceil(max_ratio * max(1, n) - 1e-9) for n in counts]
    made = [False] * len(row)
    for k in sorted(range(len(row)), key=lambda k: (-rho[k], row[k])):
        if may_leave[codes[row[k]]] > 0 and room[column[k]] > 0:
            made[k] = True
            may_leave[codes[row[k]]] -= 1
            room[column[k]] -= 1
    return made


@settings(max_examples=200, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_classes=st.integers(2, 6),
    min_remaining=st.integers(0, 9),
    max_ratio=st.none() | st.sampled_from([0.1, 0.25, 0.5, 1.0, 2.0]),
)
def test_all_at_once_is_one_after_the_other(seed, n_classes, min_remaining, max_ratio):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, n_classes, 60)
    row = np.flatnonzero(rng.random(60) < 0.8)
    column = (codes[row] + rng.integers(1, n_classes, len(row))) % n_classes
    rho = rng.choice([0.2, 0.5, 0.7, 0.9], len(row))
    limits = (n_classes, min_remaining, max_ratio)
    expected = one_after_the_other(row.tolist(), column.tolist(), rho.tolist(), codes.tolist(), *limits)
    assert limited(row, column, rho, codes, *limits) == expected


def test_a_chain_of_changes_of_which_each_waits_for_the_one_before():
    # class 0 has one slot to leave, class 3 one to enter: what row 0 does decides row 1's change, and so on
    row, column, rho = [0, 1, 4, 5, 8], [3, 4, 3, 5, 4], [0.9, 0.8, 0.7, 0.6, 0.5]
    codes = [0, 0, 1, 1, 1, 1, 2, 2, 2, 3, 4, 5]
    expected = one_after_the_other(row, column, rho, codes, 6, 1, 1.0)
    assert expected == [True, False, False, True, True]
    assert limited(row, column, rho, codes, 6, 1, 1.0) == expected
