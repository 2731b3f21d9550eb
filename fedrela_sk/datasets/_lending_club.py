"""Loans of the US lending platform LendingClub: which ones go bad?

9,857 loans, 9,340 good and 517 bad (5.2 %, 18.1 to 1): charged off, in default or 21-120 days late. 21
features, of which 4 are categorical; no missing cells. Natural clients are the 50 states (`addr_state`) with
16 to 1,324 loans (median 121); the share of bad loans differs, and 7 states have none.

emp_length (years in the job) has the category "emp_unk" (unknown) in 645 rows, a category of its own
unless `unknown="nan"`. sub_grade and int_rate are set by the platform when it grants the loan, so they
already hold its own opinion of the risk.

Source: data set lending_club of the R package modeldata 1.1.0. License: MIT.
"""

from typing import Any, Literal

from fedrela_sk._sklearn import StrOptions, validate_params
from fedrela_sk.datasets._bundled import read_table, table_bunch

UNKNOWN_LENGTH = "emp_unk"

_CATEGORIES = {
    "term": None,
    "sub_grade": None,
    "verification_status": ["Not_Verified", "Source_Verified", "Verified"],
    "emp_length": ["emp_lt_1", *(f"emp_{k}" for k in range(1, 10)), "emp_ge_10", UNKNOWN_LENGTH],
}


@validate_params(
    {"return_X_y": ["boolean"], "as_frame": ["boolean"], "unknown": [StrOptions({"code", "nan"})]},
    prefer_skip_nested_validation=True,
)
def load_lending_club(
    *, return_X_y: bool = False, as_frame: bool = True, unknown: Literal["code", "nan"] = "code"
) -> Any:
    """Load 9,857 real loans from 50 states, 517 of them (5.2 %) bad.

    Parameters
    ----------
    return_X_y : bool, default=False
        Return `(data, target)` instead of the Bunch. The states are only in the Bunch.
    as_frame : bool, default=True
        False gives NumPy arrays; a category is then its position in `categories[column]`. pandas is needed
        either way.
    unknown : {"code", "nan"}, default="code"
        What an unknown length of employment (645 rows) is: the category "emp_unk", or a missing value.
        The default leaves no missing cell, and keeps "unknown" as the signal it may be.

    Returns
    -------
    bunch : Bunch
        data : DataFrame of shape (9857, 21); 17 numeric columns and 4 of category dtype.
        target : Series of int, 0 = good, 1 = bad.
        groups : Series of str, the state of each loan (50).
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
    >>> from fedrela_sk.datasets import load_lending_club
    >>> loans = load_lending_club()
    >>> loans.data.shape, int(loans.target.sum()), loans.groups.nunique()
    ((9857, 21), 517, 50)
    """
    table = read_table("lending_club.csv.gz", "load_lending_club", _CATEGORIES)
    if unknown == "nan":
        table["emp_length"] = table["emp_length"].cat.remove_categories(UNKNOWN_LENGTH)
    bunch = table_bunch(
        table,
        label="Class",
        group="addr_state",
        target_names=["good", "bad"],
        description=__doc__,
        as_frame=as_frame,
    )
    return (bunch.data, bunch.target) if return_X_y else bunch
