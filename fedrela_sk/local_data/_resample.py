"""A `fit_resample` tool on one client's own rows."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from fedrela_sk._labels import check_names, positions_in
from fedrela_sk._typing import Array
from fedrela_sk.exceptions import LabelError

# what samplers raise where a class is too small for them
_TOO_FEW = (ValueError, RuntimeError)


@dataclass(frozen=True)
class Resampled:
    """A client's rows after resampling.

    Attributes
    ----------
    kept : ndarray of int64
        Positions of original rows that train, perhaps some of them more than once.
    X_new : ndarray of shape (n_new, ...)
        Rows that did not exist before.
    y : ndarray of shape (len(kept) + n_new,), int64
        Codes of the labels, those of `kept` first.
    note : str or None
        What the sampler could not do.
    """

    kept: np.ndarray
    X_new: np.ndarray
    y: np.ndarray
    note: str | None = None


def resample(sampler: Any, X: Array, y: Array, classes: Array, seed: int) -> Any:
    """Resample one client's rows.

    A sampler that refuses (SMOTE where a class has fewer rows than neighbors, ADASYN where no row needs a new
    one) is asked again without the rarest class, and so on; the classes left out keep their rows.

    Parameters
    ----------
    sampler : object with `fit_resample(X, y)`
        Left as it is; its clone gets `seed` as every ``random_state`` that it has.
    X : ndarray of shape (n_rows, ...)
        Samplers see it as a table.
    y : ndarray of shape (n_rows,), int64
        Codes of the labels.
    classes : ndarray of shape (n_classes,)
        Samplers see the labels themselves; codes in place of objects that scikit-learn does not know as labels.
    seed : int

    Returns
    -------
    result : Resampled
    """
    table = X.reshape(len(X), -1)
    if classes.dtype == object and not isinstance(classes[0], str):
        classes = np.arange(len(classes))
    present, counts = np.unique(y, return_counts=True)
    rarest_first = present[np.argsort(counts, kind="stable")]
    reason = "it has one class only"
    for n_left_out in range(len(present) - 1):
        left_out = rarest_first[:n_left_out]
        asked = np.flatnonzero(~np.isin(y, left_out))
        try:
            own = _with_seed(sampler, seed)
            X_after, y_after = own.fit_resample(table[asked], classes[y[asked]])
        except _TOO_FEW as error:
            reason = str(error).splitlines()[0]
            continue
        parts = _split(own, table[asked], np.asarray(X_after), asked)
        codes = _codes(classes, y_after, sampler)[parts.order]
        rest = np.flatnonzero(np.isin(y, left_out))
        kept = np.concatenate([parts.kept, rest])
        codes = np.concatenate([codes[: len(parts.kept)], y[rest], codes[len(parts.kept) :]])
        note = None
        if n_left_out:
            note = f"classes {classes[np.sort(left_out)].tolist()} stayed as they are ({reason})"
        return Resampled(kept, parts.X_new.reshape(-1, *X.shape[1:]), codes, note)
    return Resampled(np.arange(len(y)), X[:0], y, f"nothing was resampled ({reason})")


def _codes(classes, labels, sampler):
    """Codes of what a sampler made of the labels."""
    labels = check_names(labels)
    codes = positions_in(classes, labels)
    if (codes < 0).any():
        raise LabelError(
            f"{type(sampler).__name__}.fit_resample returned the label {labels[codes < 0].tolist()[0]!r}, which is "
            f"not among the classes {classes.tolist()}. It must give rows labels of the client's own."
        )
    return codes


@dataclass(frozen=True)
class _Parts:
    """Rows that came out of a sampler: originals, then new ones; `order` sorts its output like that."""

    kept: np.ndarray
    X_new: np.ndarray
    order: np.ndarray


def _split(sampler, table, X_after, asked):
    """Tell originals from new rows: by the sampler's own indices, or because originals come first."""
    n = len(table)
    indices = getattr(sampler, "sample_indices_", None)
    if indices is not None and len(indices) == len(X_after):
        same = (X_after == table[indices]).all(axis=1)
        order = np.concatenate([np.flatnonzero(same), np.flatnonzero(~same)])
        return _Parts(asked[indices[same]], X_after[~same], order)
    if len(X_after) >= n and np.array_equal(X_after[:n], table):
        return _Parts(asked, X_after[n:], np.arange(len(X_after)))
    return _Parts(asked[:0], X_after, np.arange(len(X_after)))


def _with_seed(sampler, seed):
    own = clone(sampler, safe=False)
    if not hasattr(own, "get_params"):
        return own
    names = [name for name in own.get_params(deep=True) if name.split("__")[-1] == "random_state"]
    return own.set_params(**dict.fromkeys(names, seed % 2**32))
