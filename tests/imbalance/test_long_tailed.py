"""make_long_tailed: the exact counts of the literature, which rows stay, errors."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from fedrela_sk.exceptions import LabelError, PartitionError
from fedrela_sk.imbalance import long_tailed_counts, make_long_tailed

# (classes, imbalance factor, rows of the first class): total rows, first counts, last counts
PUBLISHED = [
    (10, 10, 5000, 20431, [5000, 3871, 2997, 2320, 1796, 1391, 1077, 834, 645, 500], []),
    (10, 50, 5000, 13996, [5000, 3237, 2096, 1357, 878, 568, 368, 238, 154, 100], []),
    (10, 100, 5000, 12406, [5000, 2997, 1796, 1077, 645, 387, 232, 139, 83, 50], []),
    (100, 10, 500, 19573, [500, 488, 477], [52, 51, 50]),
    (100, 50, 500, 12608, [500, 480, 462], [10, 10, 10]),
    (100, 100, 500, 10847, [500, 477, 455], [5, 5, 5, 5]),
    (10, 50, 6000, 16796, [6000, 3884, 2515, 1628, 1054, 682, 442, 286, 185, 120], []),
    (10, 100, 6000, 14886, [6000, 3596, 2156, 1292, 774, 464, 278, 166, 100, 60], []),
]


@pytest.mark.parametrize(("n_classes", "factor", "n_max", "total", "head", "tail"), PUBLISHED)
def test_counts_are_those_of_the_benchmark_sets(n_classes, factor, n_max, total, head, tail):
    counts = long_tailed_counts(n_classes, imbalance_factor=factor, n_max=n_max)
    assert counts.sum() == total
    assert counts[: len(head)].tolist() == head
    assert counts[len(counts) - len(tail) :].tolist() == tail


@pytest.mark.parametrize(("n_classes", "factor", "n_max", "total", "head", "tail"), PUBLISHED[:6])
def test_balanced_data_are_cut_to_these_counts(n_classes, factor, n_max, total, head, tail):
    y = np.random.default_rng(0).permutation(np.repeat(np.arange(n_classes), n_max))
    X, cut = make_long_tailed(np.arange(len(y)), y, imbalance_factor=factor, random_state=0)
    expected = long_tailed_counts(n_classes, imbalance_factor=factor, n_max=n_max)
    assert np.bincount(cut).tolist() == expected.tolist()
    assert len(X) == total
    np.testing.assert_array_equal(y[X], cut)


def test_defaults_are_a_factor_of_100_and_the_balanced_class_size():
    _, y = make_long_tailed(np.zeros(600), np.repeat([0, 1], 300), random_state=0)
    assert np.bincount(y).tolist() == [300, 3]


def test_a_factor_of_one_changes_nothing():
    y = np.tile([0, 1, 2], 5)
    X, cut = make_long_tailed(np.arange(15), y, imbalance_factor=1, random_state=0)
    assert X.tolist() == list(range(15))
    assert cut.tolist() == y.tolist()


def test_rows_keep_their_order_and_indices_tell_which():
    y = np.tile([0, 1], 50)
    X, cut, rows = make_long_tailed(
        np.arange(100) * 2, y, imbalance_factor=5, random_state=1, return_indices=True
    )
    assert (np.diff(rows) > 0).all()
    np.testing.assert_array_equal(X, rows * 2)
    np.testing.assert_array_equal(cut, y[rows])
    assert np.bincount(cut).tolist() == [50, 10]


def test_one_integer_seed_gives_one_result_and_another_another():
    y = np.repeat([0, 1], 100)
    first, again, other = (
        make_long_tailed(np.arange(200), y, imbalance_factor=10, random_state=seed)[0] for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_every_row_of_a_class_has_the_same_chance():
    y = np.repeat([0, 1], 20)
    kept = np.zeros(40)
    for seed in range(400):
        kept[make_long_tailed(np.arange(40), y, imbalance_factor=4, random_state=seed)[0]] += 1
    assert (kept[:20] == 400).all()
    np.testing.assert_allclose(kept[20:] / 400, 0.25, atol=0.11)


def test_a_stronger_cut_keeps_a_subset():
    y = np.repeat([0, 1, 2], 200)
    weak, strong = (
        make_long_tailed(np.arange(600), y, imbalance_factor=factor, random_state=7)[0] for factor in (10, 50)
    )
    assert set(strong) < set(weak)


def test_names_of_classes_and_values_of_x_never_matter():
    y = np.repeat([0, 1, 2], 100)
    names = np.array(["a", "b", "c"])[y]
    plain = make_long_tailed(np.arange(300), y, random_state=0, return_indices=True)[-1]
    named = make_long_tailed(np.full(300, np.nan), names, random_state=0, return_indices=True)[-1]
    np.testing.assert_array_equal(plain, named)


def test_without_shuffling_the_first_rows_of_each_class_stay():
    y = np.tile([1, 0], 6)
    X, cut = make_long_tailed(np.arange(12), y, imbalance_factor=3, shuffle=False)
    assert cut[X % 2 == 1].tolist() == [0] * 6
    assert X[X % 2 == 0].tolist() == [0, 2]


def test_class_order_names_the_head_first():
    y = np.repeat(["a", "b", "c"], 100)
    _, cut = make_long_tailed(np.zeros(300), y, imbalance_factor=25, class_order=["c", "a", "b"])
    assert {label: int(np.sum(cut == label)) for label in "abc"} == {"c": 100, "a": 20, "b": 4}


def test_n_max_of_unbalanced_data():
    y = np.repeat([0, 1, 2], [90, 30, 12])
    _, cut = make_long_tailed(np.zeros(132), y, imbalance_factor=9, n_max=90)
    assert np.bincount(cut).tolist() == [90, 30, 10]


def test_containers_come_back_as_they_went_in_and_more_arrays_are_cut_along():
    y = pd.Series(np.repeat(["x", "y"], 50), index=np.arange(100) + 7, dtype="category")
    frame = pd.DataFrame({"number": range(100), "text": list("ab" * 50)}, index=y.index)
    groups = [f"client {k % 3}" for k in range(100)]
    X, cut, kept_groups, matrix = make_long_tailed(
        frame, y, groups, sparse.csc_matrix(np.eye(100)), imbalance_factor=5, random_state=0
    )
    assert isinstance(X, pd.DataFrame)
    assert cut.dtype == "category"
    assert X.index.equals(cut.index)
    assert kept_groups == [groups[k] for k in X["number"]]
    np.testing.assert_array_equal(np.asarray(matrix.argmax(axis=1)).ravel(), X["number"])
    texts = make_long_tailed(list("abcdef"), [0, 0, 0, 1, 1, 1], imbalance_factor=3, shuffle=False)
    assert texts == (["a", "b", "c", "d"], [0, 0, 0, 1])


def test_a_class_with_too_few_rows_names_the_largest_head_that_works():
    y = np.repeat([0, 1, 2], [100, 12, 100])
    with pytest.raises(
        PartitionError, match=r"Class 1 shall keep \d+ rows: set n_max to at most 38 .* 12 rows"
    ):
        make_long_tailed(np.zeros(212), y, imbalance_factor=9)
    _, cut = make_long_tailed(np.zeros(212), y, imbalance_factor=9, n_max=38)
    assert np.bincount(cut).tolist() == [38, 12, 4]
    with pytest.raises(PartitionError, match="set n_max to at most 38"):
        make_long_tailed(np.zeros(212), y, imbalance_factor=9, n_max=39)


def test_the_largest_head_is_found_where_rounding_decides():
    y = np.repeat([0, 1], [5200, 50])  # 5099 * 0.01 is truncated to 50, 5100 * 0.01 to 51
    with pytest.raises(PartitionError, match=r"Class 1 shall keep 52 rows: set n_max to at most 5099 "):
        make_long_tailed(np.zeros(5250), y, imbalance_factor=100, n_max=5200)
    _, cut = make_long_tailed(np.zeros(5250), y, imbalance_factor=100, n_max=5099)
    assert np.bincount(cut).tolist() == [5099, 50]


def test_a_class_that_would_vanish():
    y = np.repeat([0, 1], 50)
    with pytest.raises(PartitionError, match=r"Class 1 would vanish: .* got a target of 0 out of 50 rows"):
        make_long_tailed(np.zeros(100), y, imbalance_factor=100)


@pytest.mark.parametrize("order", [[0, 1], [0, 1, 1], [0, 1, 3], ["0", "1", "2"]])
def test_class_order_must_be_a_permutation(order):
    with pytest.raises(LabelError, match=r"each class of y once, .* classes are \[0, 1, 2\], got \["):
        make_long_tailed(np.zeros(300), np.repeat([0, 1, 2], 100), class_order=order)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.zeros(4, dtype=int), r"at least 2 classes in y, got 1: \[0\]"),
        (np.array([0.0, 1.0, np.nan, 1.0]), r"row 2 is missing, got nan"),
        (np.array([0, "a", 0, "a"], dtype=object), r"make them one type, got \['int', 'str'\]"),
        (None, "requires y to be passed, but the target y is None"),
    ],
)
def test_bad_labels(y, message):
    with pytest.raises(LabelError, match=message):
        make_long_tailed(np.zeros(4), y)


def test_lengths_must_agree():
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        make_long_tailed(np.zeros(4), [0, 1, 0])


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"imbalance_factor": 0.01}, r"'imbalance_factor' parameter .* range \[1.* Got 0.01 instead"),
        ({"n_max": 0}, r"'n_max' parameter .* Got 0 instead"),
        ({"shuffle": "yes"}, r"'shuffle' parameter .* Got 'yes' instead"),
    ],
)
def test_bad_parameters(params, message):
    with pytest.raises(ValueError, match=message):
        make_long_tailed(np.zeros(4), [0, 1, 0, 1], **params)


def test_counts_need_two_classes():
    with pytest.raises(ValueError, match=r"'n_classes' parameter .* Got 1 instead"):
        long_tailed_counts(1, imbalance_factor=10, n_max=100)
