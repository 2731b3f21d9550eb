"""Classifiers that take no other labels than 0..K-1 without gaps: they are trained on positions instead."""

from collections.abc import Mapping

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone

from fedrela_sk._labels import positions_in, python_values, same_names, sorted_names

# what classifiers raise about labels that they cannot take
_REFUSALS = (ValueError, TypeError, KeyError, IndexError, RuntimeError)


class CodedClassifier(ClassifierMixin, BaseEstimator):
    """A classifier that was trained on positions in a list of labels, and answers with the labels.

    Parameters
    ----------
    estimator : classifier
        Fitted on positions.
    names : ndarray of shape (n_names,)
        The labels at those positions.

    Attributes
    ----------
    classes_ : ndarray
        The labels that it was trained on.
    """

    def __init__(self, estimator, names):
        self.estimator = estimator
        self.names = names

    @property
    def classes_(self):
        return self.names[np.asarray(self.estimator.classes_).astype(np.intp)]

    def predict(self, X):
        """Labels of rows."""
        return self.names[np.asarray(self.estimator.predict(X)).astype(np.intp)]

    def __getattr__(self, name):
        if name.startswith("__") or name in ("estimator", "names"):
            raise AttributeError(name)
        return getattr(self.estimator, name)


def fit_labels(estimator, X, labels, classes, fit_params):
    """``estimator.fit(X, labels, **fit_params)``, on positions where it does not take these labels.

    Boosting libraries and nets want 0..K-1. Folds that lack a class, a class that vanishes in relabeling and labels
    such as {0, 2} leave gaps.

    Parameters
    ----------
    estimator : classifier
        Not fitted.
    X : indexable of length n_samples
    labels : ndarray of shape (n_samples,)
    classes : ndarray of shape (n_classes,)
        All classes, sorted; some may be absent here.
    fit_params : dict

    Returns
    -------
    model : classifier
        `estimator` itself, or a `CodedClassifier`.

    Raises
    ------
    Exception
        What `fit` raised about the labels as they are, where it takes no positions either.
    """
    try:
        return estimator.fit(X, labels, **fit_params)
    except _REFUSALS as error:
        for names in _lists(estimator, labels, classes):
            try:
                model = clone(estimator).fit(X, positions_in(names, labels), **fit_params)
            except _REFUSALS:
                continue
            return CodedClassifier(model, names)
        raise error


def _lists(estimator, labels, classes):
    """Lists of labels whose positions may be tried: all classes, and those that are there."""
    if _names_classes(estimator, classes):
        return []
    present = sorted_names(labels)[0]
    lists = [classes] if same_names(present, classes) else [classes, present]
    return [names for names in lists if not _are_positions(names)]


def _are_positions(names):
    return names.dtype.kind in "iu" and same_names(names, np.arange(len(names)))


def _names_classes(estimator, classes):
    """Whether a parameter is a mapping over labels, such as `class_weight`: positions would be taken for labels."""
    known = set(python_values(classes))
    params = estimator.get_params().values() if hasattr(estimator, "get_params") else ()
    return any(isinstance(value, Mapping) and not known.isdisjoint(value) for value in params)
