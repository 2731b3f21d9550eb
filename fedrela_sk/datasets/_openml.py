"""Fetching from OpenML through scikit-learn, with errors that say what to do without a network."""

import sklearn.datasets

from fedrela_sk._optional import import_extra
from fedrela_sk.exceptions import DatasetError


def fetch(data_id, caller, *, n_rows, data_home, remedy, **options):
    """One data set of OpenML by its number; scikit-learn keeps a copy in `data_home`.

    Parameters
    ----------
    data_id, n_rows : int
        Number on OpenML, and the rows it must have.
    caller : str
        Public function, for the errors.
    data_home : str, path-like or None
    remedy : str
        What a user without a network can do instead; ends the error.
    **options
        Passed on to `sklearn.datasets.fetch_openml`.

    Raises
    ------
    DatasetError
        If OpenML cannot be reached, or what it sent has another number of rows.
    """
    import_extra("pandas", caller)
    try:
        bunch = sklearn.datasets.fetch_openml(data_id=data_id, data_home=data_home, **options)
    except OSError as error:
        raise DatasetError(
            f"{caller} could not get data set {data_id} from OpenML ({type(error).__name__}: {error}). "
            "Run it once where there is a network and pass the folder of scikit-learn's copy as data_home; "
            f"{remedy}"
        ) from error
    if len(bunch.data) != n_rows:
        raise DatasetError(
            f"Data set {data_id} of OpenML has {len(bunch.data)} rows, expected {n_rows}: it was changed, or "
            f"the copy is damaged. Remove scikit-learn's copy (sklearn.datasets.clear_data_home); {remedy}"
        )
    return bunch
