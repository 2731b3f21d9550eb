"""A scorer that lets every row be predicted by its own client's model."""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from fedrela_sk._labels import check_names
from fedrela_sk._sklearn import _BaseScorer
from fedrela_sk._typing import Label
from fedrela_sk.metrics._clients import with_unseen
from fedrela_sk.metrics._confusion import OF_ONE_CLASS, OVERALL
from fedrela_sk.metrics._federated import federated_score
from fedrela_sk.metrics._labels import check_groups, rows_by_client
from fedrela_sk.metrics._predicting import predict_by_client, takes_groups

AVERAGES = ("rows", "clients")


def client_scorer(
    metric: str = "balanced_accuracy",
    *,
    average: Literal["rows", "clients"] = "rows",
    pos_label: Label | None = None,
) -> Callable[..., Any] | None:
    """Scorer for personal models: ``predict(X, groups=...)``, each row by its own client's model.

    `FederatedClassifier` predicts with clients' own heads where its algorithm has them ("fedrod", "fedloge",
    "local_only") and with the global model otherwise. Without groups it is `federated_scorer`. For searches
    and cross-validation groups are routed::

        sklearn.set_config(enable_metadata_routing=True)
        scorer = client_scorer().set_score_request(groups=True)
        cross_validate(fed, X, y, scoring=scorer, params={"groups": banks})

    Parameters
    ----------
    metric : str, default="balanced_accuracy"
        See `federated_score`.
    average : {"rows", "clients"}, default="rows"
        "rows": the score of all rows together. "clients": the mean of the scores of the clients, small ones
        counting as much as large ones; a client for which the score does not exist is left out. Row weights,
        ``set_score_request(sample_weight=True)``, count inside the scores.
    pos_label : label, default=None
        For "f1", "precision" and "recall"; None means the second of two classes.

    Returns
    -------
    scorer : callable(estimator, X, y, groups=None, sample_weight=None)

    Raises
    ------
    ValueError
        `metric` or `average` is not one of those.

    Examples
    --------
    >>> import numpy as np
    >>> from fedrela_sk import FederatedClassifier
    >>> from fedrela_sk.metrics import client_scorer
    >>> X, y, bank = np.arange(12.0)[:, None], np.array([0] * 6 + [1] * 6), np.array(["a", "b"] * 6)
    >>> fed = FederatedClassifier(clients=None, algorithm="local_only", n_rounds=2, random_state=0)
    >>> scorer = client_scorer("accuracy", average="clients")
    >>> 0.0 <= scorer(fed.fit(X, y, groups=bank), X, y, groups=bank) <= 1.0
    True
    """
    if metric not in {*OVERALL, *OF_ONE_CLASS}:
        raise ValueError(
            f"metric must be one of {sorted([*OVERALL, *OF_ONE_CLASS])}, which come from confusion counts; got "
            f"{metric!r}."
        )
    if average not in AVERAGES:
        raise ValueError(f"average must be one of {AVERAGES}, got {average!r}.")
    return ClientScorer(federated_score, average, {"metric": metric, "pos_label": pos_label})


class ClientScorer(_BaseScorer):
    """What `client_scorer` returns."""

    def __init__(self, score_func, average, kwargs):
        super().__init__(score_func, 1, kwargs)
        self._average = average

    def __repr__(self):
        given = "".join(f", {name}={value!r}" for name, value in self._kwargs.items())
        return f"client_scorer(average={self._average!r}{given})"

    def __call__(self, estimator, X, y_true, groups=None, **kwargs):
        """The score; groups are taken with and without metadata routing."""
        return self._score(None, estimator, X, y_true, groups=groups, **kwargs)

    def _score(self, method_caller, estimator, X, y_true, groups=None, sample_weight=None, **kwargs):
        y_true = check_names(y_true)
        labels = with_unseen(check_names(estimator.classes_, "classes_"), y_true)
        kwargs = {**self._kwargs, **kwargs, "labels": labels}
        y_pred = _predict(estimator, X, groups)
        if groups is None or self._average == "rows":
            return self._score_func(y_true, y_pred, sample_weight=sample_weight, **kwargs)
        y_pred = check_names(y_pred)
        clients, client = check_groups(groups, len(y_true))
        weights = None if sample_weight is None else np.asarray(sample_weight)
        scores = [
            self._score_func(
                y_true[rows], y_pred[rows], sample_weight=None if weights is None else weights[rows], **kwargs
            )
            for rows in rows_by_client(client, len(clients))
            if weights is None or weights[rows].any()
        ]
        scores = np.array(scores)
        known = ~np.isnan(scores)
        return float(scores[known].mean()) if known.any() else float("nan")


def _predict(estimator, X, groups):
    """Predictions of each row's own client."""
    if groups is None or takes_groups(estimator):
        return predict_by_client(estimator, "predict", X, groups)
    raise ValueError(
        f"client_scorer was given groups, but {type(estimator).__name__}.predict does not take any: it has no "
        "models of clients. Use federated_scorer."
    )
