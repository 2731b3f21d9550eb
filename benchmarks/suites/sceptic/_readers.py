"""Raw tables of the data folder (environment variable ``FEDRELA_SK_DATA``), and what is done to rare classes."""

import os
from pathlib import Path

import numpy as np
import pandas as pd

OTHER = "other"


def folder():
    """The data folder.

    Raises
    ------
    FileNotFoundError
        ``FEDRELA_SK_DATA`` is not set.
    """
    if "FEDRELA_SK_DATA" not in os.environ:
        raise FileNotFoundError(
            "This set is read from the data folder: set the environment variable FEDRELA_SK_DATA to it, or choose "
            "others with --only loans, --only fars or --only payments."
        )
    return Path(os.environ["FEDRELA_SK_DATA"])


def read_table(name, label):
    """(features, labels as str) of one table with a header."""
    frame = pd.read_csv(folder() / "tabular" / f"{name}.csv.gz")
    return frame.drop(columns=label), frame[label].astype(str).to_numpy()


def read_kddcup():
    """(features, labels as str) of the distinct rows of KDD Cup 1999, ten per cent."""
    path = folder() / "tabular" / "kddcup.data_10_percent.gz"
    frame = pd.read_csv(path, header=None).drop_duplicates().reset_index(drop=True)
    labels = frame.pop(41).str.rstrip(".").to_numpy(dtype=str)
    frame.columns = [f"column {name}" for name in frame]
    frame = frame.astype({f"column {k}": "category" for k in (1, 2, 3)})
    return frame, labels


def read_fraud():
    """The arrays of the five weeks of card payments, by name."""
    with np.load(folder() / "fraud" / "fraud_handbook_2018-07-11_2018-08-14.npz") as arrays:
        return {name: arrays[name] for name in arrays.files}


def merge_rare(labels, n_min):
    """Classes with fewer than `n_min` rows become one, "other"; where that is too small as well, it is dropped.

    Parameters
    ----------
    labels : ndarray of shape (n_rows,), str
    n_min : int

    Returns
    -------
    kept : ndarray of int
        Rows that stay.
    merged : ndarray of shape (len(kept),), str
        Their classes.
    said : str
        What was done, for the report; empty if nothing.
    """
    names, counts = np.unique(labels, return_counts=True)
    rare = names[counts < n_min]
    if not len(rare):
        return np.arange(len(labels)), labels, ""
    n_rows = int(counts[counts < n_min].sum())
    listed = ", ".join(f"{name} ({count})" for name, count in zip(names, counts, strict=True) if name in rare)
    is_rare = np.isin(labels, rare)
    if n_rows < n_min:
        kept = np.flatnonzero(~is_rare)
        return kept, labels[kept], f"dropped, with fewer than {n_min} rows: {listed}"
    merged = np.where(is_rare, OTHER, labels)
    return (
        np.arange(len(labels)),
        merged,
        f'merged into "{OTHER}" ({n_rows} rows), each below {n_min}: {listed}',
    )
