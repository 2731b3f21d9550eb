"""Tables that are part of the package: bytes to checked frame, frame to Bunch."""

import hashlib
from importlib import resources
from io import BytesIO

import numpy as np
from sklearn.utils import Bunch

from fedrela_sk._optional import import_extra
from fedrela_sk.exceptions import DatasetError

# file in data/ -> sha256 of its bytes; the same numbers stand in data/README.md
SHA256 = {
    "fars.csv.gz": "74031c6994b0afa9daa250cb326d502398a78c015ae786e7d874cf634e7ca18d",
    "lending_club.csv.gz": "0c9ea096669a89e62fd4bcf9b5c5cd55f9869f74b06e32bb1d475c56ac2d91d6",
}


def data_folder():
    """Where the bundled files lie, also inside a zip archive."""
    return resources.files("fedrela_sk.datasets") / "data"


def read_checked(name):
    """Bytes of one bundled file, after comparing their sha256 with the one written down here."""
    path = data_folder() / name
    try:
        content = path.read_bytes()
    except FileNotFoundError as error:
        raise DatasetError(
            f"Bundled file {name} is missing at {path}. Install the package again: "
            "pip install --force-reinstall --no-deps fedrela_sk"
        ) from error
    got = hashlib.sha256(content).hexdigest()
    if got != SHA256[name]:
        raise DatasetError(
            f"Bundled file {name} is damaged: sha256 of {path} is {got}, expected {SHA256[name]}. "
            "Install the package again: pip install --force-reinstall --no-deps fedrela_sk"
        )
    return content


def read_table(name, caller, categories):
    """One bundled table as a data frame.

    Parameters
    ----------
    name : str
        File in data/.
    caller : str
        Public function that reads it, for the error where pandas is missing.
    categories : dict of str to (list of str or None)
        Categorical columns and the order of their categories; None means sorted.

    Returns
    -------
    table : DataFrame
        Text "NA" and the like stays text: these files have no missing cells.
    """
    pd = import_extra("pandas", caller)
    table = pd.read_csv(
        BytesIO(read_checked(name)),
        compression="gzip",
        keep_default_na=False,
        dtype=dict.fromkeys(categories, "category"),
    )
    ordered = {column: order for column, order in categories.items() if order is not None}
    return table.assign(**{column: table[column].cat.set_categories(ordered[column]) for column in ordered})


def table_bunch(table, *, label, group, target_names, description, as_frame):
    """The Bunch of a table whose other columns are all features.

    With `as_frame=False` a category becomes its position in `categories[column]`, as float64, and a
    missing value NaN.
    """
    features = table.drop(columns=[label, group])
    codes = {name: code for code, name in enumerate(target_names)}
    target = table[label].map(codes).astype(np.int64)
    categorical = [c for c in features if features[c].dtype == "category"]
    bunch = Bunch(
        data=features,
        target=target,
        groups=table[group],
        frame=features.assign(**{group: table[group], label: target}),
        feature_names=list(features.columns),
        target_names=list(target_names),
        categorical_features=categorical,
        categories={c: list(features[c].cat.categories) for c in categorical},
        DESCR=description,
    )
    return bunch if as_frame else _as_arrays(bunch)


def _as_arrays(bunch):
    """The same Bunch with NumPy arrays instead of pandas objects."""
    coded = bunch.data.copy()
    for column in bunch.categorical_features:
        codes = bunch.data[column].cat.codes
        coded[column] = codes.where(codes >= 0).astype(np.float64)  # code -1 stands for a missing value
    arrays = {
        "data": coded.to_numpy(dtype=np.float64),
        "target": bunch.target.to_numpy(),
        "groups": bunch.groups.to_numpy(dtype=str),
        "frame": None,
    }
    return Bunch(**{**bunch, **arrays})
