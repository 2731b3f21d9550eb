"""Where arrays become tensors: skorch and torch never see labels, data frames or float64 by accident."""

from dataclasses import dataclass

import numpy as np
import torch
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from fedrela_sk._sklearn import _check_sample_weight
from fedrela_sk.exceptions import LabelError, NotFiniteError


@dataclass(frozen=True)
class EncodedLabels:
    """Labels as positions in the sorted classes.

    Attributes
    ----------
    classes : ndarray of shape (n_classes,)
    codes : ndarray of shape (n_rows,), int64
    """

    classes: np.ndarray
    codes: np.ndarray


def encode_labels(y):
    """`EncodedLabels` of a target of any kind that scikit-learn knows as classes.

    Raises
    ------
    LabelError
        If there is only one class.
    """
    y = column_or_1d(y, warn=True)
    check_classification_targets(y)
    classes, codes = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise LabelError(
            f"y has one class only, {classes.tolist()[0]!r}: there is nothing to classify. "
            "Pass rows of at least two classes (single clients may have one)."
        )
    return EncodedLabels(classes, codes.astype(np.int64))


def codes_of(labels, classes, what):
    """Positions of `labels` in the sorted `classes`.

    Raises
    ------
    LabelError
        If a label is not among them; `what` says whose labels they are.
    """
    labels = np.asarray(labels)
    known = np.isin(labels, classes)
    if not known.all():
        row = int(np.flatnonzero(~known)[0])
        raise LabelError(
            f"{what} has the label {labels[row]!r} in row {row}, which is not among the classes "
            f"{classes.tolist()} of y."
        )
    return np.searchsorted(classes, labels).astype(np.int64)


def check_finite(X, specs=()):
    """`X` itself, if no entry is NaN or infinite; the error names the row and, given `specs`, its client."""
    if X.dtype.kind != "f" or np.isfinite(X.sum(dtype=np.float64)):
        return X
    bad = np.flatnonzero(~np.isfinite(X.reshape(len(X), -1)).all(axis=1))
    if not len(bad):  # the sum itself overflowed
        return X
    row = int(bad[0])
    value = "NaN" if np.isnan(X[row]).any() else "infinity"
    owner = next((f" (client {spec.key!r})" for spec in specs if row in spec.rows), "")
    raise NotFiniteError(
        f"Input X contains {value} in row {row}{owner}; {len(bad)} rows are affected. Impute or drop missing "
        "values first, for example with sklearn.impute.SimpleImputer in a pipeline."
    )


def check_row_weights(sample_weight, X):
    """Row weights as float64, None where all are one.

    Raises
    ------
    ValueError
        If a weight is negative or not finite, or if all are zero.
    """
    if sample_weight is None:
        return None
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    if not weights.any():
        raise ValueError("sample_weight is zero for every row: there is nothing to learn from.")
    return None if (weights == 1).all() else weights


def to_tensor(X, net):
    """`X` as one tensor in the dtype of the net's module, on its device."""
    from fedrela_sk.training._net import floating_dtype

    tensor = torch.from_numpy(np.ascontiguousarray(X))
    return tensor.to(device=net.device, dtype=floating_dtype(net.module_))
