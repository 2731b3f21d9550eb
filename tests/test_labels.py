"""The one door for labels, groups and clients: every dtype comes through as it is, missing names are refused."""

import numpy as np
import pandas as pd
import pytest

from fedrela_sk._labels import (
    accuracy,
    array_of,
    check_groups,
    check_names,
    positions_in,
    python_values,
    same_names,
    sorted_names,
)
from fedrela_sk._random import client_stream_id
from fedrela_sk.exceptions import GroupsError, LabelError
from tests.names import BIG, BOOLEANS, BOTH_SIGNS, CONTAINERS, DAYS, HUGE, MISSING, WORDS, container

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataConversionWarning")
CODES = np.array([0, 2, 1, 1, 0, 2, 2])
KINDS_OF_NUMBERS = {int: "iu", float: "f", str: "UO", bool: "b"}


@pytest.mark.parametrize("kind", CONTAINERS)
def test_distinct_names_stay_distinct(kind):
    names = check_names(container(kind, CODES))
    distinct, codes = sorted_names(names)
    assert type(names) is np.ndarray
    assert names.shape == (7,)
    assert len(distinct) == 3
    np.testing.assert_array_equal(codes, CODES)
    assert codes.dtype == np.int64
    np.testing.assert_array_equal(positions_in(distinct, names), CODES)
    np.testing.assert_array_equal(positions_in(python_values(distinct), names), CODES)


@pytest.mark.parametrize("kind", CONTAINERS)
def test_integers_stay_integers_and_strings_strings(kind):
    expected = CONTAINERS[kind][1]
    names = check_names(container(kind, [0, 1, 2]))
    if type(expected[0]) in KINDS_OF_NUMBERS and kind != "Period":
        assert python_values(names) == expected
    if type(expected[0]) in (int, float) and expected is not BOTH_SIGNS:
        assert names.dtype.kind in KINDS_OF_NUMBERS[type(expected[0])]


@pytest.mark.parametrize("kind", BOOLEANS)
def test_booleans_stay_booleans(kind):
    names = check_names(BOOLEANS[kind]([True, False, True]))
    assert names.dtype == bool
    assert names.tolist() == [True, False, True]


@pytest.mark.parametrize("kind", MISSING)
def test_a_missing_name_is_refused_with_its_row(kind):
    with pytest.raises(
        LabelError, match=r"Input y contains NaN: the label of row 2 is missing.*2 in all.*Drop rows"
    ):
        check_names(MISSING[kind])
    with pytest.raises(
        GroupsError, match=r"groups has a missing value in row 2 \(2 in all\).*drop these rows"
    ):
        check_groups(MISSING[kind], 5)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("Int64", "int64"), ("int64[pyarrow]", "int64"), ("object int", "int64"), ("polars Int64", "int64"),
     ("arrow int64", "int64"), ("category of int", "int64"), ("pandas string", "str"), ("polars String", "str"),
     ("arrow string", "str"), ("pandas object", "str"), ("category of str", "str")],
)  # fmt: skip
def test_a_clients_streams_do_not_depend_on_the_container(kind, expected):
    keys = python_values(sorted_names(check_names(container(kind, [0, 1, 2])))[0])
    plain = CONTAINERS[kind][1]
    assert [client_stream_id(key) for key in keys] == [client_stream_id(np.array(plain)[k]) for k in range(3)]


def test_codes_of_clients_are_what_they_were():
    """Random streams rest on them: integers, strings, booleans and floats keep theirs."""
    assert (
        client_stream_id(3)
        == client_stream_id(np.int8(3))
        == client_stream_id(python_values(check_names(pd.Series([3])))[0])
    )
    assert client_stream_id(7) == 6197197215835486562
    assert client_stream_id("bank") == 339101838133591347


@pytest.mark.parametrize(
    "kind", ["datetime64[s]", "pandas datetime", "timestamp[pyarrow]", "polars Datetime"]
)
def test_times_of_all_containers_are_the_same_names(kind):
    names = check_names(container(kind, [0, 1, 2]))
    assert python_values(names) == DAYS
    assert positions_in(DAYS, names).tolist() == [0, 1, 2]


def test_times_that_python_cannot_hold_keep_apart():
    names = np.array([1577836800000000001, 1577836800000000002, 1577836800000001000], dtype="M8[ns]")
    assert len(set(python_values(names))) == 3
    far = np.array(["20000-01-01", "20001-01-01"], dtype="M8[D]")
    assert len(set(python_values(far))) == 2


def test_arrays_of_lists_of_names():
    assert array_of(BIG).dtype == np.int64
    assert array_of(HUGE).dtype == np.uint64
    assert array_of(BOTH_SIGNS).dtype == object
    assert array_of(WORDS).dtype.kind == "U"
    assert array_of([True, False]).dtype == bool
    for names in (BIG, HUGE, BOTH_SIGNS, WORDS, DAYS):
        assert array_of(names).tolist() == names


def test_integers_are_compared_as_integers():
    unsigned, signed = np.array(BIG, dtype=np.uint64), np.array(BIG, dtype=np.int64)
    assert same_names(unsigned, signed)
    assert not same_names(unsigned, signed[[0, 0, 2]])
    assert positions_in(unsigned, signed).tolist() == [0, 1, 2]
    assert positions_in(unsigned, signed + 3).tolist() == [-1, -1, -1]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.array(["a", 1], dtype=object), r"y mixes labels .*make them one type, got \['int', 'str'\]"),
        ([1, "a"], r"make them one type, got \['int', 'str'\]"),
        ([True, 2], r"True and 1 would be the same: make them one type, got \['bool', 'int'\]"),
        (np.array([{}, {}]), r"holds \['dict'\], which cannot name anything"),
        (np.array([1j, 2]), "complex128 cannot be put in order"),
        (np.zeros((3, 2)), r"y should be a 1d array, got an array of shape \(3, 2\) instead"),
        ("word", r"got an array of shape \(\)"),
        ({1, 2}, r"got an array of shape \(\)"),
    ],
)
def test_what_names_nothing(values, message):
    with pytest.raises(LabelError, match=message):
        sorted_names(check_names(values))


def test_one_client_per_row():
    with pytest.raises(GroupsError, match=r"groups must have one entry per row: got shape \(3,\) for 4 rows"):
        check_groups([1, 2, 3], 4)


@pytest.mark.parametrize("kind", CONTAINERS)
def test_accuracy_of_labels_of_any_kind(kind):
    names = check_names(container(kind, [0, 1, 2, 0]))
    assert accuracy(container(kind, [0, 1, 1, 2]), names) == 0.5
    assert accuracy(container(kind, [0, 1, 1, 2]), names, [1, 1, 1, 5]) == 0.25
