"""Rows set aside to watch the global model."""

import warnings

import numpy as np
import pytest
import torch

from fedrela_sk.federation.setup._validation import Validation, hold_out, hold_out_all
from tests.federation.helpers import make_spec


@pytest.mark.parametrize(
    ("n_rows", "share", "n_held"),
    [
        (10, 0.2, 2),
        (10, 0.29, 2),
        (100, 0.29, 29),
        (3, 0.3, 0),
        (1, 0.9, 0),
        (0, 0.5, 0),
        (2, 0.999999999999, 1),
    ],
)
def test_a_share_is_set_aside_rounded_down_and_one_row_stays(n_rows, share, n_held):
    spec = make_spec("a", np.arange(n_rows) * 3)
    held = hold_out(spec, share, seed=0)
    assert len(held.train_rows) == n_rows - n_held
    assert held.rows is spec.rows
    assert set(held.train_rows) <= set(spec.rows)
    assert (np.diff(held.train_rows) > 0).all()
    assert held.train_rows.dtype == np.int64


def test_the_draw_is_a_function_of_seed_and_key():
    def kept(key, seed, first=0):
        return hold_out(make_spec(key, first + np.arange(50)), 0.5, seed).train_rows - first

    np.testing.assert_array_equal(kept("a", 0), kept("a", 0, first=1000))
    assert not np.array_equal(kept("a", 0), kept("a", 1))
    assert not np.array_equal(kept("a", 0), kept("b", 0))


def test_every_row_is_set_aside_equally_often():
    held = np.zeros(10)
    for seed in range(600):
        spec = hold_out(make_spec("a", np.arange(10)), 0.3, seed)
        held[np.setdiff1d(spec.rows, spec.train_rows)] += 1
    # binomial(600, 0.3): standard deviation 11.2
    assert np.abs(held - 180).max() < 50


def test_all_clients_at_once():
    specs = [make_spec("a", [0, 2, 4, 6], 0), make_spec("b", [], 1), make_spec("c", [1, 3], 2)]
    held, rows, positions = hold_out_all(specs, 0.5, seed=0)
    assert [len(spec.train_rows) for spec in held] == [2, 0, 1]
    assert positions.tolist() == [0, 0, 2]
    for spec in held:
        own = rows[positions == spec.position]
        np.testing.assert_array_equal(np.sort(np.r_[own, spec.train_rows]), spec.rows)


def validation(codes, weights=None):
    return Validation(torch.zeros(len(codes), 1), np.array(codes), weights)


def test_log_loss_and_balanced_accuracy_by_hand():
    Q = np.array([[0.5, 0.25, 0.25], [0.5, 0.5, 0.0], [0.25, 0.5, 0.25], [0.125, 0.75, 0.125]])
    loss, score = validation([0, 0, 1, 0]).score(Q)
    assert loss == pytest.approx((2 * np.log(2) + np.log(2) + 3 * np.log(2)) / 4)
    assert score == pytest.approx((2 / 3 + 1) / 2)


def test_weights_count_as_repetition():
    Q = np.array([[0.8, 0.2], [0.3, 0.7], [0.6, 0.4]])
    weights = np.array([2.0, 1.0, 3.0])
    repeated = np.repeat(np.arange(3), [2, 1, 3])
    weighted = validation([0, 0, 1], weights).score(Q)
    assert weighted == pytest.approx(validation(np.array([0, 0, 1])[repeated]).score(Q[repeated]))


def test_a_class_may_be_missing_from_the_validation_rows():
    Q = np.array([[0.2, 0.2, 0.6], [0.1, 0.8, 0.1]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loss, score = validation([2, 2]).score(Q)
    assert loss == pytest.approx(-(np.log(0.6) + np.log(0.1)) / 2)
    assert score == 0.5
