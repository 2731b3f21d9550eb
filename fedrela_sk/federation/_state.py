"""What a fit knows before its first round, and what changes from round to round."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedrela_sk import _tree
from fedrela_sk.federation.setup._validation import Validation
from fedrela_sk.report import History
from fedrela_sk.training import LocalData


@dataclass(frozen=True)
class Plan:
    """Everything a fit knows before its first round.

    Attributes
    ----------
    specs : list of ClientSpec
        All clients by key, empty ones included.
    data : LocalData
    labels : ndarray of shape (n_rows,)
        Original labels.
    codes : ndarray of shape (n_rows,), int64
        Original labels as positions in `classes`.
    classes : ndarray of shape (n_classes,)
    weights : ndarray of shape (n_rows,) or None
        Row weights in float64.
    validation : Validation or None
    algorithm : Algorithm
    relabeler : object or None
    first_relabel : int or None
    relabel_every : int or None
    relabel_posteriors : dict
    n_rounds : int
    participation : float or Participation
    client_weight, class_weight, lr_schedule : as in `FederatedClassifier`
    select : str
    seed : int
    notes : tuple of str
        What the history should say of the partition.
    auxiliary : (tensor, tensor) or None
        Rows that the server holds, and their classes.
    local_data : object or None
        What changes each client's rows before it trains.
    targets : ndarray of shape (n_classes,), bool, or None
        Classes that somebody has; the others were declared, and nothing is relabelled into them. None: all.
    """

    specs: list
    data: LocalData
    labels: np.ndarray
    codes: np.ndarray
    classes: np.ndarray
    weights: np.ndarray | None
    validation: Validation | None
    algorithm: Any
    relabeler: Any
    first_relabel: int | None
    relabel_every: int | None
    relabel_posteriors: dict
    n_rounds: int
    participation: Any
    client_weight: Any
    class_weight: Any
    lr_schedule: Any
    select: str
    seed: int
    notes: tuple = ()
    auxiliary: tuple | None = None
    local_data: Any = None
    targets: np.ndarray | None = None

    @property
    def records(self):
        """Whether clients record the posteriors that they relabel by while they train."""
        return self.relabel_posteriors["passes"] == "training"


@dataclass
class ServerState:
    """What the server holds from round to round.

    Attributes
    ----------
    params : dict of tensors
        The global model.
    method : dict of tensors
        What the method keeps at the server.
    """

    params: dict
    method: dict


@dataclass
class ClientStates:
    """What clients hold from round to round; in a real federation each has its own part, and only that.

    Attributes
    ----------
    codes : ndarray of shape (n_rows,), int64
        Current labels.
    keep : ndarray of shape (n_rows,), bool
        Rows that relabeling left in training.
    kept : dict
        Position of a client to the model's tensors that stay there.
    method : dict
        Position of a client to what the method keeps there.
    relabelings : dict
        Position of a client to its latest `ClientRelabeling`.
    recorded : dict
        Position of a client to ``{"round", "posteriors"}``: what it recorded of its training rows, and when.
    """

    codes: np.ndarray
    keep: np.ndarray
    kept: dict = field(default_factory=dict)
    method: dict = field(default_factory=dict)
    relabelings: dict = field(default_factory=dict)
    recorded: dict = field(default_factory=dict)

    def model_at(self, spec, params):
        """The model as a client has it: the tensors `params` that it was sent, and those that stay with it."""
        kept = self.kept.get(spec.position)
        return params | kept if kept else params

    def put_back(self, update):
        """Keep what an update leaves at its clients.

        As copies: a view of what clients trained together would hold the memory of them all.
        """
        for single in update.singles() if update.kept or update.state else ():
            if single.kept:
                self.kept[single.client.position] = _tree.copy(single.kept)
            if single.state:
                self.method[single.client.position] = _tree.copy(single.state)


@dataclass
class State:
    """Everything that changes from round to round.

    Attributes
    ----------
    server : ServerState
    clients : ClientStates
    history : History
    best : tuple or None
        (validation score, round, params, kept) of the best round so far.
    """

    server: ServerState
    clients: ClientStates
    history: History
    best: tuple | None = None
