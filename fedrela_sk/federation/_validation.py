"""Rows set aside to watch the global model, and what is measured on them."""

import warnings
from dataclasses import dataclass, replace

import numpy as np
import torch
from sklearn.metrics import balanced_accuracy_score, log_loss

from fedrela_sk._random import Purpose, numpy_stream


@dataclass(frozen=True)
class Validation:
    """Validation rows.

    Attributes
    ----------
    X : tensor of shape (n_rows, ...)
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
    stream = numpy_stream(seed, Purpose.VALIDATION, client=spec.code)
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
