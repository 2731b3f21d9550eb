"""What all splitters share: parameters like an estimator's, checks at split, clients as test sets."""

from abc import abstractmethod
from numbers import Integral

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils import indexable

from fedrela_sk._labels import check_names, sorted_names
from fedrela_sk._random import Purpose, numpy_stream, seed_from
from fedrela_sk._sklearn import Interval, _num_samples
from fedrela_sk.exceptions import LabelError, PartitionError


class ClientSplit(BaseEstimator, BaseCrossValidator):
    """A scikit-learn splitter whose test sets are the clients; children write only `_draw_owners`.

    Attributes
    ----------
    n_empty_ : int
        Clients without rows in the last `split`; they are not yielded.
    """

    _parameter_constraints = {
        "n_splits": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    def split(self, X, y=None, groups=None):
        """Cut the rows into clients.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            Only its length is used.
        y : array-like of shape (n_samples,), default=None
            Class labels; `QuantitySkewSplit` does without.
        groups : object
            Ignored, there for scikit-learn.

        Returns
        -------
        pairs : iterator of (train, test)
            Both are ascending index arrays; `test` is one client's rows, `train` all the others.

        Raises
        ------
        PartitionError
            The rows cannot be cut as asked.
        LabelError
            `y` is missing or holds no class labels.
        """
        owners = self._owners(X, y)
        sizes = np.bincount(owners, minlength=self.n_splits)
        self.n_empty_ = int(np.count_nonzero(sizes == 0))
        return _pairs(owners, sizes)

    def get_n_splits(self, X=None, y=None, groups=None):
        """Number of clients: the test sets that `split(X, y)` yields where that is known, else `n_splits`.

        Without `X`, or unless `random_state` is an integer, it is the nominal `n_splits`, although `split`
        leaves out clients without rows.

        Returns
        -------
        n_splits : int
        """
        if X is None or not isinstance(self.random_state, Integral):
            return self.n_splits
        return len(np.unique(self._owners(X, y)))

    def _owners(self, X, y):
        """The client of each row, an array of integers in 0..n_splits-1."""
        self._validate_params()
        X, y = indexable(X, y)
        n_rows = _num_samples(X)
        if n_rows == 0:
            raise PartitionError("There is nothing to split: pass at least one row, got 0.")
        generator = numpy_stream(seed_from(self.random_state), Purpose.SPLIT)
        return self._draw_owners(n_rows, y, generator)

    @abstractmethod
    def _draw_owners(self, n_rows, y, generator):
        """The client of each row; `generator` is the only source of chance."""


def _pairs(owners, sizes):
    """(train, test) of each client that has rows, in the order of the clients."""
    by_client = np.argsort(owners, kind="stable")
    for client, test in enumerate(np.split(by_client, np.cumsum(sizes)[:-1])):
        if len(test):
            yield np.flatnonzero(owners != client), test


def class_codes(y, name):
    """Classes numbered in order of first appearance, so that their names never matter.

    Parameters
    ----------
    y : array-like of shape (n_samples,) or None
        Class labels of any sortable type.
    name : str
        The splitter, for the message.

    Returns
    -------
    codes : ndarray of shape (n_samples,), int
    """
    if y is None:
        raise LabelError(f"{name} cuts by class: pass the class labels as y, got None.")
    y = check_names(y)
    _refuse_numbers_that_are_no_classes(y, name)
    _, inverse = sorted_names(y)
    _, first = np.unique(inverse, return_index=True)
    rank = np.empty(len(first), dtype=np.intp)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[inverse]


def _refuse_numbers_that_are_no_classes(y, name):
    if y.dtype.kind != "f":
        return
    odd = y[~np.isfinite(y) | (np.floor(y) != y)]
    if len(odd):
        raise LabelError(
            f"{name} cuts by class, and y does not hold class labels: pass integers or strings, or use a "
            f"splitter that needs no classes (KFold, QuantitySkewSplit); got {odd[0]}."
        )


def check_min_rows(min_rows, n_splits, n_rows):
    """Raise unless every client can get its minimum."""
    if min_rows * n_splits > n_rows:
        raise PartitionError(
            f"min_rows={min_rows} for each of n_splits={n_splits} clients needs {min_rows * n_splits} rows: "
            f"lower min_rows to {n_rows // n_splits} or n_splits, got {n_rows} rows."
        )
