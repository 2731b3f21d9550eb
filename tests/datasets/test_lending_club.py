"""The loans: counts, types, both shapes of the answer, and the numbers in the documentation."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from fedrela_sk.datasets import _lending_club, load_lending_club

CATEGORICAL = ["term", "sub_grade", "verification_status", "emp_length"]


@pytest.fixture(scope="module")
def loans():
    return load_lending_club()


def test_rows_classes_and_states(loans):
    assert loans.data.shape == (9857, 21)
    assert loans.target_names == ["good", "bad"]
    assert loans.target.value_counts().to_dict() == {0: 9340, 1: 517}
    sizes = loans.groups.value_counts()
    assert (len(sizes), sizes.min(), sizes.max(), sizes.median()) == (50, 16, 1324, 121)
    assert (loans.target.groupby(loans.groups).sum() == 0).sum() == 7


def test_documentation_gives_these_numbers(loans):
    for text in (load_lending_club.__doc__, loans.DESCR):
        for number in ("9,857", "517", "5.2 %", "50 states", "645"):
            assert number in text
    for number in ("9,340", "18.1 to 1", "16 to 1,324 loans (median 121)", "7 states have none"):
        assert number in loans.DESCR
    assert round(100 * loans.target.mean(), 1) == 5.2
    assert round(9340 / 517, 1) == 18.1


def test_types(loans):
    assert loans.feature_names == list(loans.data.columns)
    assert loans.categorical_features == CATEGORICAL
    assert [c for c in loans.data if loans.data[c].dtype == "category"] == CATEGORICAL
    assert all(pd.api.types.is_numeric_dtype(loans.data[c]) for c in set(loans.data) - set(CATEGORICAL))
    assert loans.target.dtype == np.int64
    assert (loans.target.name, loans.groups.name) == ("Class", "addr_state")
    assert "Class" not in loans.data
    assert "addr_state" not in loans.data


def test_no_missing_cell_and_categories_in_order(loans):
    assert not loans.data.isna().any(axis=None)
    lengths = loans.categories["emp_length"]
    assert lengths[:2] == ["emp_lt_1", "emp_1"]
    assert lengths[-2:] == ["emp_ge_10", "emp_unk"]
    assert loans.categories["sub_grade"] == [f"{a}{k}" for a in "ABCDEFG" for k in range(1, 6)]
    assert all(set(loans.data[c]) == set(loans.categories[c]) for c in CATEGORICAL)


def test_unknown_employment_is_a_category_or_missing(loans):
    assert (loans.data["emp_length"] == "emp_unk").sum() == 645
    missing = load_lending_club(unknown="nan")
    assert missing.data.isna().sum().to_dict() == {c: 645 * (c == "emp_length") for c in loans.feature_names}
    assert "emp_unk" not in missing.categories["emp_length"]


def test_frame_holds_everything(loans):
    pd.testing.assert_frame_equal(loans.frame[loans.feature_names], loans.data)
    pd.testing.assert_series_equal(loans.frame["Class"], loans.target)
    pd.testing.assert_series_equal(loans.frame["addr_state"], loans.groups)
    assert loans.frame.shape == (9857, 23)


def test_arrays_hold_the_same(loans):
    arrays = load_lending_club(as_frame=False, unknown="nan")
    assert arrays.frame is None
    assert arrays.data.dtype == np.float64
    numeric = [c for c in loans.feature_names if c not in CATEGORICAL]
    columns = [loans.feature_names.index(c) for c in numeric]
    np.testing.assert_array_equal(arrays.data[:, columns], loans.data[numeric].to_numpy(dtype=float))
    np.testing.assert_array_equal(arrays.target, loans.target)
    np.testing.assert_array_equal(arrays.groups, loans.groups)
    assert arrays.groups.dtype.kind == "U"
    code = arrays.data[:, loans.feature_names.index("emp_length")]
    known = ~np.isnan(code)
    assert (~known).sum() == 645
    names = np.array(arrays.categories["emp_length"])[code[known].astype(int)]
    np.testing.assert_array_equal(names, loans.data["emp_length"][known])


@pytest.mark.parametrize(("as_frame", "kind"), [(True, pd.DataFrame), (False, np.ndarray)])
def test_return_X_y(as_frame, kind, loans):
    X, y = load_lending_club(return_X_y=True, as_frame=as_frame)
    assert isinstance(X, kind)
    assert X.shape == (9857, 21)
    np.testing.assert_array_equal(y, loans.target)


def test_bad_loans_can_be_told_apart(loans):
    # boosting with balanced weights reached an AUC of 0.74 on such a split; a shuffled column of labels gives 0.5
    X, X_test, y, y_test = train_test_split(
        loans.data, loans.target, test_size=0.3, stratify=loans.target, random_state=0
    )
    boosting = HistGradientBoostingClassifier(
        max_iter=40, class_weight="balanced", categorical_features="from_dtype", random_state=0
    )
    auc = roc_auc_score(y_test, boosting.fit(X, y).predict_proba(X_test)[:, 1])
    assert 0.70 < auc < 0.80


def test_description_is_the_module(loans):
    assert loans.DESCR is _lending_club.__doc__
