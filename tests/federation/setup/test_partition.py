"""Who holds what, from numbers, groups and splitters."""

import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    LeaveOneGroupOut,
    PredefinedSplit,
    ShuffleSplit,
    StratifiedKFold,
)

from fedrela_sk import DirichletSplit, QuantitySkewSplit, ShardSplit
from fedrela_sk._random import client_stream_id
from fedrela_sk.exceptions import GroupsError, PartitionError
from fedrela_sk.federation.setup._partition import make_clients
from tests.federation.helpers import make_rows

X, Y = make_rows(40)
GROUPS = np.array(["north", "south", "east", "south"] * 10)


def rows_of(clients, groups=None, seed=0, y=Y):
    specs, _ = make_clients(clients, X, y, groups, seed)
    return [spec.rows for spec in specs]


def assert_partition(parts, n_rows=40):
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(n_rows))
    for rows in parts:
        assert rows.dtype == np.int64
        assert (np.diff(rows) > 0).all()


def test_a_number_makes_even_clients_from_the_seed():
    parts = rows_of(7)
    assert_partition(parts)
    assert sorted(len(rows) for rows in parts) == [5, 5, 6, 6, 6, 6, 6]
    np.testing.assert_array_equal(np.concatenate(parts), np.concatenate(rows_of(7)))
    assert not np.array_equal(parts[0], rows_of(7, seed=1)[0])


def test_a_number_does_not_care_for_classes_or_enough_rows():
    assert_partition(rows_of(7, y=np.r_[0, np.ones(39)]))
    parts = rows_of(50)
    assert_partition(parts)
    assert sum(len(rows) == 0 for rows in parts) == 10


def test_specs_carry_key_code_position_and_rows():
    specs, notes = make_clients(3, X, Y, None, seed=0)
    assert notes == ()
    assert [spec.key for spec in specs] == [spec.position for spec in specs] == [0, 1, 2]
    assert [spec.stream_id for spec in specs] == [client_stream_id(k) for k in range(3)]
    for spec in specs:
        assert spec.train_rows is spec.rows


def test_one_client_per_group_ordered_by_key_rows_ascending():
    specs, _ = make_clients(None, X, Y, GROUPS, seed=0)
    assert [spec.key for spec in specs] == ["east", "north", "south"]
    assert all(type(spec.key) is str for spec in specs)
    for spec in specs:
        np.testing.assert_array_equal(spec.rows, np.flatnonzero(spec.key == GROUPS))


@pytest.mark.parametrize(
    "groups",
    [
        np.arange(40) % 3,
        (np.arange(40) % 2).astype(bool),
        (np.arange(40) % 3) * 0.5,
        np.array(["a", "b"] * 20, dtype=object),
        [["x"], ["y"]] * 20,
        pd.Series(["a", "b"] * 20, dtype="category"),
        pd.Series([1, 2] * 20, dtype="Int64"),
        pd.Series(["a", "b"] * 20, dtype="string"),
    ],
    ids=lambda groups: f"{type(groups).__name__}-{getattr(groups, 'dtype', '')}",
)
def test_groups_of_any_kind(groups):
    specs, _ = make_clients(None, X, Y, groups, seed=0)
    assert len(specs) == len({str(group) for group in np.asarray(groups).ravel()})
    assert_partition([spec.rows for spec in specs])
    assert not any(isinstance(spec.key, np.generic) for spec in specs)


def test_groups_are_needed_and_the_error_says_how_they_get_lost():
    with pytest.raises(
        GroupsError, match=r"got no groups.*enable_metadata_routing=True.*number or a splitter"
    ):
        rows_of(None)


@pytest.mark.parametrize("value", [None, np.nan, pd.NA, pd.NaT], ids=repr)
def test_a_missing_group_is_named(value):
    groups = GROUPS.astype(object)
    groups[[7, 11]] = value
    with pytest.raises(GroupsError, match=r"missing value in row 7 \(2 in all\).*drop these rows"):
        rows_of(None, groups)


def test_groups_of_mixed_kinds_or_another_length_are_refused():
    mixed = np.array([1, "a"] * 20, dtype=object)
    with pytest.raises(GroupsError, match=r"make them one type, got \['int', 'str'\]"):
        rows_of(None, mixed)
    with pytest.raises(GroupsError, match="one entry per row: got shape \\(3,\\) for 40 rows"):
        rows_of(None, GROUPS[:3])


def test_groups_with_a_number_name_both_ways_out():
    with pytest.raises(GroupsError, match=r"clients=4 .*clients=None .*set_fit_request\(groups=False\)"):
        rows_of(4, GROUPS)


@pytest.mark.parametrize(
    "splitter",
    [
        KFold(4),
        KFold(4, shuffle=True),
        StratifiedKFold(3),
        GroupKFold(3),
        LeaveOneGroupOut(),
        PredefinedSplit(np.arange(40) % 4),
        DirichletSplit(5, alpha=0.3),
        ShardSplit(4),
        QuantitySkewSplit(4),
    ],
    ids=lambda splitter: type(splitter).__name__,
)
def test_splitters(splitter):
    groups = GROUPS if "Group" in type(splitter).__name__ else None
    parts = rows_of(splitter, groups)
    assert_partition(parts)
    for one, other in zip(parts, rows_of(splitter, groups), strict=True):
        np.testing.assert_array_equal(one, other)


def test_clients_are_the_test_sets_in_the_splitters_order():
    specs, _ = make_clients(KFold(4), X, Y, None, seed=0)
    assert [spec.key for spec in specs] == [0, 1, 2, 3]
    np.testing.assert_array_equal(specs[1].rows, np.arange(10, 20))


