"""Scorers that know all classes of the estimator, and its training rows per class where they are needed."""

from typing import Any

import numpy as np

from fedrela_sk._labels import check_names, python_values
from fedrela_sk._sklearn import _BaseScorer, _safe_indexing
from fedrela_sk._typing import Array
from fedrela_sk.exceptions import LabelError
from fedrela_sk.metrics._clients import with_unseen
from fedrela_sk.metrics._cost import cost_by_amount
from fedrela_sk.metrics._labels import check_class_values

# where a meta-estimator keeps the fitted estimator that may know the class counts
_INNER = ("best_estimator_", "relabeler_", "estimator_")


def fitted_class_count(estimator: Any) -> tuple[Array, Array]:
    """Training rows of each class, from the estimator or the last step of a pipeline or what a search found.

    Parameters
    ----------
    estimator : fitted classifier

    Returns
    -------
    classes : ndarray of shape (n_classes,)
    counts : ndarray of shape (n_classes,)

    Raises
    ------
    LabelError
        Nothing in it has `class_count_`.
    """
    inner = estimator
    while inner is not None:
        if hasattr(inner, "class_count_"):
            return check_names(inner.classes_, "classes_"), np.asarray(inner.class_count_)
        inner = _inside(inner)
    raise LabelError(
        "The scorer does not know the training rows of each class: pass counts={class: rows} to it, "
        f"got a {type(estimator).__name__} without class_count_."
    )


def _inside(estimator):
    if hasattr(estimator, "steps"):
        return estimator.steps[-1][1]
    return next((getattr(estimator, name) for name in _INNER if hasattr(estimator, name)), None)


class ClassScorer(_BaseScorer):
    """Passes all classes of the estimator to the score function, as `labels`; children add to that."""

    def _score(self, method_caller, estimator, X, y_true, **kwargs):
        labels = with_unseen(check_names(estimator.classes_, "classes_"), y_true)
        kwargs = self._complete({**self._kwargs, **kwargs}, estimator, X, labels)
        y_pred = method_caller(estimator, self._response_method, X)
        return self._sign * self._pick(self._score_func(y_true, y_pred, labels=labels, **kwargs))

    def _complete(self, kwargs, estimator, X, labels):
        return kwargs

    def _pick(self, value):
        return value


class GroupScorer(ClassScorer):
    """One entry of a recall by groups of classes, with counts that were given or learned in `fit`."""

    def __init__(self, score_func, group, counts, kwargs):
        super().__init__(score_func, 1, kwargs)
        self._group = group
        self._counts = counts

    def __repr__(self):
        given = "".join(f", {name}={value!r}" for name, value in self._kwargs.items())
        return f"{self._score_func.__name__}_scorer({self._group!r}, counts={self._counts!r}{given})"

    def _complete(self, kwargs, estimator, X, labels):
        if kwargs.get("minority") is not None:
            return kwargs
        if self._counts is None:
            classes, counts = fitted_class_count(estimator)
        else:
            classes = check_names(estimator.classes_, "classes_")
            counts = check_class_values(self._counts, classes, "counts")
        of_class = dict(zip(python_values(classes), counts.tolist(), strict=True))
        return {**kwargs, "counts": [of_class.get(label, 0) for label in python_values(labels)]}

    def _pick(self, value):
        return value[self._group]


class AmountScorer(ClassScorer):
    """Takes the amounts from a column of X unless they are routed."""

    def __init__(self, column, kwargs):
        super().__init__(cost_by_amount, -1, kwargs)
        self._column = column

    def __repr__(self):
        given = "".join(f", {name}={value!r}" for name, value in self._kwargs.items())
        return f"cost_by_amount_scorer({self._column!r}{given})"

    def _complete(self, kwargs, estimator, X, labels):
        if "amount" in kwargs:
            return kwargs
        if self._column is None:
            raise ValueError(
                "The scorer needs the amount of every row: name its column in X, cost_by_amount_scorer(column), "
                "or route it, set_score_request(amount=True); got neither."
            )
        return {**kwargs, "amount": _safe_indexing(X, self._column, axis=1)}
