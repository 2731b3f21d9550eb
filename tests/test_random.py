"""Streams are a function of (seed, purpose, round, client) and of nothing else."""

import itertools

import numpy as np
import pytest

from fedrela_sk._random import (
    Purpose,
    bit_generator,
    client_stream_id,
    integer_seed,
    integer_seeds,
    numpy_stream,
    seed_from,
    stream_keys,
    uniforms,
    uniforms_at,
)


def test_the_table_of_purposes_never_changes():
    table = {
        "SPLIT": 1, "INIT": 2, "PARTICIPATION": 3, "BATCHES": 4, "MODULE": 5, "RELABEL": 6, "VALIDATION": 7,
        "AUGMENT": 8, "LOCAL_DATA": 9, "FOLDS": 10, "DATA": 11,
    }  # fmt: skip
    assert {name: int(Purpose[name]) for name in table} == table
    assert len({int(purpose) for purpose in Purpose}) == len(Purpose)


def test_streams_are_those_of_philox_for_ever():
    """Raw words of the counter-based generator do not depend on the version of NumPy."""
    words = [0, 0, 6, 0, 3, 0, 7, 1]  # seed 0, purpose 6, round 3, client 2**32 + 7, low words first
    expected = np.random.Philox(np.random.SeedSequence(words)).random_raw(4)
    np.testing.assert_array_equal(bit_generator(0, Purpose.RELABEL, 3, 2**32 + 7).random_raw(4), expected)


KEYS = list(itertools.product([0, 1, 2**32], [Purpose.SPLIT, Purpose.RELABEL], [0, 1, 500], [0, 1, 2**63]))


def test_no_two_streams_are_the_same():
    first = {tuple(bit_generator(*key).random_raw(2)) for key in KEYS}
    assert len(first) == len(KEYS)
    # numbers do not run into each other: (1, 0) and (0, 1) are different places
    assert len({integer_seed(*key) for key in KEYS}) == len(KEYS)


def test_a_stream_does_not_depend_on_what_was_drawn_before():
    expected = {key: numpy_stream(*key).random(3) for key in KEYS}
    for key in reversed(KEYS):
        np.testing.assert_array_equal(numpy_stream(*key).random(3), expected[key])


def test_a_purpose_must_be_in_the_table():
    with pytest.raises(ValueError, match="99 is not a valid Purpose"):
        numpy_stream(0, 99)


def test_uniforms_are_filled_row_by_row():
    u = uniforms(3, Purpose.RELABEL, (5, 4), round=2, client=9)
    assert u.shape == (5, 4)
    assert u.dtype == np.float64
    np.testing.assert_array_equal(u[:2], uniforms(3, Purpose.RELABEL, (2, 4), round=2, client=9))
    np.testing.assert_array_equal(u.ravel(), numpy_stream(3, Purpose.RELABEL, 2, 9).random(20))


@pytest.mark.parametrize(("seed", "round"), [(0, 0), (3, 2), (2**31 - 1, 500), (2**40 + 1, 2**33)])
def test_entries_are_what_they_are_among_all(seed, round):
    clients = [0, 1, 2**32, 2**63, 2**64 - 1, client_stream_id("ca")]
    keys = stream_keys(seed, Purpose.RELABEL, round, clients)
    every = np.array([uniforms(seed, Purpose.RELABEL, (9, 7), round, client) for client in clients])
    owner = np.array([5, 0, 0, 3, 1, 4, 2, 5, 5])
    row = np.array([8, 0, 0, 7, 2, 3, 8, 8, 0])
    column = np.array([6, 0, 0, 1, 5, 2, 6, 5, 6])  # unordered, one of them twice
    np.testing.assert_array_equal(uniforms_at(keys[owner], row * 7 + column), every[owner, row, column])
    assert uniforms_at(keys[:0], np.empty(0, dtype=int)).shape == (0,)


def test_integer_seeds_are_those_of_single_streams():
    clients = [0, 1, 2**64 - 1, client_stream_id("ca")]
    expected = [integer_seed(9, Purpose.RELABEL, 4, client) for client in clients]
    assert integer_seeds(stream_keys(9, Purpose.RELABEL, 4, clients)).tolist() == expected
    assert stream_keys(9, Purpose.RELABEL, 4, []).shape == (0, 2)


def test_uniforms_are_uniform_within_and_across_streams():
    u = np.stack(
        [uniforms(0, Purpose.RELABEL, (50, 4), round, client) for round in range(10) for client in range(10)]
    )
    assert u.min() >= 0
    assert u.max() < 1
    # 20,000 draws: the mean has a standard deviation of 0.002, a decile count one of 42
    assert abs(u.mean() - 0.5) < 0.01
    assert np.abs(np.histogram(u, 10, (0, 1))[0] - 2000).max() < 220
    across = np.corrcoef(u.reshape(100, -1))
    assert np.abs(across - np.eye(100)).max() < 0.35  # 5 standard deviations of 200 pairs


def test_integer_seeds_fit_other_generators():
    seeds = np.array([integer_seed(seed, Purpose.MODULE, 1, 2) for seed in range(200)], dtype=np.uint64)
    assert seeds.max() < 2**63
    assert seeds.max() > 2**62


@pytest.mark.parametrize(
    ("key", "same"),
    [
        (5, np.int64(5)),
        ("ny", np.str_("ny")),
        (True, np.bool_(True)),
        (0.5, np.float64(0.5)),
        (b"x", np.bytes_(b"x")),
    ],
)
def test_numpys_scalars_are_the_values_they_hold(key, same):
    assert client_stream_id(key) == client_stream_id(same)


def test_other_keys_have_other_codes():
    keys = [0, 1, -1, 10**12, "0", "1", "", "a", "A", True, False, 0.0, 1.0, b"0", b"a", *range(2, 2000)]
    codes = [client_stream_id(key) for key in keys]
    assert len(set(codes)) == len(keys)
    assert all(0 <= code < 2**64 for code in codes)


@pytest.mark.parametrize(
    ("key", "code"), [(0, 7163381271710615482), ("ca", 11177031826680930785), (True, 10996511484319467320)]
)
def test_codes_never_change(key, code):
    assert client_stream_id(key) == code


def test_seeds_of_scikit_learns_kinds():
    assert seed_from(7) == 7
    assert seed_from(np.int64(7)) == 7
    state = np.random.RandomState(0)
    first, second = seed_from(state), seed_from(state)
    assert first != second
    assert first == seed_from(np.random.RandomState(0))
    np.random.seed(0)  # noqa: NPY002
    assert seed_from(None) == first


@pytest.mark.parametrize(
    ("value", "message"), [(-1, "random_state must be >= 0, got -1"), ("a", "cannot be used to seed")]
)
def test_seeds_that_are_none(value, message):
    with pytest.raises(ValueError, match=message):
        seed_from(value)
