"""Predictions of each row by its own client's model, wherever the model that has them hides."""

import inspect

from sklearn.pipeline import Pipeline


def takes_groups(estimator):
    """Whether a fitted classifier, or the last one of a pipeline or a search, predicts by client."""
    if hasattr(estimator, "best_estimator_"):
        return takes_groups(estimator.best_estimator_)
    if isinstance(estimator, Pipeline):
        return takes_groups(estimator.steps[-1][1])
    taken = inspect.signature(estimator.predict).parameters.values()
    return any(p.name == "groups" or p.kind is p.VAR_KEYWORD for p in taken)


def predict_by_client(estimator, method, X, groups):
    """What ``estimator.method(X)`` gives, each row by its own client's model where there are such.

    Parameters
    ----------
    estimator : fitted classifier
        Searches are asked for their best estimator, pipelines for their last step after the others.
    method : {"predict", "predict_proba"}
    X : array-like of shape (n_samples, ...)
    groups : array-like of shape (n_samples,) or None
    """
    if groups is None or not takes_groups(estimator):
        return getattr(estimator, method)(X)
    if hasattr(estimator, "best_estimator_"):
        return predict_by_client(estimator.best_estimator_, method, X, groups)
    if isinstance(estimator, Pipeline):
        X = estimator[:-1].transform(X) if len(estimator.steps) > 1 else X
        return predict_by_client(estimator.steps[-1][1], method, X, groups)
    return getattr(estimator, method)(X, groups=groups)
