"""Where arrays become tensors: labels of any kind, numbers of any dtype, errors that name the row."""

import warnings

import numpy as np
import pandas as pd
import pytest
import torch

from fedrela_sk.exceptions import LabelError, NotFiniteError
from fedrela_sk.federation.setup._inputs import (
    check_finite,
    check_row_weights,
    codes_of,
    encode_labels,
    to_tensor,
)
from tests.federation.helpers import Logits, make_net, make_spec

OWNERS = [make_spec("north", [0, 2], 0), make_spec("south", [1, 3], 1)]


@pytest.fixture(scope="module")
def net32():
    return make_net(Logits, module__dtype=torch.float32).initialize()


@pytest.fixture(scope="module")
def net64():
    return make_net(Logits, module__dtype=torch.float64).initialize()


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (["b", "a", "b"], ["a", "b"]),
        ([7, 5, 7], [5, 7]),
        ([-1, 1, -1], [-1, 1]),
        ([True, False, True], [False, True]),
        ([1.0, 0.0, 2.0], [0.0, 1.0, 2.0]),
        (np.array(["x", "y", "x"], dtype=object), ["x", "y"]),
        (pd.Series(["u", "v", "u"], dtype="category"), ["u", "v"]),
    ],
)
def test_labels_become_positions_in_the_sorted_classes(labels, classes):
    encoded = encode_labels(labels)
    assert encoded.classes.tolist() == classes
    assert encoded.codes.dtype == np.int64
    np.testing.assert_array_equal(encoded.classes[encoded.codes], np.asarray(labels))


def test_one_class_is_refused():
    with pytest.raises(LabelError, match=r"y has one class only, 'a'.*at least two classes"):
        encode_labels(["a", "a"])


def test_labels_of_mixed_kinds_are_refused():
    with pytest.raises(LabelError, match=r"make them one type, got \['int', 'str'\]"):
        encode_labels(np.array(["a", 1, "a"], dtype=object))


def test_a_continuous_target_is_refused():
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        encode_labels([0.1, 0.2, 0.3])


def test_codes_of_known_labels():
    np.testing.assert_array_equal(codes_of(["b", "a"], np.array(["a", "b"]), "y_val"), [1, 0])
    np.testing.assert_array_equal(codes_of([[7], [5]], np.array([5, 7]), "y_val"), [1, 0])
    np.testing.assert_array_equal(codes_of([5.0], np.array([5, 7]), "y_val"), [0])
    assert codes_of([], np.array([5, 7]), "y_val").dtype == np.int64


@pytest.mark.parametrize(("labels", "classes"), [(["a", "z"], ["a", "b"]), (["1", 2], ["1", "2"])])
def test_an_unknown_label_is_named(labels, classes):
    labels = np.array(labels, dtype=object)
    with pytest.raises(
        LabelError, match=rf"y_val has the label {labels[1]!r} in row 1.*not among the classes"
    ):
        codes_of(labels, np.array(classes), "y_val")


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8, np.uint16, bool])
def test_finite_numbers_come_back_as_they_are(dtype):
    X = np.ones((4, 2), dtype=dtype)
    assert check_finite(X) is X


def test_sums_that_overflow_are_no_infinities():
    X = np.full((4, 2), 1e308)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert check_finite(X) is X


@pytest.mark.parametrize(
    ("value", "word"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")], ids=str
)
@pytest.mark.parametrize("shape", [(4, 3), (4, 1, 3, 3)])
def test_a_number_that_is_not_finite_is_named_with_its_client(value, word, shape):
    X = np.zeros(shape)
    X[2].flat[1] = value
    X[3].flat[0] = value
    message = rf"Input X contains {word} in row 2 \(client 'north'\); 2 rows are affected. Impute"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(NotFiniteError, match=message):
            check_finite(X, OWNERS)
        with pytest.raises(NotFiniteError, match=rf"Input X_val contains {word} in row 2;"):
            check_finite(X, what="X_val")


def test_both_infinities_are_found():
    X = np.array([[np.inf, -np.inf], [0.0, 0.0]])
    with pytest.raises(NotFiniteError, match="infinity in row 0"):
        check_finite(X)


@pytest.mark.parametrize(
    "dtype", [np.float16, np.float32, np.float64, np.longdouble, np.int64, np.uint8, bool, ">f8"]
)
def test_numbers_of_any_dtype_become_the_modules(dtype, net32, net64):
    X = np.array([[1, 0, 1], [0, 1, 1]]).astype(dtype)
    for net, expected in ((net32, torch.float32), (net64, torch.float64)):
        tensor = to_tensor(X, net)
        assert tensor.dtype == expected
        np.testing.assert_array_equal(tensor.numpy(), X.astype(np.float64))


def test_arrays_of_any_layout(net64):
    X = np.arange(24, dtype=np.float64).reshape(8, 3)
    for view in (X[::-1], X[:, ::-1], np.asfortranarray(X), X[::2]):
        np.testing.assert_array_equal(to_tensor(view, net64).numpy(), view)


def test_arrays_that_may_not_be_written_raise_no_warning(net64):
    X = np.ones((3, 3))
    X.setflags(write=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        to_tensor(X, net64)


@pytest.mark.parametrize("value", [1e39, -1e300])
def test_numbers_too_large_for_the_module_are_named(value, net32, net64):
    X = np.zeros((4, 3))
    X[3, 1] = value
    assert to_tensor(X, net64)[3, 1] == value
    message = (
        r"Input X has a number in row 3 \(client 'south'\) that is too large for .*got 1e\+(39|300)\. Scale"
    )
    with pytest.raises(NotFiniteError, match=message):
        to_tensor(X, net32, OWNERS)


def test_a_sum_that_overflows_in_the_modules_dtype_is_fine(net32):
    assert torch.isfinite(to_tensor(np.full((10, 3), 3e38), net32)).all()


def test_row_weights():
    X = np.zeros((3, 2))
    assert check_row_weights(None, X) is None
    assert check_row_weights([1, 1, 1], X) is None
    weights = check_row_weights([1, 2, 0], X)
    np.testing.assert_array_equal(weights, [1.0, 2.0, 0.0])
    assert weights.dtype == np.float64
    np.testing.assert_array_equal(check_row_weights(0.5, X), [0.5, 0.5, 0.5])


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([0, 0, 0], "at least one non-zero"),
        ([1, -1, 1], "[Nn]egative"),
        ([1, np.nan, 1], "NaN"),
        ([1, 1], r"\(2,\)"),
    ],
)
def test_row_weights_that_are_none(weights, message):
    with pytest.raises(ValueError, match=message):
        check_row_weights(weights, np.zeros((3, 2)))
