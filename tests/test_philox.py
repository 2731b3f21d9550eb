"""Entries of Philox streams, and the keys of seed sequences, are those of NumPy bit for bit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrela_sk._philox import philox_keys, philox_words

RNG = np.random.default_rng(0)
MAX = 2**32 - 1


@settings(deadline=None, max_examples=60)
@given(st.lists(st.lists(st.integers(0, MAX), min_size=8, max_size=8), min_size=1, max_size=4))
def test_keys_are_those_of_seed_sequences(words):
    expected = [np.random.SeedSequence(line).generate_state(2, np.uint64) for line in words]
    np.testing.assert_array_equal(philox_keys(np.array(words, dtype=np.uint32)), expected)


@pytest.mark.parametrize("n_words", [4, 5, 8, 11])
def test_words_of_any_number_are_absorbed(n_words):
    words = np.vstack(
        [RNG.integers(0, MAX, (5, n_words), dtype=np.uint32), np.full((1, n_words), MAX), [[0] * n_words]]
    )
    expected = [np.random.SeedSequence(line).generate_state(2, np.uint64) for line in words.tolist()]
    np.testing.assert_array_equal(philox_keys(words.astype(np.uint32)), expected)


KEYS = np.vstack([RNG.integers(0, 2**64 - 1, (12, 2), dtype=np.uint64), np.zeros((1, 2), np.uint64)])
KEYS = np.vstack([KEYS, np.full((1, 2), 2**64 - 1, np.uint64)])


def test_words_are_those_of_generators():
    n_words = 50
    expected = [np.random.Philox(key=key).random_raw(n_words) for key in KEYS]
    every = philox_words(np.repeat(KEYS, n_words, axis=0), np.tile(np.arange(n_words), len(KEYS)))
    np.testing.assert_array_equal(every.reshape(len(KEYS), n_words), expected)


def test_a_word_does_not_depend_on_what_else_is_asked():
    positions = RNG.integers(0, 30_000, 20_000)  # several chunks; not in order, many of them twice
    owner = RNG.integers(0, len(KEYS), 20_000)
    streams = np.array([np.random.Philox(key=key).random_raw(30_000) for key in KEYS])
    np.testing.assert_array_equal(philox_words(KEYS[owner], positions), streams[owner, positions])


@pytest.mark.parametrize("block", [0, 1, 2**31, 2**40 + 12345, 2**60])
def test_words_far_out(block):
    for key in KEYS[:3]:
        far = np.random.Philox(key=key)
        far.advance(block)
        positions = np.arange(4, dtype=np.uint64) + np.uint64(4 * block)
        np.testing.assert_array_equal(philox_words(np.tile(key, (4, 1)), positions), far.random_raw(4))


def test_no_entries():
    words = philox_words(np.empty((0, 2), np.uint64), np.empty(0, np.int64))
    assert words.shape == (0,)
    assert words.dtype == np.uint64
