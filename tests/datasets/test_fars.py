"""The crashes: counts, residual classes, codes that say "unknown", and the numbers in the documentation."""

import numpy as np
import pandas as pd
import pytest

from fedrela_sk.datasets import _fars, load_fars

COUNTS = {
    "No_Injury": 20007,
    "Possible_Injury": 8674,
    "Nonincapaciting_Evident_Injury": 13890,
    "Incapaciting_Injury": 15072,
    "Fatal_Injury": 42116,
    "Injured_Severity_Unknown": 299,
    "Unknown": 901,
    "Died_Prior_to_Accident": 9,
}
MISSING = {
    "AGE": 2552,
    "ALCOHOL_TEST_RESULT": 69193,
    "DRUG_TEST_RESULTS_(1_of_3)": 18759,
    "DRUG_TEST_RESULTS_(2_of_3)": 9258,
    "DRUG_TEST_RESULTS_(3_of_3)": 9258,
}


@pytest.fixture(scope="module")
def crashes():
    return load_fars()


@pytest.fixture(scope="module")
def with_residual():
    return load_fars(residual=True, unknown="nan")


def named_counts(bunch):
    counts = bunch.target.value_counts()
    return {name: int(counts[code]) for code, name in enumerate(bunch.target_names)}


def test_rows_classes_and_states(crashes):
    assert crashes.data.shape == (99759, 26)
    assert named_counts(crashes) == dict(list(COUNTS.items())[:5])
    sizes = crashes.groups.value_counts()
    assert (len(sizes), sizes.min(), sizes.max()) == (51, 186, 9987)
    assert list(crashes.data.index) == list(range(99759))


def test_residual_classes_on_request(with_residual, crashes):
    assert with_residual.data.shape == (100968, 26)
    assert named_counts(with_residual) == COUNTS
    sizes = with_residual.groups.value_counts()
    assert (len(sizes), sizes.min(), sizes.max()) == (51, 190, 10151)
    kept = with_residual.target < 5
    np.testing.assert_array_equal(with_residual.target[kept], crashes.target)
    np.testing.assert_array_equal(with_residual.groups[kept], crashes.groups)
    assert with_residual.categories == crashes.categories


def test_documentation_gives_these_numbers(crashes, with_residual):
    table = with_residual.DESCR
    for code, (name, count) in enumerate(COUNTS.items()):
        assert f"{code}     {name.ljust(33)}{count:,}\n" in table
    for number in (
        "100,968 persons",
        "99,759 rows",
        "26 features (21 categorical)",
        "51 states",
        "4,679.6 to 1",
    ):
        assert number in table
    for number in ("2,552", "69,193", "18,759, 9,258 and 9,258", "186 to 9,987", "190 to 10,151"):
        assert number in table
    assert "4.9 to\n1" in table
    assert round(42116 / 8674, 1) == 4.9
    assert round(42116 / 9, 1) == 4679.6
    cells = pd.crosstab(with_residual.groups, with_residual.target)
    assert f"{(cells == 0).any(axis=1).sum()} states lack at least one class" in table
    killed = pd.crosstab(crashes.groups, crashes.target, normalize="index")[4]
    assert f"{100 * killed.min():.0f} to {100 * killed.max():.0f} % of them were" in table
    for number in ("99,759 persons", "1,209 rows", "299", "901", "100,968 rows, 8 classes"):
        assert number in load_fars.__doc__


def test_types(crashes):
    assert len(crashes.categorical_features) == 21
    assert [c for c in crashes.data if crashes.data[c].dtype == "category"] == crashes.categorical_features
    assert {c for c in crashes.data if crashes.data[c].dtype == np.int64} == set(MISSING)
    assert crashes.target.dtype == np.int64
    assert (crashes.target.name, crashes.groups.name) == ("INJURY_SEVERITY", "CASE_STATE")
    assert crashes.frame.shape == (99759, 28)


def test_outcome_is_not_among_the_features(crashes):
    assert not {"INJURY_SEVERITY", "CASE_STATE", "HISPANIC_ORIGIN", "RACE"} & set(crashes.data)


def test_codes_for_unknown_stay_by_default(crashes):
    assert not crashes.data.isna().any(axis=None)
    assert crashes.data["AGE"].max() == 99
    assert crashes.data["ALCOHOL_TEST_RESULT"].max() == 99
    assert crashes.data["DRUG_TEST_RESULTS_(1_of_3)"].max() == 999


def test_codes_for_unknown_become_missing_on_request(with_residual):
    missing = with_residual.data.isna().sum()
    assert missing[missing > 0].to_dict() == MISSING
    assert with_residual.data["AGE"].max() == 97  # 97 or older: known
    assert with_residual.data["ALCOHOL_TEST_RESULT"].max() == 81  # hundredths of g/dl
    assert with_residual.data["DRUG_TEST_RESULTS_(1_of_3)"].max() == 998  # a drug was found


def test_codes_agree_with_the_columns_that_say_why(crashes):
    alcohol, drugs = crashes.data["ALCOHOL_TEST_RESULT"], crashes.data["DRUG_TEST_RESULTS_(1_of_3)"]
    not_tested = crashes.data["ALCOHOL_TEST_TYPE"] == "Not_Tested_for_Alcohol"
    assert (alcohol.isin([95, 96]) == not_tested).all()
    drug_type = crashes.data["DRUG_TEST_TYPE_(1_of_3)"]
    assert ((drugs == 0) == (drug_type == "Not_Tested_for_Drugs")).all()
    unknown = drug_type == "Unknown_if_Tested_for_Drugs"
    assert (drugs[unknown] != 999).sum() == 1  # of 15,497
    assert unknown[drugs == 997].sum() == 0  # tested, result unknown


def test_arrays_hold_the_same(crashes):
    X, y = load_fars(return_X_y=True, as_frame=False)
    assert X.dtype == np.float64
    np.testing.assert_array_equal(y, crashes.target)
    for column in ("AGE", "SEX"):
        got = X[:, crashes.feature_names.index(column)]
        values = crashes.data[column]
        np.testing.assert_array_equal(got, values.cat.codes if column == "SEX" else values)


def test_description_is_the_module(crashes):
    assert crashes.DESCR is _fars.__doc__
