"""First-stage posteriors: what a classifier says about rows that it was not trained on."""

import copy
import warnings
from numbers import Integral

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import KFold, StratifiedKFold, check_cv
from sklearn.utils.parallel import Parallel, delayed

from fedrela_sk._labels import positions_in, same_names, sorted_names
from fedrela_sk._random import Purpose, integer_seed
from fedrela_sk._sklearn import GroupsConsumerMixin, _check_method_params, _check_response_method, _safe_split
from fedrela_sk.exceptions import LabelError, PartitionError
from fedrela_sk.relabel._coded import CodedClassifier, fit_labels

# what a classifier says about a class that it has not seen
_OF_ABSENT = {"predict_proba": 0.0, "predict_log_proba": -np.inf}

_FEW_MEMBERS = "The least populated class in y has only"


def response_name(estimator, response_method):
    """The method that answers: "predict_proba" or "decision_function".

    `response_method` "auto" prefers probabilities. AttributeError, in scikit-learn's words, where the
    estimator has no such method.
    """
    choices = ["predict_proba", "decision_function"] if response_method == "auto" else response_method
    return _check_response_method(estimator, choices).__name__


def out_of_fold(estimator, X, y, classes, folds, *, method, fit_params, n_jobs=None):
    """Responses of clones of `estimator`, each row's from the clone that did not see the row.

    Parameters
    ----------
    estimator : classifier
        Cloned for each fold.
    X : indexable of length n_samples
        Passed on as it is, rows chosen by scikit-learn's own indexing.
    y : ndarray of shape (n_samples,)
    classes : ndarray of shape (n_classes,)
        Sorted distinct labels.
    folds : list of (train, test) index arrays
        The test arrays hold each row once, see `make_folds`.
    method : {"predict_proba", "decision_function"}
    fit_params : dict
        Metadata for `fit`; arrays with one entry per row are cut to the rows of the fold.
    n_jobs : int or None
        Folds at once; the result does not depend on it.

    Returns
    -------
    responses : ndarray of shape (n_samples, n_classes), float
        See `class_columns` for classes that the training part of a fold lacks. A training part of one
        class needs no classifier: it gives that class probability (or score) 1 and the others 0.
    """
    blocks = Parallel(n_jobs=n_jobs)(
        delayed(_one_fold)(
            clone(estimator), X, y, classes, train=train, test=test, method=method, fit_params=fit_params
        )
        for train, test in folds
    )
    order = np.concatenate([test for _, test in folds])
    responses = np.concatenate(blocks)
    return responses[np.argsort(order)]


def _one_fold(estimator, X, y, classes, *, train, test, method, fit_params):
    X_train, y_train = _safe_split(estimator, X, y, train)
    X_test, _ = _safe_split(estimator, X, y, test, train)
    seen = np.unique(y_train)
    if len(seen) == 1:
        # the smallest float holds 0 and 1 exactly and leaves the other folds' precision as it is
        return np.repeat((classes == seen[0]).astype(np.float16)[None, :], len(test), axis=0)
    own_params = _check_method_params(X, fit_params, indices=train)
    return responses_of(fit_labels(estimator, X_train, y_train, classes, own_params), X_test, classes, method)


def responses_of(model, X, classes, method):
    """What a fitted classifier says about rows, with one column per class; see `class_columns`.

    A net with one output per class that was trained without one of them has a column for it all the same, where
    labels are the positions of columns.
    """
    response = np.asarray(getattr(model, method)(X))
    names = model.names if isinstance(model, CodedClassifier) else np.arange(len(classes))
    if (
        response.ndim == 2
        and len(model.classes_) < response.shape[1] == len(classes)
        and same_names(names, classes)
    ):
        return response
    return class_columns(response, model.classes_, classes, method)


