"""Scores from confusion counts summed over clients: all that a server could see."""

import numpy as np
from numpy.typing import ArrayLike

from fedrela_sk._sklearn import StrOptions, _check_sample_weight, validate_params
from fedrela_sk._typing import Array, Label
from fedrela_sk.metrics._confusion import OF_ONE_CLASS, OVERALL, confusion_table, score_confusion
from fedrela_sk.metrics._labels import check_groups, check_pair, rows_by_client


@validate_params(
    {"y_true": ["array-like"], "y_pred": ["array-like"], "groups": ["array-like"]},
    prefer_skip_nested_validation=True,
)
def client_confusion(
    y_true: ArrayLike, y_pred: ArrayLike, groups: ArrayLike, *, labels: ArrayLike | None = None
) -> tuple[Array, Array]:
    """Confusion counts of each client: all that it sends to a server that scores a model.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_samples,)
    groups : array-like of shape (n_samples,)
        The client of each row.
    labels : array-like of shape (n_classes,) or None, default=None
        All classes; None means those that occur, sorted.

    Returns
    -------
    clients : ndarray of shape (n_clients,)
        Sorted.
    counts : ndarray of shape (n_clients, n_classes, n_classes), int
        Rows of each true class (second axis) predicted as each class (third).

    Raises
    ------
    LabelError
        A label is not among `labels`.
    GroupsError
        `groups` does not hold one entry per row.

    Examples
    --------
    >>> from fedrela_sk.metrics import client_confusion
    >>> clients, counts = client_confusion([0, 0, 1], [0, 1, 1], ["a", "b", "b"])
    >>> counts.tolist()
    [[[1, 0], [0, 0]], [[0, 1], [0, 1]]]
    """
    true, predicted, labels = check_pair(y_true, y_pred, labels)
    clients, client = check_groups(groups, len(true))
    return clients, np.stack(list(_tables(true, predicted, client, len(clients), len(labels))))


def _tables(true, predicted, client, n_clients, n_classes, weight=None):
    for rows in rows_by_client(client, n_clients):
        yield confusion_table(
            true[rows], predicted[rows], n_classes, None if weight is None else weight[rows]
        )


@validate_params(
    {
        "y_true": ["array-like"],
        "y_pred": ["array-like"],
        "groups": ["array-like", None],
        "metric": [StrOptions({*OVERALL, *OF_ONE_CLASS})],
        "labels": ["array-like", None],
        "sample_weight": ["array-like", None],
    },
    prefer_skip_nested_validation=True,
)
def federated_score(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    metric: str = "balanced_accuracy",
    labels: ArrayLike | None = None,
    pos_label: Label | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    """A score from confusion counts summed over clients.

    The sum is the confusion table of all rows together, so the score does not depend on who holds what (and
    without `groups` there is one client).

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_samples,)
    groups : array-like of shape (n_samples,) or None, default=None
        The client of each row.
    metric : str, default="balanced_accuracy"
        Over all classes: "accuracy"; "balanced_accuracy" (mean recall of the classes with true rows);
        "f1_macro" (mean over the classes that occur or are predicted); "geometric_mean" and "min_recall" (of
        the recalls of the classes with true rows); "matthews_corrcoef". Of the class `pos_label`: "f1",
        "precision", "recall".
    labels : array-like of shape (n_classes,) or None, default=None
        All classes; None means those that occur, sorted.
    pos_label : label, default=None
        For a metric of one class; None means the second of two classes.
    sample_weight : array-like of shape (n_samples,) or None, default=None

    Returns
    -------
    score : float
        NaN where nothing defines it, such as the recall of a class without true rows; 0 for a Matthews
        coefficient without spread, as in scikit-learn.

    Raises
    ------
    LabelError
        A label is not among `labels`, or it is unclear which class is positive.
    GroupsError
        `groups` does not hold one entry per row.

    Examples
    --------
    >>> from fedrela_sk.metrics import federated_score
    >>> federated_score([0, 0, 0, 1], [0, 0, 1, 1], groups=["a", "a", "b", "b"], metric="recall")
    1.0
    """
    true, predicted, labels = check_pair(y_true, y_pred, labels)
    if sample_weight is not None:
        sample_weight = _check_sample_weight(sample_weight, true, ensure_non_negative=True)
    clients, client = check_groups(np.zeros(len(true)) if groups is None else groups, len(true))
    total = sum(_tables(true, predicted, client, len(clients), len(labels), sample_weight))
    return score_confusion(total, metric, labels, pos_label)
