"""Rows set aside to watch the global model, and what is measured on them."""

import warnings
from dataclasses import dataclass, replace

import numpy as np
import torch
from sklearn.metrics import balanced_accuracy_score, log_loss

from fedrela_sk._labels import check_groups, positions_in
from fedrela_sk._random import Purpose, numpy_stream
from fedrela_sk._warnings import warn_user
from fedrela_sk.exceptions import FedReLaWarning
from fedrela_sk.federation.clients._counts import total_weight
from fedrela_sk.federation.setup._inputs import codes_of, to_tensor
from fedrela_sk.training._sparse import take_rows


@dataclass(frozen=True)
class Validation:
    """Validation rows.

    Attributes
    ----------
    X : tensor of shape (n_rows, ...) or SparseRows
    codes : ndarray of shape (n_rows,), int64
    weights : ndarray of shape (n_rows,) or None
    positions : ndarray of shape (n_rows,) or None
        Position of each row's client; None for rows that belong to no client.
    """

    X: torch.Tensor
    codes: np.ndarray
    weights: np.ndarray | None = None
    positions: np.ndarray | None = None

    def score(self, Q):
        """(log loss, balanced accuracy over the classes present) of posteriors Q of these rows."""
        loss = log_loss(self.codes, Q, sample_weight=self.weights, labels=np.arange(Q.shape[1]))
        with warnings.catch_warnings():
            # a class may be missing here: recall is averaged over those present
            warnings.filterwarnings("ignore", message="y_pred contains classes not in y_true")
            warnings.filterwarnings("ignore", message="A single label was found")
            score = balanced_accuracy_score(self.codes, Q.argmax(1), sample_weight=self.weights)
        return float(loss), float(score)


def hold_out(spec, share, seed):
    """A client without the rows that it sets aside: floor(share x rows), drawn at random; one row stays.

    Parameters
    ----------
    spec : ClientSpec
    share : float in (0, 1)
    seed : int

    Returns
    -------
    spec : ClientSpec
        With the remaining `train_rows`.
    """
    n_rows = len(spec.rows)
    n_held = min(int(share * n_rows + 1e-9), n_rows - 1)  # 0.29 x 100 is meant to be 29
    if n_held <= 0:
        return spec
    stream = numpy_stream(seed, Purpose.VALIDATION, client=spec.stream_id)
    order = stream.permutation(n_rows)
    return replace(spec, train_rows=spec.rows[np.sort(order[n_held:])])


def hold_out_all(specs, share, seed):
    """All clients without the rows that they set aside.

    Returns
    -------
    specs : list of ClientSpec
    rows : ndarray of int64
        Rows set aside, client by client.
    positions : ndarray of int64
        Position of each such row's client.
    """
    held = [hold_out(spec, share, seed) for spec in specs]
    rows = [np.setdiff1d(spec.rows, spec.train_rows, assume_unique=True) for spec in held]
    positions = np.repeat([spec.position for spec in held], [len(own) for own in rows])
    return held, np.concatenate(rows), positions


def rows_of_the_callers(X_val, y_val, classes, net, whole=False, names=None):
    """`Validation` on rows given at `fit`.

    Parameters
    ----------
    X_val : ndarray of shape (n_rows, ...)
        Checked as rows to predict are.
    y_val : array-like of shape (n_rows,)
    classes : ndarray of shape (n_classes,)
    net : initialized skorch net
    whole : bool
        Whether its module takes integers.
    names : sequence of str or None
        Names of the columns.
    """
    codes = codes_of(y_val, classes, "y_val")
    if X_val.shape[0] != len(codes):
        raise ValueError(
            f"X_val has {X_val.shape[0]} rows, but y_val has {len(codes)}. Pass one label per row."
        )
    return Validation(to_tensor(X_val, net, what="X_val", whole=whole, names=names), codes)


def with_clients(validation, groups, specs, algorithm):
    """Validation rows of the caller's with the position of each row's client.

    Parameters
    ----------
    validation : Validation
    groups : array-like of shape (n_rows,) or None
        Names of clients; unknown ones are judged by the global model.
    specs : list of ClientSpec
    algorithm : Algorithm
        Where it gives clients heads of their own, missing groups are worth a warning.
    """
    if groups is None:
        if algorithm.personal:
            warn_user(
                f"Clients have heads of their own under {type(algorithm).__name__}, but X_val came without "
                "groups_val: the global head is judged. Pass groups_val=, each row's client.",
                FedReLaWarning,
            )
        return validation
    groups = check_groups(groups, len(validation.codes), "groups_val")
    positions = positions_in([spec.key for spec in specs], groups)
    return replace(validation, positions=positions)


def set_aside(specs, share, X, codes, weights, seed):
    """A share of each client's rows as `Validation`.

    Parameters
    ----------
    specs : list of ClientSpec
    share : float in (0, 1)
    X : tensor of shape (n_rows, ...)
    codes : ndarray of shape (n_rows,), int64
    weights : ndarray of shape (n_rows,) or None
    seed : int

    Returns
    -------
    specs : list of ClientSpec
        Without the rows set aside.
    validation : Validation
    """
    specs, rows, positions = hold_out_all(specs, share, seed)
    if not total_weight(rows, weights):
        raise ValueError(
            f"validation={share} sets no row with a weight aside: the largest client has "
            f"{max(len(spec.rows) for spec in specs)} rows. Use a larger share or pass X_val, y_val."
        )
    held_weights = None if weights is None else weights[rows]
    return specs, Validation(take_rows(X, rows), codes[rows], held_weights, positions)