def test_keys_are_positions_even_where_groups_cut_the_rows():
    specs, _ = make_clients(LeaveOneGroupOut(), X, Y, GROUPS, seed=0)
    assert [spec.key for spec in specs] == [0, 1, 2]
    np.testing.assert_array_equal(specs[0].rows, np.flatnonzero(GROUPS == "east"))


def test_a_missing_random_state_is_filled_on_a_copy():
    splitter = KFold(4, shuffle=True)
    first = rows_of(splitter, seed=0)
    assert splitter.random_state is None
    assert not np.array_equal(first[0], rows_of(splitter, seed=1)[0])
    fixed = KFold(4, shuffle=True, random_state=3)
    np.testing.assert_array_equal(rows_of(fixed, seed=0)[0], rows_of(fixed, seed=1)[0])
    split = DirichletSplit(4, alpha=0.5)
    rows_of(split)
    assert vars(split) == vars(DirichletSplit(4, alpha=0.5))


def test_a_random_state_of_the_caller_is_not_used_up():
    splitter = KFold(4, shuffle=True, random_state=np.random.RandomState(0))
    np.testing.assert_array_equal(rows_of(splitter)[0], rows_of(splitter)[0])


def test_split_is_called_once():
    calls = []

    class Counting(KFold):
        def split(self, X, y=None, groups=None):
            calls.append((X, y, groups))
            return super().split(X, y)

    rows_of(Counting(4), GROUPS)
    assert len(calls) == 1
    assert calls[0][0] is X
    assert calls[0][1] is Y
    assert calls[0][2] is GROUPS


def test_clients_left_out_by_the_splitter_are_counted():
    split = DirichletSplit(30, alpha=0.05, random_state=0)
    specs, notes = make_clients(split, X, Y, None, seed=0)
    assert notes == (f"The splitter left out {30 - len(specs)} clients without rows.",)
    assert len(specs) < 30


def test_the_warning_about_rare_classes_is_silenced_and_others_are_not():
    y = np.r_[0, 1, np.full(38, 2)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_partition(rows_of(StratifiedKFold(4), y=y))

    class Warning_(KFold):
        def split(self, X, y=None, groups=None):
            warnings.warn("look at this", UserWarning, stacklevel=1)
            return super().split(X, y)

    with pytest.warns(UserWarning, match="look at this"):
        rows_of(Warning_(4))


def test_overlap_is_refused():
    class Twice(KFold):
        def split(self, X, y=None, groups=None):
            for _ in range(2):
                yield from super().split(X, y)

    with pytest.raises(PartitionError, match=r"Row 0 belongs to more than one client \(40 such rows of 40\)"):
        rows_of(Twice(4))
    with pytest.raises(PartitionError, match=r"more than one client .* must be disjoint and cover all rows"):
        rows_of(ShuffleSplit(5, test_size=0.5, random_state=0))


def test_rows_without_a_client_are_refused():
    with pytest.raises(PartitionError, match=r"Row 3 belongs to no client \(10 such rows of 40\)"):
        rows_of(PredefinedSplit(np.where(np.arange(40) % 4 == 3, -1, np.arange(40) % 4)))
    with pytest.raises(PartitionError, match="belongs to no client"):
        rows_of(ShuffleSplit(1, test_size=0.5, random_state=0))


def test_no_test_set_at_all_is_refused():
    class Nothing(KFold):
        def split(self, X, y=None, groups=None):
            return iter(())

    with pytest.raises(PartitionError, match=r"Row 0 belongs to no client \(40 such rows of 40\)"):
        rows_of(Nothing(4))


def test_empty_test_sets_are_empty_clients():
    class Hollow(KFold):
        def split(self, X, y=None, groups=None):
            for train, test in super().split(X, y):
                yield train, test
                yield train, []

    parts = rows_of(Hollow(2))
    assert [len(rows) for rows in parts] == [20, 0, 20, 0]
    assert_partition(parts)


@pytest.mark.parametrize("shift", [5, -41])
def test_an_index_beyond_the_rows_explains_predefined_splits_in_searches(shift):
    class Shifted(KFold):
        def split(self, X, y=None, groups=None):
            for train, test in super().split(X, y):
                yield train, test + shift

    with pytest.raises(
        PartitionError, match=r"40 rows.*PredefinedSplit.*inside a search.*clients=None.*groups"
    ):
        rows_of(Shifted(4))


def test_a_split_made_for_more_rows():
    with pytest.raises(
        PartitionError, match=r"Client 2 holds row 59, but the data have 40 rows.*PredefinedSplit"
    ):
        rows_of(PredefinedSplit(np.arange(60) // 20))


def test_what_a_splitter_cannot_do_is_passed_on_with_its_name():
    with pytest.raises(PartitionError, match=r"clients=KFold\(n_splits=41.* could not cut the 40 rows: .*41"):
        rows_of(KFold(41))
    with pytest.raises(PartitionError, match=r"clients=DirichletSplit\(alpha=-1.* could not cut .*Got -1"):
        rows_of(DirichletSplit(4, alpha=-1))


def test_a_splitter_that_needs_groups_says_how_they_get_lost():
    with pytest.raises(GroupsError, match=r"clients=GroupKFold.* needs groups.*enable_metadata_routing=True"):
        rows_of(GroupKFold(3))


def test_errors_of_our_splitters_pass_unchanged():
    with pytest.raises(PartitionError, match="min_rows=20") as caught:
        rows_of(DirichletSplit(4, alpha=1.0, min_rows=20))
    assert "could not cut" not in str(caught.value)


def test_keys_hash_alike_in_every_process():
    keys = ("a", 7, True, 0.5, b"x")
    code = (
        f"from fedrela_sk._random import client_stream_id; print([client_stream_id(key) for key in {keys!r}])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"{[client_stream_id(key) for key in keys]}\n"
