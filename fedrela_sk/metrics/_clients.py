"""One row per client: how a fitted model does at each of them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedrela_sk._checks import check_labels
from fedrela_sk._labels import array_of, check_names, python_values
from fedrela_sk._optional import data_frame
from fedrela_sk._sklearn import _num_samples
from fedrela_sk._typing import DataFrame
from fedrela_sk.exceptions import LabelError
from fedrela_sk.metrics._confusion import divide
from fedrela_sk.metrics._labels import check_groups, check_pair, union
from fedrela_sk.metrics._predicting import predict_by_client


@dataclass(frozen=True, eq=False)
class ClientReport:
    """What `client_report` returns: K clients, C classes; every column knows all classes.

    Attributes
    ----------
    clients : ndarray of shape (K,)
        Client names, sorted.
    classes : ndarray of shape (C,)
        The model's classes, then those of y that it never saw.
    n_rows : ndarray of shape (K,), int
    class_count : ndarray of shape (K, C), int
        True rows.
    accuracy : ndarray of shape (K,)
    balanced_accuracy : ndarray of shape (K,)
        Mean recall of the classes that the client has.
    recall : ndarray of shape (K, C)
        NaN for a class that the client does not have.
    log_loss : ndarray of shape (K,)
        Mean of -log posterior of the true class (natural logarithm), clipped as in scikit-learn; NaN for a
        model without `predict_proba`.
    """

    clients: np.ndarray
    classes: np.ndarray
    n_rows: np.ndarray
    class_count: np.ndarray
    accuracy: np.ndarray
    balanced_accuracy: np.ndarray
    recall: np.ndarray
    log_loss: np.ndarray

    def to_frame(self) -> DataFrame:
        """A data frame with one row per client; columns `count_<class>` and `recall_<class>` per class.

        Raises
        ------
        ImportError
            pandas is not installed.
        """
        columns = {
            name: getattr(self, name) for name in ("n_rows", "accuracy", "balanced_accuracy", "log_loss")
        }
        for prefix, table in (("count", self.class_count), ("recall", self.recall)):
            for label, column in zip(self.classes.tolist(), table.T, strict=True):
                columns[f"{prefix}_{label}"] = column
        return data_frame(columns, index=self.clients).rename_axis("client")


def client_report(estimator: Any, X: ArrayLike, y: ArrayLike, groups: ArrayLike) -> Any:
    """Score a fitted classifier at each client.

    Parameters
    ----------
    estimator : fitted classifier
        With `classes_` and `predict`; log loss needs `predict_proba`.
    X : array-like of shape (n_samples, ...)
        What the classifier takes. It predicts once, for all rows: where clients have models of their own
        (``predict(X, groups=...)``), each row by its own client's.
    y : array-like of shape (n_samples,)
        True labels. A label that the classifier never saw has recall 0 and the largest log loss.
    groups : array-like of shape (n_samples,)
        The client of each row.

    Returns
    -------
    report : ClientReport

    Raises
    ------
    GroupsError
        `groups` does not hold one entry per row.
    LabelError
        y is missing, or a label in it; or `predict_proba` lacks the column of a class.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from fedrela_sk.metrics import client_report
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> model = LogisticRegression().fit(X, [0, 0, 1, 1])
    >>> client_report(model, X, [0, 0, 1, 1], groups=["a", "a", "b", "b"]).recall
    array([[ 1., nan],
           [nan,  1.]])
    """
    y = check_labels(y, None if y is None else _num_samples(X))
    clients, client = check_groups(groups, len(y))
    known = check_names(estimator.classes_, "classes_")
    classes = with_unseen(known, y)
    true, predicted, _ = check_pair(y, predict_by_client(estimator, "predict", X, groups), classes)
    shape = (len(clients), len(classes))
    class_count = _table(client, true, shape)
    hits = _table(client, true, shape, weights=true == predicted)
    recall = divide(hits, class_count)
    n_rows = class_count.sum(axis=1)
    return ClientReport(
        clients=clients,
        classes=classes,
        n_rows=n_rows,
        class_count=class_count,
        accuracy=hits.sum(axis=1) / n_rows,
        balanced_accuracy=np.nanmean(recall, axis=1),
        recall=recall,
        log_loss=_log_loss(estimator, X, groups, true, client, n_rows=n_rows, n_known=len(known)),
    )


def with_unseen(classes, y):
    """`classes` in their order, then the labels of y that are not among them, sorted."""
    known = set(python_values(classes))
    unseen = [label for label in python_values(union(y)) if label not in known]
    return array_of([*python_values(classes), *unseen]) if unseen else classes


def _table(client, true, shape, weights=None):
    cells = np.bincount(client * shape[1] + true, weights=weights, minlength=shape[0] * shape[1])
    return cells.reshape(shape)


def _log_loss(estimator, X, groups, true, client, *, n_rows, n_known):
    """Mean log loss of each client; `true` holds positions, those from `n_known` on were never seen."""
    if not hasattr(estimator, "predict_proba"):
        return np.full(len(n_rows), np.nan)
    posteriors = np.asarray(predict_by_client(estimator, "predict_proba", X, groups))
    if posteriors.shape != (len(true), n_known):
        raise LabelError(
            f"predict_proba must give one column for each of {n_known} classes_ and one row for each of "
            f"{len(true)} rows: mend the classifier, got shape {posteriors.shape}."
        )
    seen = true < n_known
    of_true = np.where(seen, posteriors[np.arange(len(true)), np.where(seen, true, 0)], 0)
    smallest = np.finfo(posteriors.dtype).eps
    losses = -np.log(np.clip(of_true, smallest, 1 - smallest).astype(np.float64))
    return np.bincount(client, weights=losses) / n_rows
