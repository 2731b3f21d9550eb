"""Real card payments of two days in September 2013 by European card holders (ULB and Worldline).

284,807 payments, 492 of them frauds (0.173 %, 577 to 1). 29 numeric features: V1 to V28, the principal
components of features that are not published, and Amount; no time column on OpenML. No natural clients:
cut it with a splitter of `fedrela_sk.splitters`, or take `make_payments`, whose clients are banks.

Source: OpenML data set 1597 ("creditcard", version 1). Cite Dal Pozzolo, Caelen, Johnson, Bontempi,
"Calibrating Probability with Undersampling for Unbalanced Classification", CIDM 2015. License: usually given
as Open Database License; the data are fetched, not part of the package.
"""

from os import PathLike
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from fedrela_sk._sklearn import validate_params
from fedrela_sk._typing import AnyPath
from fedrela_sk.datasets._openml import fetch
from fedrela_sk.exceptions import DatasetError

DATA_ID, N_ROWS, N_FRAUDS = 1597, 284_807, 492
_REMEDY = "or use make_payments, which simulates card payments and needs no network."


@validate_params(
    {"data_home": [str, PathLike, None], "return_X_y": ["boolean"], "as_frame": ["boolean"]},
    prefer_skip_nested_validation=True,
)
def fetch_creditcard(
    *, data_home: AnyPath | None = None, return_X_y: bool = False, as_frame: bool = True
) -> Any:
    """Fetch 284,807 real card payments, 492 of them frauds, from OpenML (data set 1597).

    Parameters
    ----------
    data_home : str or path-like, default=None
        Where scikit-learn keeps its copy; None is `sklearn.datasets.get_data_home()`.
    return_X_y : bool, default=False
        Return `(data, target)` instead of the Bunch.
    as_frame : bool, default=True
        False gives NumPy arrays. pandas is needed either way.

    Returns
    -------
    bunch : Bunch
        data : DataFrame of shape (284807, 29), float; V1 to V28 and Amount.
        target : Series of int, 1 = fraud.
        amount : Series of float; what a missed fraud costs.
        frame : data and target in one DataFrame (None if not `as_frame`).
        feature_names, target_names : lists of str.
        DESCR : str.

    Raises
    ------
    ImportError
        If pandas is missing.
    DatasetError
        If OpenML cannot be reached, or what it sent is not these 284,807 payments and 492 frauds.
    """
    fetched = fetch(
        DATA_ID, "fetch_creditcard", n_rows=N_ROWS, data_home=data_home, remedy=_REMEDY, as_frame=True
    )
    data = fetched.data.astype(np.float64)
    labels = fetched.target.astype("category").cat  # text, in quotes with some parsers
    target = labels.rename_categories(lambda label: int(str(label).strip("'"))).astype(np.int64)
    if target.sum() != N_FRAUDS:
        raise DatasetError(
            f"Data set {DATA_ID} of OpenML has {target.sum()} frauds, expected {N_FRAUDS}: it was changed, or "
            f"the copy is damaged. Remove scikit-learn's copy (sklearn.datasets.clear_data_home); {_REMEDY}"
        )
    bunch = Bunch(
        data=data if as_frame else data.to_numpy(),
        target=target if as_frame else target.to_numpy(),
        amount=data["Amount"] if as_frame else data["Amount"].to_numpy(),
        frame=data.assign(**{target.name: target}) if as_frame else None,
        feature_names=list(data.columns),
        target_names=["genuine", "fraud"],
        DESCR=__doc__,
    )
    return (bunch.data, bunch.target) if return_X_y else bunch
