"""How much rows, classes and clients count."""

import numpy as np
import pytest

from fedrela_sk.federation._server import client_weights
from fedrela_sk.federation.clients._counts import check_class_weight, client_class_weights, total_weight

CLASSES = np.array(["a", "b", "c"])
SIZES = np.array([4.0, 0.0, 2.5])


def test_mass_counts_rows_or_their_weights():
    rows = np.array([0, 2])
    assert total_weight(rows, None) == 2.0
    assert total_weight(rows, np.array([0.5, 100.0, 0.25])) == 0.75
    assert total_weight(rows[:0], np.ones(3)) == 0.0


def test_no_class_weight_is_none():
    assert client_class_weights(None, np.array([1.0, 2.0, 3.0]), CLASSES) is None


def test_a_dictionary_gives_one_to_those_left_out():
    factors = client_class_weights({"b": 3, "a": 0.5}, np.array([1.0, 2.0, 0.0]), CLASSES)
    np.testing.assert_array_equal(factors, [0.5, 3.0, 1.0])


def test_balanced_uses_the_clients_own_counts_and_gives_absent_classes_nothing():
    factors = client_class_weights("balanced", np.array([6.0, 2.0, 0.0]), CLASSES)
    np.testing.assert_array_equal(factors, [8 / (2 * 6), 8 / (2 * 2), 0.0])
    np.testing.assert_array_equal(client_class_weights("balanced", np.array([0, 5.0, 0]), CLASSES), [0, 1, 0])


@pytest.mark.parametrize("class_weight", [None, "balanced", {"a": 0}, {"c": np.float32(2.5)}, {}])
def test_class_weights_that_are_fine(class_weight):
    check_class_weight(class_weight, CLASSES)


@pytest.mark.parametrize(
    ("class_weight", "message"),
    [
        ({"d": 1}, r"class_weight names 'd', which is not among the classes \['a', 'b', 'c'\]"),
        ({"a": -1}, r"class_weight\['a'\] must be a finite number >= 0, got -1"),
        ({"a": np.nan}, r"class_weight\['a'\] must be a finite number >= 0, got nan"),
        ({"b": "2"}, r"class_weight\['b'\] must be a finite number >= 0, got '2'"),
    ],
)
def test_class_weights_that_are_none(class_weight, message):
    with pytest.raises(ValueError, match=message):
        check_class_weight(class_weight, CLASSES)


@pytest.mark.parametrize(
    ("client_weight", "expected"),
    [
        ("size", [4.0, 0.0, 2.5]),
        ("uniform", [1.0, 1.0, 1.0]),
        ([1, 0, 2], [1.0, 0.0, 2.0]),
        (lambda sizes: np.sqrt(sizes), [2.0, 0.0, np.sqrt(2.5)]),
        (lambda sizes: (sizes > 3).tolist(), [1.0, 0.0, 0.0]),
    ],
)
def test_client_weights(client_weight, expected):
    weights = client_weights(client_weight, SIZES)
    np.testing.assert_array_equal(weights, expected)
    assert weights.dtype == np.float64


def test_a_callable_cannot_change_the_sizes():
    def greedy(sizes):
        sizes *= 0
        return sizes + 1

    client_weights(greedy, SIZES)
    np.testing.assert_array_equal(SIZES, [4.0, 0.0, 2.5])


@pytest.mark.parametrize(
    ("client_weight", "message"),
    [
        ([1, 2], r"one weight per client, shape \(3,\) in the order of client_names_; got shape \(2,\)"),
        (lambda sizes: 1.0, r"one weight per client, shape \(3,\).*got shape \(\)"),
        ([1, -2, 3], r"client_weight must be finite and >= 0, got -2.0 for client number 1"),
        ([1, 2, np.nan], r"client_weight must be finite and >= 0, got nan for client number 2"),
        ([np.inf, 2, 1], r"client_weight must be finite and >= 0, got inf for client number 0"),
    ],
)
def test_client_weights_that_are_none(client_weight, message):
    with pytest.raises(ValueError, match=message):
        client_weights(client_weight, SIZES)
