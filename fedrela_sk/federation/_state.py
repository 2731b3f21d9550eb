"""What changes from round to round: what the server holds, what clients hold, what went on record."""

from dataclasses import dataclass, field

import numpy as np

from fedrela_sk import _tree
from fedrela_sk.report import History


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
