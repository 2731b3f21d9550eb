"""Labels of any kind: encoded at the boundary, given back as they came."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import StandardScaler

from fedrela_sk import FedReLaRelabeler
from fedrela_sk.exceptions import LabelError
from tests.federation.helpers import assert_same_weights, make_fed, make_net, make_rows

X, CODES = make_rows(90)
THREE = {
    "strings": np.array(["alpha", "beta", "gamma"]),
    "gaps": np.array([5, 7, 11]),
    "negatives": np.array([-3, -1, 2]),
    "int8": np.array([-3, -1, 2], dtype=np.int8),
    "uint64": np.array([1, 2, 2**63], dtype=np.uint64),
    "whole floats": np.array([0.0, 1.0, 2.0]),
    "objects": np.array(["a", "bb", "ccc"], dtype=object),
    "object integers": np.array([3, 5, 9], dtype=object),
}
TWO = {"bools": np.array([False, True]), "object bools": np.array([False, True], dtype=object)}


def fit(y, **params):
    n_classes = 3 if y is None else len(pd.unique(np.ravel(np.asarray(y, dtype=object))))
    net = make_net(module__n_classes=n_classes)
    return make_fed(net, relabeler=FedReLaRelabeler(0.3), n_rounds=4, **params).fit(X, y)


def check_round_trip(fed, y, classes):
    if y.dtype == object and not isinstance(y[0], str):  # integers and booleans are NumPy's
        y, classes = np.array(y.tolist()), np.array(classes.tolist())
    np.testing.assert_array_equal(fed.classes_, classes)
    assert fed.classes_.dtype == classes.dtype
    predicted = fed.predict(X)
    assert predicted.dtype == classes.dtype
    assert set(predicted.tolist()) <= set(classes.tolist())
    assert len(set(predicted.tolist())) > 1
    assert fed.y_relabeled_.dtype == y.dtype
    assert fed.relabeled_mask_.dtype == bool
    np.testing.assert_array_equal(fed.relabeled_mask_, fed.y_relabeled_ != y)
    assert fed.relabeled_mask_.any()
    report = fed.relabel_report()
    assert report.old.dtype == report.new.dtype == y.dtype
    np.testing.assert_array_equal(np.sort(report.row), np.flatnonzero(fed.relabeled_mask_))
    assert 0 <= fed.score(X, y) <= 1


@pytest.mark.parametrize("kind", THREE)
def test_three_classes_of_any_kind_are_the_same_fit(kind):
    classes, reference = THREE[kind], fit(CODES)
    y = classes[CODES]
    before = y.copy()
    fed = fit(y)
    check_round_trip(fed, y, classes)
    np.testing.assert_array_equal(y, before)
    assert_same_weights(fed, reference)
    np.testing.assert_array_equal(fed.relabeled_mask_, reference.relabeled_mask_)
    np.testing.assert_array_equal(fed.predict(X), classes[reference.predict(X)])


@pytest.mark.parametrize("kind", TWO)
def test_two_classes_of_any_kind_are_the_same_fit(kind):
    classes, codes = TWO[kind], (CODES > 0).astype(int)
    fed = fit(classes[codes])
    check_round_trip(fed, classes[codes], classes)
    assert_same_weights(fed, fit(codes))


@pytest.mark.parametrize(
    "y",
    [
        pd.Series(CODES, dtype="Int64"),
        pd.Series(CODES, dtype="int8"),
        pd.Series(THREE["strings"][CODES], dtype="category"),
        pd.Series(THREE["strings"][CODES], dtype="string"),
        pd.Series(CODES > 0, dtype="boolean"),
        pd.Series(CODES, index=np.arange(90)[::-1]),
        CODES.tolist(),
        THREE["strings"][CODES].tolist(),
    ],
    ids=["Int64", "int8", "category", "string", "boolean", "index", "list", "list of str"],
)
def test_labels_in_containers(y):
    fed = fit(y)
    flat = np.asarray(y)
    np.testing.assert_array_equal(fed.classes_, np.unique(flat))
    assert fed.y_relabeled_.dtype == fed.classes_.dtype == np.unique(flat).dtype
    assert_same_weights(fed, fit(np.searchsorted(fed.classes_, flat)))


def test_a_column_of_labels_works_with_scikit_learns_warning():
    from sklearn.exceptions import DataConversionWarning

    with pytest.warns(DataConversionWarning):
        fed = fit(CODES[:, None])
    assert_same_weights(fed, fit(CODES))


def test_names_of_other_length_than_the_old_ones_are_not_cut():
    classes = np.array(["a", "much longer"])
    fed = fit(classes[(CODES > 0).astype(int)])
    assert set(fed.y_relabeled_.tolist()) == set(classes.tolist())


@pytest.mark.parametrize(
    ("y", "error", "message"),
    [
        (np.zeros(90), LabelError, r"y has one class only, 0.0.*at least two classes"),
        (np.linspace(0, 1, 90), ValueError, "Unknown label type: continuous"),
        (np.linspace(0, 1, 90).astype(object), ValueError, "Unknown label type: continuous"),
        (np.array([b"a", b"b"] * 45), TypeError, "Support for labels represented as bytes is not supported"),
        (np.where(CODES > 0, np.nan, 1.0), ValueError, "Input y contains NaN"),
        (
            np.array(["a", None] * 45, dtype=object),
            LabelError,
            r"the label of row 1 is missing, got None",
        ),
        (np.stack([CODES, CODES], 1), ValueError, r"y should be a 1d array, got an array of shape \(90, 2\)"),
        (CODES[:50], ValueError, r"inconsistent numbers of samples: \[90, 50\]"),
        (None, ValueError, "requires y to be passed, but the target y is None"),
    ],
)
def test_labels_that_are_none(y, error, message):
    with pytest.raises(error, match=message):
        fit(y)


@pytest.mark.parametrize("clients", [3, None])
def test_a_class_may_be_missing_anywhere(clients):
    """From a client, the validation rows, the chunk of a round, the rows that are predicted."""
    y = np.zeros(90, dtype=int)
    y[10:20], y[3] = 1, 2  # one row of class 2 in all
    groups = None if clients else np.arange(90) // 30
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fed = make_fed(
            clients=clients,
            relabeler=FedReLaRelabeler(0.3),
            class_weight="balanced",
            validation=0.2,
            participation=0.3,
            n_rounds=6,
        ).fit(X, y, groups=groups)
        Q = fed.predict_proba(X[y == 0])
    assert Q.shape == (79, 3)
    np.testing.assert_allclose(Q.sum(1), 1, rtol=1e-12)
    assert np.isfinite(fed.history_.column("valid_score")).all()
    assert fed.class_count_.sum() == 90 - 18


def test_columns_follow_classes():
    order = np.array([2, 0, 1])  # "c" < "d" < "e": class 1 comes first, then class 2, then class 0
    names = np.array(["e", "c", "d"])
    fed, reference = fit(names[CODES]), fit(CODES)
    scaled = StandardScaler().fit_transform(X)  # other rows than those of fit
    assert fed.classes_.tolist() == ["c", "d", "e"]
    back = fed.predict_proba(scaled)[:, order]
    # initial weights are drawn for columns, not for names: only the order of columns is compared
    assert back.shape == reference.predict_proba(scaled).shape
    np.testing.assert_array_equal(names[back.argmax(1)], fed.classes_[fed.predict_proba(scaled).argmax(1)])
