"""make_step_wise: counts by hand, which classes are minority, errors."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrela_sk.exceptions import LabelError, PartitionError
from fedrela_sk.imbalance import make_step_wise, step_wise_counts


def counts_after(counts, **params):
    y = np.random.default_rng(0).permutation(np.repeat(np.arange(len(counts)), counts))
    _, cut = make_step_wise(np.arange(len(y)), y, random_state=0, **params)
    return np.bincount(cut).tolist()


def test_the_last_three_of_ten_classes_keep_a_tenth_by_default():
    assert counts_after([100] * 10) == [100] * 7 + [10] * 3


@pytest.mark.parametrize(("share", "n_minority"), [(0.1, 1), (0.3, 3), (0.5, 5)])
def test_published_shares(share, n_minority):
    expected = [100] * (10 - n_minority) + [5] * n_minority
    assert counts_after([100] * 10, minority=share, imbalance_ratio=20) == expected


@pytest.mark.parametrize(
    ("n_classes", "share", "n_minority"),
    [
        (2, 0.3, 1),  # 0.6
        (2, 0.01, 1),  # at least one
        (2, 0.99, 1),  # not all
        (5, 0.3, 2),  # 1.5: halves up
        (5, 0.29, 1),  # 1.45
        (8, 0.3, 2),  # 2.4
        (3, 0.5, 2),  # 1.5
        (100, 0.145, 15),  # 14.5, though 0.145 * 100 is 14.499999999999998 in float64
    ],
)
def test_a_share_is_rounded_half_up_to_classes(n_classes, share, n_minority):
    expected = [20] * (n_classes - n_minority) + [2] * n_minority
    assert counts_after([20] * n_classes, minority=share) == expected


def test_each_minority_class_is_cut_by_itself_and_rounded_down():
    assert counts_after([50, 39, 20, 41], minority=[1, 3], imbalance_ratio=10) == [50, 3, 20, 4]
    assert counts_after([50, 60], minority=[1], imbalance_ratio=2.5) == [50, 24]


def test_a_list_of_names():
    y = np.repeat(["bad", "good", "odd"], 30)
    X, cut = make_step_wise(np.arange(90), y, minority=["odd", "bad"], random_state=0)
    assert [int(np.sum(cut == name)) for name in ("bad", "good", "odd")] == [3, 30, 3]
    np.testing.assert_array_equal(y[X], cut)


def test_counts_alone():
    assert step_wise_counts([7, 60], imbalance_ratio=1.2, is_minority=[0, 1]).tolist() == [7, 50]
    with pytest.raises(ValueError, match=r"'imbalance_ratio' parameter .* Got 0.5 instead"):
        step_wise_counts([7, 60], imbalance_ratio=0.5, is_minority=[0, 1])


def test_a_ratio_of_one_changes_nothing():
    assert counts_after([9, 8, 7], imbalance_ratio=1) == [9, 8, 7]


@settings(max_examples=40, deadline=None)
@given(
    counts=st.lists(st.integers(11, 60), min_size=2, max_size=6),  # 11 rows over 10.5 leave one
    ratio=st.integers(1, 10),
    seed=st.integers(0, 2**32 - 1),
)
def test_a_larger_ratio_keeps_a_subset_and_the_majority_is_whole(counts, ratio, seed):
    y = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(counts)), counts))
    weak = make_step_wise(y, y, imbalance_ratio=ratio, random_state=seed, return_indices=True)[-1]
    strong = make_step_wise(y, y, imbalance_ratio=ratio + 0.5, random_state=seed, return_indices=True)
    assert set(strong[-1]) <= set(weak)
    lost = np.setdiff1d(np.arange(len(y)), weak)
    assert set(y[lost]) <= set(range(len(counts) - max(1, int(0.3 * len(counts) + 0.5)), len(counts)))


def test_more_arrays_are_cut_along_and_first_rows_stay_without_shuffling():
    X, y, groups, rows = make_step_wise(
        list("abcdefgh"),
        [0, 1] * 4,
        np.arange(8) // 4,
        imbalance_ratio=2,
        shuffle=False,
        return_indices=True,
    )
    assert rows.tolist() == [0, 1, 2, 3, 4, 6]
    assert "".join(X) == "abcdeg"
    assert y == [0, 1, 0, 1, 0, 0]
    assert groups.tolist() == [0, 0, 0, 0, 1, 1]


def test_a_class_that_would_vanish():
    with pytest.raises(PartitionError, match=r"Class 1 would vanish: .* got a target of 0 out of 9 rows"):
        counts_after([100, 9])


@pytest.mark.parametrize(
    ("minority", "message"),
    [
        ([7], r"classes of y, which are \[0, 1, 2\]: got the unknown \[7\]"),
        (["1"], r"which are \[0, 1, 2\]: got the unknown \['1'\]"),
        ([], r"at least one class, .* got \[\]"),
        ([0, 1, 2], r"not all 3, .* got \[0, 1, 2\]"),
        ([1, 1], r"none twice: got \[1, 1\]"),
    ],
)
def test_bad_lists_of_classes(minority, message):
    with pytest.raises(LabelError, match=message):
        counts_after([20, 20, 20], minority=minority)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"minority": 1}, r"'minority' parameter .* Got 1 instead"),
        ({"minority": 30}, r"'minority' parameter .* Got 30 instead"),
        ({"minority": 0.0}, r"'minority' parameter .* Got 0.0 instead"),
        ({"imbalance_ratio": 0.1}, r"'imbalance_ratio' parameter .* Got 0.1 instead"),
    ],
)
def test_bad_parameters(params, message):
    with pytest.raises(ValueError, match=message):
        counts_after([20, 20, 20], **params)


def test_one_class_is_refused():
    with pytest.raises(LabelError, match=r"at least 2 classes in y, got 1: \[0\]"):
        counts_after([20])
