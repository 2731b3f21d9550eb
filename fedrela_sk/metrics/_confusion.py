"""Confusion counts, and the numbers that can be computed from only those."""

import numpy as np

from fedrela_sk._labels import positions_in, python_values
from fedrela_sk.exceptions import LabelError


def confusion_table(true, predicted, n_classes, weight=None):
    """Rows of each true class (first axis) predicted as each class (second), from positions."""
    cells = np.bincount(true * n_classes + predicted, weights=weight, minlength=n_classes**2)
    return cells.reshape(n_classes, n_classes)


def divide(numerator, denominator):
    """Quotient, NaN where the denominator is 0: what does not exist has no value."""
    numerator = np.asarray(numerator, dtype=np.float64)
    return np.divide(numerator, denominator, out=np.full(numerator.shape, np.nan), where=denominator != 0)


def recalls(confusion):
    """Recall of each class, NaN for a class without true rows."""
    return divide(np.diagonal(confusion), confusion.sum(axis=1))


def mean_known(values):
    """Mean of the entries that are not NaN; NaN if none is left."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")


def _accuracy(confusion):
    return float(divide(np.trace(confusion), confusion.sum()))


def _balanced_accuracy(confusion):
    return mean_known(recalls(confusion))


def _f1_of_each(confusion):
    hits = np.diagonal(confusion)
    return divide(2 * hits, confusion.sum(axis=0) + confusion.sum(axis=1))


def _f1_macro(confusion):
    return mean_known(_f1_of_each(confusion))


def _geometric_mean(confusion):
    values = recalls(confusion)
    with np.errstate(divide="ignore"):
        return float(np.exp(mean_known(np.log(values))))


def _min_recall(confusion):
    values = recalls(confusion)
    return float(np.nanmin(values)) if not np.isnan(values).all() else float("nan")


def _matthews(confusion):
    confusion = np.asarray(confusion, dtype=np.float64)
    total, true, predicted = confusion.sum(), confusion.sum(axis=1), confusion.sum(axis=0)
    covariance = np.trace(confusion) * total - true @ predicted
    spread = np.sqrt((total**2 - true @ true) * (total**2 - predicted @ predicted))
    return float(covariance / spread) if spread else 0.0


def _recall(confusion, positive):
    return float(recalls(confusion)[positive])


def _precision(confusion, positive):
    return float(divide(confusion[positive, positive], confusion[:, positive].sum()))


def _f1(confusion, positive):
    return float(_f1_of_each(confusion)[positive])


# numbers over all classes
OVERALL = {
    "accuracy": _accuracy,
    "balanced_accuracy": _balanced_accuracy,
    "f1_macro": _f1_macro,
    "geometric_mean": _geometric_mean,
    "matthews_corrcoef": _matthews,
    "min_recall": _min_recall,
}
# numbers of one class, the positive one
OF_ONE_CLASS = {"f1": _f1, "precision": _precision, "recall": _recall}


def score_confusion(confusion, metric, labels, pos_label=None):
    """One number from confusion counts.

    Parameters
    ----------
    confusion : ndarray of shape (n_classes, n_classes)
        Rows: true classes.
    metric : str
        A name in `OVERALL` or `OF_ONE_CLASS`.
    labels : ndarray of shape (n_classes,)
    pos_label : label or None
        For a metric of one class; None means the second of two classes.

    Returns
    -------
    score : float
    """
    if metric in OVERALL:
        return OVERALL[metric](confusion)
    names = python_values(labels)
    if pos_label is None and len(names) == 2:
        pos_label = names[1]
    place = np.flatnonzero(positions_in([pos_label], labels) == 0)
    if not len(place):
        raise LabelError(
            f"{metric!r} is a number of one class: pass as pos_label one of {names}, got {pos_label!r}."
        )
    return OF_ONE_CLASS[metric](confusion, int(place[0]))
