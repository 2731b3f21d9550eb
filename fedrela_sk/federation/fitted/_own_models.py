"""Posteriors from clients' own models: where there is no global one, and where clients have one beside it."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from fedrela_sk._warnings import warn_user
from fedrela_sk.exceptions import FedReLaWarning
from fedrela_sk.training._posteriors import posteriors
from fedrela_sk.training.runtime._replica import replica_of


def predict_alone(net, params, kept, X, positions, n_classes, *, sizes):
    """Posteriors from clients that never averaged: a row's own client, else the mean weighted by rows.

    Parameters
    ----------
    net : initialized skorch net
        Left as it is, here and in `predict_personal`: many threads may predict at once.
    params : dict of tensors
        What clients start from.
    kept : dict
        Position of a client to its own tensors; a client that never trained predicts with `params`.
    sizes : ndarray of shape (n_clients,)
        Weight of every client, 0 for those without rows.
    X : tensor of shape (n_rows, ...)
    positions : ndarray of shape (n_rows,), int64
        -1 for rows of no known client.
    n_classes : int

    Returns
    -------
    Q : ndarray of shape (n_rows, n_classes), float64
    """
    Q = np.zeros((len(X), n_classes))
    unknown = ~np.isin(positions, np.flatnonzero(sizes))
    total = sizes.sum()
    for position, size in enumerate(sizes.tolist()):
        own = positions == position
        rows = np.flatnonzero(own | unknown)
        if not size or not len(rows):
            continue
        own_net = replica_of(net, params | kept.get(position, {}))
        posterior = posteriors(own_net, X[torch.from_numpy(rows)], n_classes)
        factor = np.where(own[rows], 1.0, size / total)
        Q[rows] += factor[:, None] * posterior
    return Q


def predict_personal(net, params, kept, X, positions, n_classes, *, algorithm):
    """Posteriors from a global model and the clients' own: a row's own client, else the global one.

    Arguments that are not named here, and the result, are as in `predict_alone`.

    Parameters
    ----------
    algorithm : Algorithm
        Gives a client's tensors by `personal_params`.
    params : dict of tensors
        The global ones, as they predict.
    kept : dict
        Position of a client to the tensors that stay there; clients that never trained have none.
    """
    Q = np.empty((len(X), n_classes))
    positions = np.where(np.isin(positions, list(kept)), positions, -1)
    for position in np.unique(positions).tolist():
        rows = np.flatnonzero(positions == position)
        own = params if position < 0 else algorithm.personal_params(params, kept[position])
        Q[rows] = posteriors(replica_of(net, own), X[torch.from_numpy(rows)], n_classes)
    return Q


@dataclass(frozen=True)
class OwnModels:
    """The clients' own models of a fitted federation.

    Attributes
    ----------
    algorithm : Algorithm
    net : skorch net
        The global one, where there is one.
    params : dict of tensors
        The global tensors as they predict, or what clients start from.
    kept : dict
        Position of a client to its own tensors.
    sizes : ndarray of shape (n_clients,)
    said : list
        Not empty once the caller was warned that groups are missing.
    """

    algorithm: Any
    net: Any
    params: dict
    kept: dict
    sizes: np.ndarray
    said: list = field(default_factory=list)

    @classmethod
    def of(cls, algorithm, net, params, kept, sizes):
        """The clients' own models, of a method that has any."""
        kept = {position: _on_cpu(own) for position, own in kept.items()}
        return cls(algorithm, net, _on_cpu(params), kept, sizes)

    def with_net(self, net):
        """The same models around another copy of the net."""
        return replace(self, net=net, said=[])

    def say_global(self):
        """Warn, once for a fitted model, that clients' own heads are not asked."""
        if self.algorithm.personal and not self.said:
            self.said.append(True)
            warn_user(
                f"Clients have heads of their own under {type(self.algorithm).__name__}, but no groups were given: "
                "the global head predicts. Pass groups=, each row's client as in client_names_.",
                FedReLaWarning,
            )

    def predict(self, X, positions, n_classes):
        """Posteriors of rows whose clients stand at `positions`, -1 for unknown ones."""
        if self.algorithm.personal:
            return predict_personal(
                self.net, self.params, self.kept, X, positions, n_classes, algorithm=self.algorithm
            )
        return predict_alone(self.net, self.params, self.kept, X, positions, n_classes, sizes=self.sizes)


def _on_cpu(params):
    """Tensors where every machine can load them."""
    return {name: tensor.cpu() for name, tensor in params.items()}
