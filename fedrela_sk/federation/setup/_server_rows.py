"""Labeled rows that the server of a federation holds, for methods that ask for them."""

from numbers import Integral

import numpy as np
import torch

from fedrela_sk.exceptions import FedReLaError, LabelError
from fedrela_sk.federation.setup._inputs import codes_of, to_tensor


def auxiliary_rows(asked, X, codes, rows, classes, *, net, check):
    """The rows that `Algorithm.auxiliary` asks for.

    Parameters
    ----------
    asked : int >= 1, pair (X, y) or None
    X : tensor of shape (n_rows, ...)
        Training data.
    codes : ndarray of shape (n_rows,), int64
        Original labels.
    rows : ndarray of int64, ascending
        Rows in training.
    classes : ndarray of shape (n_classes,)
    net : initialized skorch net
    check : callable of (X, name)
        Checks rows of the caller's own as rows to predict are checked.

    Returns
    -------
    auxiliary : (tensor of shape (n_auxiliary, ...), tensor of shape (n_auxiliary,), int64) or None
        Ordered by class where they come from the training data, else as given.

    Raises
    ------
    LabelError
        If a class has no row, with its name.
    ValueError
        If it is neither of the two, or if shapes differ.
    """
    if asked is None:
        return None
    if isinstance(asked, Integral) and not isinstance(asked, bool) and asked >= 1:
        of_class = [rows[codes[rows] == code][:asked] for code in range(len(classes))]
        _check_every_class([len(own) for own in of_class], classes)
        picked = torch.from_numpy(np.concatenate(of_class))
        return X[picked.to(X.device)], torch.from_numpy(codes)[picked].to(X.device)
    if not (isinstance(asked, tuple | list) and len(asked) == 2):
        got = f"a {type(asked).__name__}" if hasattr(asked, "shape") else repr(asked)
        raise ValueError(
            f"auxiliary must be a whole number >= 1 of rows per class or a pair (X, y), got {got}."
        )
    try:
        own = check(asked[0], "auxiliary X")
    except FedReLaError:
        raise
    except ValueError as error:
        raise ValueError(f"auxiliary X does not fit the training data: {error}") from error
    labels = codes_of(asked[1], classes, "auxiliary y")
    if own.shape != (len(labels), *X.shape[1:]):
        raise ValueError(
            f"auxiliary must be one label per row and rows shaped as the training data, {tuple(X.shape[1:])}: got X "
            f"of shape {own.shape} and {len(labels)} labels."
        )
    _check_every_class(np.bincount(labels, minlength=len(classes)), classes)
    return to_tensor(own, net, what="auxiliary X", whole=not X.dtype.is_floating_point), torch.from_numpy(
        labels
    ).to(X.device)


def _check_every_class(counts, classes):
    for label, count in zip(classes.tolist(), counts, strict=True):
        if not count:
            raise LabelError(
                f"auxiliary has no row of class {label!r}. It needs every class of y, here {classes.tolist()}."
            )
