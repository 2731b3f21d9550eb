"""Scorers: `scoring=` for searches and cross-validation, made from the metrics of this room.

A scorer is called as ``scorer(estimator, X, y)``. With metadata routing switched on it takes more, such as
``federated_scorer().set_score_request(groups=True)``.
"""

from collections.abc import Callable
from typing import Any, Literal

from numpy.typing import ArrayLike
from sklearn.metrics import make_scorer

from fedrela_sk._typing import Label
from fedrela_sk.metrics._alerts import precision_at_k, recall_at_alerts
from fedrela_sk.metrics._class_scorers import AmountScorer, ClassScorer, GroupScorer
from fedrela_sk.metrics._federated import federated_score
from fedrela_sk.metrics._recall import majority_minority_recall, shot_recall
from fedrela_sk.metrics._shots import SHOTS, SIZES

# what a ranking is made from, in order of preference
_SCORES = ("decision_function", "predict_proba")


def federated_scorer(
    metric: str = "balanced_accuracy", *, pos_label: Label | None = None
) -> Callable[..., Any]:
    """Scorer from confusion counts summed over clients (`federated_score`); it knows all fitted classes.

    Without `groups` all rows are one client, which gives the same number. Routed groups:
    ``federated_scorer().set_score_request(groups=True)``.

    Parameters
    ----------
    metric : str, default="balanced_accuracy"
        See `federated_score`.
    pos_label : label, default=None
        For "f1", "precision" and "recall"; None means the second of two classes.

    Returns
    -------
    scorer : callable(estimator, X, y)

    Examples
    --------
    >>> from sklearn.dummy import DummyClassifier
    >>> from fedrela_sk.metrics import federated_scorer
    >>> model = DummyClassifier().fit([[0], [0], [0]], [0, 0, 1])
    >>> federated_scorer("balanced_accuracy")(model, [[0], [0]], [0, 1])
    0.5
    """
    return ClassScorer(federated_score, 1, {"metric": metric, "pos_label": pos_label})


def shot_recall_scorer(
    shot: Literal["head", "medium", "tail"],
    *,
    counts: Any = None,
    cuts: tuple[float, float] = (0.75, 0.95),
    average: Literal["macro", "micro"] = "macro",
) -> Callable[..., Any]:
    """Scorer: recall of the head, medium or tail classes (`shot_recall`).

    Parameters
    ----------
    shot : {"head", "medium", "tail"}
    counts : mapping from class to rows, or array-like in the order of `classes_`, default=None
        Training rows of each class; None means the fitted `class_count_` of the estimator, of the last step
        of a pipeline, or of what a search or a meta-estimator found.
    cuts : pair of floats, default=(0.75, 0.95)
        Cumulative shares at which the head and the medium group end.
    average : {"macro", "micro"}, default="macro"

    Returns
    -------
    scorer : callable(estimator, X, y)
        A class of y that is not among the training classes counts as tail, with recall 0.

    Raises
    ------
    ValueError
        `shot` is no such group.

    Examples
    --------
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from fedrela_sk.metrics import shot_recall_scorer
    >>> model = GaussianNB().fit([[0.0], [0.1], [0.2], [5.0]], [0, 0, 0, 1])
    >>> shot_recall_scorer("tail")(model, [[0.1], [5.0]], [0, 1])
    nan
    >>> shot_recall_scorer("tail", cuts=(0.5, 0.75))(model, [[0.1], [5.0]], [0, 1])
    1.0
    """
    _check_group(shot, SHOTS, "shot")
    return GroupScorer(shot_recall, shot, counts, {"cuts": cuts, "average": average})


def majority_minority_recall_scorer(
    group: Literal["majority", "minority"],
    *,
    counts: Any = None,
    minority: ArrayLike | None = None,
    average: Literal["macro", "micro"] = "macro",
) -> Callable[..., Any]:
    """Scorer: recall of the majority or minority classes (`majority_minority_recall`).

    Parameters
    ----------
    group : {"majority", "minority"}
    counts : mapping from class to rows, or array-like in the order of `classes_`, default=None
        Training rows of each class; None means the fitted `class_count_`, as in `shot_recall_scorer`.
    minority : array-like of classes, default=None
        The minority classes by name; counts are not needed then.
    average : {"macro", "micro"}, default="macro"

    Returns
    -------
    scorer : callable(estimator, X, y)

    Raises
    ------
    ValueError
        `group` is no such group.
    """
    _check_group(group, SIZES, "group")
    return GroupScorer(majority_minority_recall, group, counts, {"minority": minority, "average": average})


def _check_group(group, groups, name):
    if group not in groups:
        raise ValueError(f"{name} must be one of {groups}, got {group!r}.")


def recall_at_alerts_scorer(n_alerts: int, *, pos_label: Label = 1) -> Callable[..., Any]:
    """Scorer: recall at an alert budget (`recall_at_alerts`), from decision values or posteriors.

    Parameters
    ----------
    n_alerts : int
        For each set of rows that is scored (a fold), or each period of it when periods are routed:
        ``recall_at_alerts_scorer(100).set_score_request(period=True)``.
    pos_label : label, default=1
        The class to be caught, one of two.

    Returns
    -------
    scorer : callable(estimator, X, y)
    """
    return make_scorer(recall_at_alerts, response_method=_SCORES, n_alerts=n_alerts, pos_label=pos_label)


def precision_at_k_scorer(k: int, *, pos_label: Label = 1) -> Callable[..., Any]:
    """Scorer: precision at k (`precision_at_k`), from decision values or posteriors.

    Parameters
    ----------
    k : int
        For each set of rows that is scored, or each period of it when periods are routed.
    pos_label : label, default=1
        The class to be caught, one of two.

    Returns
    -------
    scorer : callable(estimator, X, y)
    """
    return make_scorer(precision_at_k, response_method=_SCORES, k=k, pos_label=pos_label)


def cost_by_amount_scorer(
    column: str | int | None = None, *, alert_cost: float = 0.0, pos_label: Label = 1, normalize: bool = False
) -> Callable[..., Any]:
    """Scorer: minus the cost by amount (`cost_by_amount`), so that higher is better.

    Parameters
    ----------
    column : str or int, default=None
        Column of X that holds the amounts; None means they are routed:
        ``cost_by_amount_scorer().set_score_request(amount=True)``.
    alert_cost : float, default=0.0
        Cost of one alert.
    pos_label : label, default=1
        The class to be caught.
    normalize : bool, default=False
        Divide by the number of rows, so that folds of unequal size compare.

    Returns
    -------
    scorer : callable(estimator, X, y)
    """
    kwargs = {"alert_cost": alert_cost, "pos_label": pos_label, "normalize": normalize}
    return AmountScorer(column, kwargs)


head_recall_scorer = shot_recall_scorer("head")
medium_recall_scorer = shot_recall_scorer("medium")
tail_recall_scorer = shot_recall_scorer("tail")
majority_recall_scorer = majority_minority_recall_scorer("majority")
minority_recall_scorer = majority_minority_recall_scorer("minority")
