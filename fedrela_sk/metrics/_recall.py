"""Recall of each class and of groups of classes: head / medium / tail, majority / minority."""

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from fedrela_sk._labels import check_names, positions_in, python_values
from fedrela_sk._sklearn import StrOptions, _check_sample_weight, validate_params
from fedrela_sk._typing import Array
from fedrela_sk.exceptions import LabelError
from fedrela_sk.metrics._confusion import confusion_table, divide, mean_known, recalls
from fedrela_sk.metrics._labels import check_class_values, check_pair
from fedrela_sk.metrics._shots import SHOTS, SIZES, majority_minority_split, shot_split

_COMMON = {
    "y_true": ["array-like"],
    "y_pred": ["array-like"],
    "labels": ["array-like", None],
    "sample_weight": ["array-like", None],
}
_OF_GROUPS = {**_COMMON, "average": [StrOptions({"macro", "micro"})]}


def _confusion(y_true, y_pred, labels, sample_weight):
    true, predicted, labels = check_pair(y_true, y_pred, labels)
    if sample_weight is not None:
        sample_weight = _check_sample_weight(sample_weight, true, ensure_non_negative=True)
    return confusion_table(true, predicted, len(labels), sample_weight), labels


@validate_params(_COMMON, prefer_skip_nested_validation=True)
def per_class_recall(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> Array:
    """Recall of each class.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_samples,)
    labels : array-like of shape (n_classes,) or None, default=None
        All classes, in the order of the result; None means those that occur, sorted. Pass all of them on a
        client or a fold, where some may be absent.
    sample_weight : array-like of shape (n_samples,) or None, default=None

    Returns
    -------
    recall : ndarray of shape (n_classes,)
        NaN for a class without true rows: it has no recall, which is not the same as a recall of 0.

    Raises
    ------
    LabelError
        A label is missing or not among `labels`.

    Examples
    --------
    >>> from fedrela_sk.metrics import per_class_recall
    >>> per_class_recall([0, 0, 1], [0, 1, 1], labels=[0, 1, 2])
    array([0.5, 1. , nan])
    """
    return recalls(_confusion(y_true, y_pred, labels, sample_weight)[0])


@validate_params(_OF_GROUPS, prefer_skip_nested_validation=True)
def group_recall(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    class_groups: Any,
    *,
    labels: ArrayLike | None = None,
    average: Literal["macro", "micro"] = "macro",
    sample_weight: ArrayLike | None = None,
) -> Any:
    """Recall of groups of classes.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_samples,)
    class_groups : mapping from class to group, or array-like of shape (n_classes,)
        The group of each class; an array is in the order of `labels`.
    labels : array-like of shape (n_classes,) or None, default=None
        All classes; None means the keys of a mapping, else the classes that occur, sorted.
    average : {"macro", "micro"}, default="macro"
        "macro": mean of the recalls of the group's classes that have true rows. "micro": share of the
        group's rows that are right. They agree where all classes have equally many true rows.
    sample_weight : array-like of shape (n_samples,) or None, default=None

    Returns
    -------
    recall : dict from group to float
        In order of first appearance; NaN for a group without true rows.

    Raises
    ------
    LabelError
        A label is missing or not among `labels`, or a class has no group.

    Examples
    --------
    >>> from fedrela_sk.metrics import group_recall
    >>> group_recall([0, 1, 1, 2], [0, 1, 0, 0], {0: "big", 1: "big", 2: "small"})
    {'big': 0.75, 'small': 0.0}
    """
    confusion, labels = _confusion(y_true, y_pred, _all_labels(labels, class_groups), sample_weight)
    class_groups = check_class_values(class_groups, labels, "class_groups")
    return _recall_of_groups(confusion, class_groups, dict.fromkeys(class_groups.tolist()), average)


def _all_labels(labels, per_class):
    """`labels`, or the keys of a mapping over classes, or None."""
    return list(per_class) if labels is None and hasattr(per_class, "keys") else labels


def _recall_of_groups(confusion, class_groups, names, average):
    return {name: _AVERAGES[average](confusion, class_groups == name) for name in names}


def _macro(confusion, members):
    return mean_known(recalls(confusion)[members])


def _micro(confusion, members):
    return float(divide(np.diagonal(confusion)[members].sum(), confusion[members].sum()))


_AVERAGES = {"macro": _macro, "micro": _micro}


@validate_params(_OF_GROUPS, prefer_skip_nested_validation=True)
def shot_recall(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    counts: Any,
    *,
    labels: ArrayLike | None = None,
    cuts: tuple[float, float] = (0.75, 0.95),
    average: Literal["macro", "micro"] = "macro",
    sample_weight: ArrayLike | None = None,
) -> Any:
    """Recall of head, medium and tail classes ("many-, medium- and few-shot").

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_samples,)
    counts : mapping from class to rows, or array-like of shape (n_classes,)
        *Training* rows of each class, which say who is head and who is tail (`shot_split`); an array is in
        the order of `labels`.
    labels : array-like of shape (n_classes,) or None, default=None
        All classes; None means the keys of a mapping, else the classes that occur, sorted.
    cuts : pair of floats, default=(0.75, 0.95)
        Cumulative shares at which the head and the medium group end.
    average : {"macro", "micro"}, default="macro"
        Mean recall of the classes that have true rows, or share of rows that are right.
    sample_weight : array-like of shape (n_samples,) or None, default=None

    Returns
    -------
    recall : dict
        Keys "head", "medium", "tail"; NaN for a group without classes or without true rows.

    Raises
    ------
    LabelError
        A label is missing or not among `labels`, or counts are missing, not finite or negative.

    Examples
    --------
    >>> from fedrela_sk.metrics import shot_recall
    >>> shot_recall([0, 1, 1, 2], [0, 1, 0, 2], [80, 15, 5])
    {'head': 1.0, 'medium': 0.5, 'tail': 1.0}
    """
    confusion, labels = _confusion(y_true, y_pred, _all_labels(labels, counts), sample_weight)
    shots = shot_split(check_class_values(counts, labels, "counts"), cuts=cuts)
    return _recall_of_groups(confusion, shots, SHOTS, average)


@validate_params(_OF_GROUPS, prefer_skip_nested_validation=True)
def majority_minority_recall(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    counts: Any = None,
    *,
    minority: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    average: Literal["macro", "micro"] = "macro",
    sample_weight: ArrayLike | None = None,
) -> Any:
    """Recall of majority and minority classes.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_samples,)
    counts : mapping from class to rows, or array-like of shape (n_classes,), default=None
        *Training* rows of each class: minority is who lies below their mean (`majority_minority_split`). An
        array is in the order of `labels`.
    minority : array-like of classes, default=None
        The minority classes by name, in place of `counts`.
    labels : array-like of shape (n_classes,) or None, default=None
        All classes; None means the keys of a mapping, else the classes that occur, sorted.
    average : {"macro", "micro"}, default="macro"
        Mean recall of the classes that have true rows, or share of rows that are right.
    sample_weight : array-like of shape (n_samples,) or None, default=None

    Returns
    -------
    recall : dict
        Keys "majority", "minority"; NaN for a group without classes or without true rows.

    Raises
    ------
    LabelError
        A label is missing or not among `labels`; not exactly one of `counts` and `minority` is given.

    Examples
    --------
    >>> from fedrela_sk.metrics import majority_minority_recall
    >>> majority_minority_recall([0, 0, 1, 1], [0, 0, 1, 0], [90, 10])
    {'majority': 1.0, 'minority': 0.5}
    """
    confusion, labels = _confusion(y_true, y_pred, _all_labels(labels, counts), sample_weight)
    return _recall_of_groups(confusion, _sizes(counts, minority, labels), SIZES, average)


def _sizes(counts, minority, labels):
    if (counts is None) == (minority is None):
        got = "neither" if counts is None else "both"
        raise LabelError(
            f"Who is minority? Pass either counts (training rows per class) or minority (names), got {got}."
        )
    if minority is None:
        return majority_minority_split(check_class_values(counts, labels, "counts"))
    named = check_names(minority, "minority")
    names, places = python_values(named), positions_in(labels, named)
    unknown = [name for name, place in zip(names, places, strict=True) if place < 0]
    if unknown:
        raise LabelError(
            f"minority names classes that are not among {labels.tolist()}: pass all classes as labels, "
            f"got {unknown}."
        )
    return np.array(SIZES)[np.isin(np.arange(len(labels)), places).astype(int)]