def class_columns(response, seen, classes, method):
    """Responses with one column per class of `classes`, whatever the classifier has seen.

    Parameters
    ----------
    response : ndarray of shape (n_samples, n_seen), or (n_samples,) from a decision function of two classes
    seen : array-like of shape (n_seen,)
        The classes of the classifier, in the order of its columns.
    classes : ndarray of shape (n_classes,)
        Sorted; holds all of `seen`.
    method : {"predict_proba", "predict_log_proba", "decision_function"}

    Returns
    -------
    columns : ndarray of shape (n_samples, n_classes)
        A class that was not seen has probability 0, or the lowest score of the row. A score s of two classes
        stands for (-s/2, s/2), whose softmax is 1 / (1 + exp(-s)): where scores are log-odds, as those of
        logistic regression or boosting are, mixing them mixes posteriors.

    Raises
    ------
    LabelError
        The columns do not stand for the classes, or a class is unknown.
    """
    response, seen = np.asarray(response), np.asarray(seen)
    if response.ndim == 1:
        response = np.column_stack([-response / 2, response / 2])
    if response.shape[1] != len(seen):
        raise LabelError(
            f"{method} must give one column per class, got {response.shape[1]} columns for {len(seen)} "
            "classes. Scores of pairs of classes cannot be used: set decision_function_shape='ovr'."
        )
    if same_names(seen, classes):
        return response
    where = positions_in(classes, seen)
    if (where < 0).any():
        raise LabelError(
            f"The classifier knows classes {seen.tolist()}, which are not among {classes.tolist()}. "
            "Its `fit` must keep the labels it is given."
        )
    absent = _OF_ABSENT[method] if method in _OF_ABSENT else response.min(axis=1, keepdims=True)
    columns = np.empty((len(response), len(classes)), dtype=response.dtype)
    columns[:] = absent
    columns[:, where] = response
    return columns


def uses_groups(cv):
    """Whether a splitter looks at groups, as far as can be told: scikit-learn's and ours say so by their kind."""
    if isinstance(cv, str) or not hasattr(cv, "split"):
        return False
    if type(cv).__module__.partition(".")[0] in ("sklearn", "fedrela_sk"):
        return isinstance(cv, GroupsConsumerMixin)
    return True


def make_folds(cv, X, y, groups, seed):
    """Index arrays (train, test) whose test parts hold each row exactly once.

    Parameters
    ----------
    cv : int, splitter, iterable of (train, test) or None
        None means 5. An int stands for stratified folds in row order, as everywhere in scikit-learn, but
        never more of them than the largest class has rows. A splitter's missing `random_state` is
        filled, on a copy, from `seed`.
    X, y, groups : what the splitter is shown
    seed : int

    Raises
    ------
    PartitionError
        A row is in no test part, in several, or an index lies beyond the rows.
    """
    with warnings.catch_warnings():
        # a class that a fold lacks is legal here
        warnings.filterwarnings("ignore", message=_FEW_MEMBERS)
        # splitters of scikit-learn know no other objects than strings
        shown = y if y.dtype != object or isinstance(y[0], str) else sorted_names(y)[1]
        splits = _splitter(cv, y, seed).split(X, shown, **groups)
        folds = [(_indices(train), _indices(test)) for train, test in splits]
    _check_partition([test for _, test in folds], len(y))
    return folds


def _indices(rows):
    rows = np.asarray(rows)
    return np.flatnonzero(rows) if rows.dtype == bool else rows


def _splitter(cv, y, seed):
    cv = 5 if cv is None else cv
    if isinstance(cv, Integral):
        largest = int(np.unique(y, return_counts=True)[1].max())
        return StratifiedKFold(min(cv, largest)) if largest > 1 else KFold(min(cv, len(y)))
    splitter = check_cv(cv)
    if getattr(splitter, "random_state", 0) is None:
        splitter = copy.copy(splitter)
        splitter.random_state = integer_seed(seed, Purpose.FOLDS) % 2**32
    return splitter


def _check_partition(tests, n_samples):
    rows = np.concatenate(tests)
    beyond = rows[(rows < 0) | (rows >= n_samples)]
    if beyond.size:
        raise PartitionError(
            f"cv holds row {beyond[0]}, but there are {n_samples} rows. Index arrays and PredefinedSplit fit "
            "one data set only: inside a search pass an int or another splitter."
        )
    times = np.bincount(rows, minlength=n_samples)
    wrong = np.flatnonzero(times != 1)
    if wrong.size:
        raise PartitionError(
            f"The test sets of cv must hold each row exactly once; row {wrong[0]} is in {times[wrong[0]]} of "
            f"them, and {wrong.size} rows are wrong in all. Use KFold, StratifiedKFold or GroupKFold; "
            "ShuffleSplit, repeated and time-series splitters do not give every row one posterior."
        )
