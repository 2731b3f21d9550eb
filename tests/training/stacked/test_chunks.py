"""Chunks and their batches: by keys, row counts and chunk size alone, and the same batches as the loop's."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from fedrela_sk.training import LocalTask
from fedrela_sk.training._client_round import epoch_orders
from fedrela_sk.training._net import LocalSettings, batch_bounds
from fedrela_sk.training.stacked._chunks import BAND_RATIO, make_chunks
from fedrela_sk.training.stacked._chunks import chunk_batches as plan_orders

SETTINGS = LocalSettings(epochs=2, batch_size=10, shuffle=True, lr=0.1, batch_norms=(), callbacks=())


def chunk_batches(sizes, codes, settings, seed, round):
    """The layout of clients of these sizes in their usual order."""
    orders = [
        epoch_orders(n, settings.epochs, settings.shuffle, seed, round, code)
        for n, code in zip(sizes, codes, strict=True)
    ]
    return plan_orders(orders, settings)


def make_tasks(sizes):
    """Tasks of given sizes; only their rows matter here, their places stand for keys."""
    return [
        LocalTask(client=i, rows=torch.arange(n), y=None, class_weights=None, weight=1.0, params={}, state={})
        for i, n in enumerate(sizes)
    ]


def chunks_of(sizes, chunk_size, settings=SETTINGS):
    """Clients of each chunk, by place."""
    return [[t.client for t in chunk] for chunk in make_chunks(make_tasks(sizes), settings, chunk_size)]


# --- who trains together --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n_rows", "settings", "steps"),
    [
        (1, {}, 2),
        (10, {}, 2),
        (11, {}, 4),
        (95, {"epochs": 3}, 30),
        (95, {"batch_size": -1}, 2),
        (11, {"batch_norms": (object(),)}, 2),
        (12, {"batch_norms": (object(),)}, 4),
    ],
)
def test_steps_of_a_client(n_rows, settings, steps):
    assert replace(SETTINGS, **settings).n_steps(n_rows) == steps


def test_most_steps_first_equal_ones_by_key():
    assert chunks_of([15, 25, 11, 30, 21], 10) == [[1, 3, 4, 0, 2]]


def test_bands_and_even_cuts_by_hand():
    # steps 2, 2, 6, 8, 20, 62: 3 x 20 < 62, 3 x 8 >= 20, 3 x 6 < 20
    sizes = [1, 10, 25, 35, 100, 310]
    assert chunks_of(sizes, 10) == [[5], [4, 3], [2, 0, 1]]
    assert chunks_of(sizes, 2) == [[5], [4, 3], [2, 0], [1]]
    assert chunks_of(sizes, 1) == [[5], [4], [3], [2], [0], [1]]
    assert [len(chunk) for chunk in chunks_of([10] * 10, 4)] == [3, 4, 3]  # not 4, 4, 2


def test_full_batches_make_one_band():
    assert chunks_of([1, 4000, 20], 10, replace(SETTINGS, batch_size=-1)) == [[0, 1, 2]]


@given(st.lists(st.integers(1, 2000), min_size=1, max_size=60), st.integers(1, 20))
@hypothesis_settings(max_examples=60, deadline=None)
def test_every_client_is_in_one_chunk_of_its_like(sizes, chunk_size):
    chunks = chunks_of(sizes, chunk_size)
    assert sorted(i for chunk in chunks for i in chunk) == list(range(len(sizes)))
    assert all(1 <= len(chunk) <= chunk_size for chunk in chunks)
    steps = [[SETTINGS.n_steps(sizes[i]) for i in chunk] for chunk in chunks]
    flat = [s for chunk in steps for s in chunk]
    assert flat == sorted(flat, reverse=True)
    assert all(chunk[0] <= BAND_RATIO * chunk[-1] for chunk in steps)
    bands = [[]]  # no more chunks than it takes
    for n in flat:
        if bands[-1] and BAND_RATIO * n < bands[-1][0]:
            bands.append([])
        bands[-1].append(n)
    assert len(chunks) == sum(-(-len(band) // chunk_size) for band in bands)


def test_the_cut_depends_on_row_counts_alone():
    sizes = [15, 200, 11, 30, 21]
    tasks = make_tasks(sizes)
    other = [replace(task, rows=task.rows + 1000, weight=7.0, params={"a": 1}) for task in tasks]
    first, second = (make_chunks(t, SETTINGS, 2) for t in (tasks, other))
    assert [[t.client for t in c] for c in first] == [[t.client for t in c] for c in second]


# --- their batches --------------------------------------------------------------------------------------


@pytest.mark.parametrize("merge", [False, True])
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("batch_size", [1, 10, -1])
def test_batches_are_those_of_the_loop(merge, shuffle, batch_size):
    settings = replace(SETTINGS, shuffle=shuffle, batch_size=batch_size, batch_norms=(object(),) * merge)
    sizes, codes = [45, 31, 20, 11, 3, 1], [7, 5, 11, 13, 2, 3]
    order = np.argsort([-settings.n_steps(n) for n in sizes], kind="stable")
    sizes, codes = [sizes[i] for i in order], [codes[i] for i in order]
    plan = chunk_batches(sizes, codes, settings, seed=3, round=4)
    assert plan.steps.tolist() == [settings.n_steps(n) for n in sizes]
    for k, (n, code) in enumerate(zip(sizes, codes, strict=True)):
        bounds = batch_bounds(n, batch_size, merge)
        expected = [
            order[start:stop] for order in epoch_orders(n, 2, shuffle, 3, 4, code) for start, stop in bounds
        ]
        for step, rows in enumerate(expected):
            assert plan.active[step] > k
            i = plan.offset[step] + k
            assert plan.lengths[i] == len(rows)
            assert plan.index[i, : len(rows)].tolist() == rows.tolist()
            # padding repeats the first row of the same batch
            assert (plan.index[i, len(rows) :] == rows[0]).all()


def test_clients_that_have_finished_leave():
    plan = chunk_batches([45, 31, 20, 3], [1, 2, 3, 4], SETTINGS, seed=0, round=0)
    assert plan.steps.tolist() == [10, 8, 4, 2]
    assert plan.active.tolist() == [4, 4, 3, 3, 2, 2, 2, 2, 1, 1]
    assert plan.offset.tolist() == [0, 4, 8, 11, 14, 16, 18, 20, 22, 23]
    assert len(plan.index) == len(plan.lengths) == 24
    assert plan.index.shape[1] == 10


def test_a_batch_is_as_wide_as_the_widest():
    assert chunk_batches([4, 3], [1, 2], SETTINGS, 0, 0).index.shape[1] == 4
    full = chunk_batches([40, 3], [1, 2], replace(SETTINGS, batch_size=-1), 0, 0)
    assert full.index.shape == (4, 40)
    assert full.lengths.tolist() == [40, 3, 40, 3]


def test_rounds_and_seeds_shuffle_anew():
    plans = [
        chunk_batches([45], [1], SETTINGS, seed, round).index for seed, round in ((0, 0), (0, 1), (1, 0))
    ]
    again = chunk_batches([45, 12], [1, 2], SETTINGS, 0, 0)
    assert not any(np.array_equal(a, b) for a, b in pairwise(plans))
    own = again.offset[: again.steps[0]]
    assert np.array_equal(again.index[own], plans[0])  # whoever else is in the chunk
