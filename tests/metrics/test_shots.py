"""Head, medium, tail: the rule at its edges, the published group sizes, the released code's proxies."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrela_sk.exceptions import LabelError
from fedrela_sk.imbalance import long_tailed_counts
from fedrela_sk.metrics import majority_minority_split, proxy_class_counts, shot_split
from fedrela_sk.splitters import DirichletSplit


def sizes(counts):
    return tuple(int(np.sum(shot_split(counts) == name)) for name in ("head", "medium", "tail"))


@pytest.mark.parametrize(
    ("n_classes", "factor", "n_max", "expected"),
    [
        (10, 10, 5000, (5, 4, 1)),
        (10, 50, 5000, (4, 3, 3)),
        (10, 100, 5000, (3, 3, 4)),
        (100, 10, 500, (49, 35, 16)),
        (100, 50, 500, (34, 34, 32)),
        (100, 100, 500, (30, 31, 39)),
        (10, 50, 6000, (4, 3, 3)),
        (10, 100, 6000, (3, 3, 4)),
    ],
)
def test_group_sizes_of_the_benchmark_sets(n_classes, factor, n_max, expected):
    assert sizes(long_tailed_counts(n_classes, imbalance_factor=factor, n_max=n_max)) == expected


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ([75, 20, 5], "hmt"),  # hitting 75 % and 95 % exactly ends the group at that class
        ([74, 21, 5], "hht"),  # 74, 95: the class that crosses 75 % is head, and it hits 95 % too
        ([74, 2, 19, 5], "hthm"),  # sorted 74, 93, 98, 100: 19 crosses 75 % and is head, 5 crosses 95 %
        ([96, 3, 1], "htt"),  # one class crosses both: no medium
        ([50, 44, 6], "hhm"),
        ([5, 20, 75], "tmh"),  # any order
        ([1], "h"),
        ([10, 0, 0], "htt"),
        ([25, 25, 25, 25], "hhhm"),  # ties: the lower class first
        ([1, 1], "hh"),
        ([0.6, 0.3, 0.1], "hhm"),  # weights: 0.6, 0.9, 1.0
    ],
)
def test_by_hand(counts, expected):
    assert "".join(name[0] for name in shot_split(counts)) == expected


def test_exact_hits_survive_floating_point_at_any_total():
    # 19 of 20 is 95 % exactly, for many totals whose product with 0.95 is not a whole number in float64
    for scale in range(1, 1000):
        assert shot_split(np.array([15, 4, 1]) * scale).tolist() == ["head", "medium", "tail"]


def test_other_cuts():
    counts = [50, 30, 20]
    assert shot_split(counts, cuts=(0.5, 0.8)).tolist() == ["head", "medium", "tail"]
    assert shot_split(counts, cuts=(0.5, 0.5)).tolist() == ["head", "tail", "tail"]
    assert shot_split(counts, cuts=(1, 1.0)).tolist() == ["head", "head", "head"]


@settings(max_examples=100, deadline=None)
@given(counts=st.lists(st.integers(0, 1000), min_size=1, max_size=30).filter(any))
def test_against_the_rule_spelled_out(counts):
    order = sorted(range(len(counts)), key=lambda label: -counts[label])
    expected, before = {}, 0
    for label in order:
        # a class belongs to the group in which its first row lies
        share = before / sum(counts)
        expected[label] = "head" if share < 0.75 else "medium" if share < 0.95 else "tail"
        before += counts[label]
    assert shot_split(counts).tolist() == [expected[label] for label in range(len(counts))]


@settings(max_examples=50, deadline=None)
@given(counts=st.permutations([50, 20, 11, 9, 6, 3, 1]), scale=st.integers(1, 1000))
def test_renaming_classes_and_scaling_counts_change_nothing(counts, scale):
    by_count = dict(zip(counts, shot_split(np.array(counts) * scale).tolist(), strict=True))
    assert by_count == {50: "head", 20: "head", 11: "head", 9: "medium", 6: "medium", 3: "tail", 1: "tail"}


@pytest.mark.parametrize("split", [shot_split, majority_minority_split])
@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ([0, 0], r"not all zero: .* got \[0, 0\]"),
        ([3, -1], r"none negative .* got \[3, -1\]"),
        ([3, np.nan], r"finite, .* got \[3.0, nan\]"),
        ([], r"not all zero: .* got \[\]"),
        ([[1, 2]], r"one number per class: .* got shape \(1, 2\)"),
        (["a"], r"one number per class: .* dtype <U1"),
    ],
)
def test_counts_that_are_none(split, counts, message):
    with pytest.raises(LabelError, match=message):
        split(counts)


@pytest.mark.parametrize("cuts", [(0.95, 0.75), (0, 0.5), (0.5, 1.1), (0.5,), (75, 95)])
def test_bad_cuts(cuts):
    with pytest.raises(ValueError, match=r"0 < first <= second <= 1, got \("):
        shot_split([1, 2], cuts=cuts)


def test_sizes_by_hand():
    assert majority_minority_split([100, 100, 10, 100]).tolist() == [
        "majority",
        "majority",
        "minority",
        "majority",
    ]
    assert majority_minority_split([5, 5]).tolist() == ["majority", "majority"]
    assert majority_minority_split([3, 97]).tolist() == ["minority", "majority"]


def test_proxy_by_hand():
    table = [[7, 1, 0], [5, 1, 6]]  # N = 20; n_test = 10: halves, rounded down
    assert proxy_class_counts(table, n_test=10).tolist() == [3 + 2, 0 + 0, 0 + 3]
    assert proxy_class_counts(table, n_test=10, max_per_class=2).tolist() == [2 + 2, 0, 2]
    assert proxy_class_counts(np.array([[2**31 - 1]], dtype=np.int32)).tolist() == [10_000]


def test_the_uncapped_proxy_gives_the_published_sizes_of_nearly_even_clients():
    # CIFAR-100-LT, imbalance factor 50, 10 clients, alpha 10: 32/31/37 where the true counts give 34/34/32
    counts = long_tailed_counts(100, imbalance_factor=50, n_max=500)
    y = np.repeat(np.arange(100), counts)
    for seed in (1, 2, 3):
        splitter = DirichletSplit(10, alpha=10, random_state=seed)
        table = [np.bincount(y[test], minlength=100) for _, test in splitter.split(y, y)]
        assert np.abs(np.subtract(sizes(proxy_class_counts(table)), (32, 31, 37))).max() <= 1


def test_the_capped_proxy_has_a_larger_head_at_skewed_clients():
    # alpha 0.1: 37-39 head classes with the cap, 33 without
    counts = long_tailed_counts(100, imbalance_factor=50, n_max=500)
    y = np.repeat(np.arange(100), counts)
    heads = []
    for seed in range(5):
        splitter = DirichletSplit(10, alpha=0.1, random_state=seed)
        table = [np.bincount(y[test], minlength=100) for _, test in splitter.split(y, y)]
        heads.append(
            [sizes(proxy_class_counts(table, max_per_class=cap))[0] for cap in (100, None)],
        )
    capped, uncapped = np.mean(heads, axis=0)
    assert capped == pytest.approx(38, abs=1.5)
    assert uncapped == pytest.approx(33, abs=1)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ([1, 2], r"table of clients x classes .* got shape \(2,\)"),
        ([[0.5, 1.0]], r"whole numbers.*dtype float64"),
        ([[1, -1]], "none negative"),
        ([[0, 0]], "not all zero"),
    ],
)
def test_tables_that_are_none(table, message):
    with pytest.raises(ValueError, match=message):
        proxy_class_counts(table)


def test_bad_test_size():
    with pytest.raises(ValueError, match=r"'n_test' parameter .* Got 0 instead"):
        proxy_class_counts([[1]], n_test=0)
