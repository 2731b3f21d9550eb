"""Posteriors adjusted after training."""

import numpy as np
import pytest
from scipy.special import softmax

from fedrela_sk.exceptions import PosteriorError
from fedrela_sk.losses import adjust_posteriors

COUNTS = [1000, 100, 10]
POSTERIORS = np.random.default_rng(0).dirichlet([1, 1, 1], size=20)


def test_it_is_the_softmax_of_adjusted_logits():
    adjusted = [2.104360, 3.406945, 4.709530]
    (row,) = adjust_posteriors(softmax([[2.0, 1.0, 0.0]], axis=1), COUNTS)
    np.testing.assert_allclose(row, softmax(adjusted), rtol=0, atol=5e-7)
    assert row.argmax() == 2


@pytest.mark.parametrize("tau", [0.0, 0.5, 1.0, 3.0])
def test_it_is_q_over_a_power_of_pi(tau):
    expected = POSTERIORS / (np.array(COUNTS) / 1110) ** tau
    expected /= expected.sum(1, keepdims=True)
    given = POSTERIORS.copy()
    answer = adjust_posteriors(given, COUNTS, tau)
    np.testing.assert_allclose(answer, expected, rtol=1e-13)
    np.testing.assert_allclose(answer.sum(1), 1, rtol=0, atol=1e-15)
    np.testing.assert_array_equal(answer.argmax(1), expected.argmax(1))
    np.testing.assert_array_equal(given, POSTERIORS)


def test_neutral_settings_return_the_posteriors():
    np.testing.assert_allclose(adjust_posteriors(POSTERIORS, COUNTS, tau=0), POSTERIORS, rtol=1e-14)
    np.testing.assert_allclose(adjust_posteriors(POSTERIORS, [7, 7, 7], tau=2), POSTERIORS, rtol=1e-14)


def test_the_unit_of_counts_does_not_matter():
    shares = np.array(COUNTS) / 1110
    np.testing.assert_allclose(adjust_posteriors(POSTERIORS, COUNTS), adjust_posteriors(POSTERIORS, shares))


def test_zeros_stay_and_certain_rows_stay_certain():
    rows = [[0.0, 0.5, 0.5], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    answer = adjust_posteriors(rows, COUNTS, tau=1.0)
    np.testing.assert_allclose(answer[0], [0, 1 / 11, 10 / 11], rtol=1e-15)
    assert answer[0, 0] == 0
    assert answer[1:].tolist() == rows[1:]


def test_a_strong_tau_neither_overflows_nor_loses_a_row():
    answer = adjust_posteriors([[1.0, 0.0, 0.0], [0.5, 0.25, 0.25]], COUNTS, tau=1000.0)
    assert answer.tolist() == [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]


def test_an_absent_class_counts_as_the_rarest_present_one():
    answer = adjust_posteriors(POSTERIORS, [1000, 0, 10])
    np.testing.assert_allclose(answer, adjust_posteriors(POSTERIORS, [1000, 10, 10]), rtol=1e-15)


def test_a_rounding_below_zero_counts_as_zero():
    assert adjust_posteriors([[-1e-9, 1 + 1e-9]], [9, 1]).tolist() == [[0.0, 1.0]]


def test_one_column_is_the_second_class():
    np.testing.assert_allclose(adjust_posteriors([[0.1]], [90, 10]), [[0.5, 0.5]], rtol=1e-14)


def test_single_precision_is_answered_in_double():
    assert adjust_posteriors(POSTERIORS.astype(np.float32), COUNTS).dtype == np.float64


def test_what_is_refused():
    with pytest.raises(ValueError, match="counts have 2 classes, but there are 3 columns"):
        adjust_posteriors(POSTERIORS, [3, 1])
    with pytest.raises(ValueError, match="tau must be a finite number of at least 0, got -1"):
        adjust_posteriors(POSTERIORS, COUNTS, tau=-1)
    with pytest.raises(PosteriorError, match="Row 0 of posteriors sums to 3"):
        adjust_posteriors([[1.0, 1.0, 1.0]], COUNTS)
