"""Records exchanged in a round: who a client is, what it sends after training, how many bytes travel for what."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedrela_sk import _tree

WEIGHT_NBYTES = 8  # an update carries its aggregation weight, one float64


DIRECTIONS = ("up", "down")
PURPOSES = ("model", "extra tensors", "reports", "weights")


class Traffic:
    """A log of bytes.

    "up" is what clients send, "down" what they receive. The purposes are "model" (tensors of the model),
    "extra tensors" (what a method sends beside it), "reports" (answers before training, and what rules of
    participation ask for) and "weights" (the aggregation weight of an update).

    Examples
    --------
    >>> from fedrela_sk._update import Traffic
    >>> log = Traffic()
    >>> log.add("down", "model", 2 * 400)
    >>> log.add("up", "model", 2 * 400)
    >>> log.add("up", "weights", 2 * 8)
    >>> log.nbytes["up"]
    {'model': 800, 'extra tensors': 0, 'reports': 0, 'weights': 16}
    """

    def __init__(self):
        self.nbytes = {direction: dict.fromkeys(PURPOSES, 0) for direction in DIRECTIONS}

    def add(self, direction, purpose, nbytes):
        """Count some bytes.

        Parameters
        ----------
        direction : {"up", "down"}
        purpose : {"model", "extra tensors", "reports", "weights"}
        nbytes : int
        """
        self.nbytes[direction][purpose] += nbytes


def total(traffic, direction):
    """Bytes of all purposes in one direction, of a dictionary like ``Traffic.nbytes``."""
    return sum(traffic.get(direction, {}).values())


@dataclass(frozen=True)
class ClientSpec:
    """One client: who it is and which rows are its own.

    Attributes
    ----------
    key : label or int
        Its group label, or its position in the split.
    stream_id : int
        `key` hashed by a fixed function; keys the client's random streams.
    position : int
        Its place in `client_names_`.
    rows : ndarray of int64, ascending
        All of its rows in the data given to `fit`.
    train_rows : ndarray of int64, ascending
        `rows` without those set aside for validation.
    """

    key: Any
    stream_id: int
    position: int
    rows: np.ndarray
    train_rows: np.ndarray


@dataclass(frozen=True)
class Receipt:
    """What the record of a round keeps of a client's update.

    Attributes
    ----------
    client : ClientSpec
    n_steps : int
    loss : float
    notes : tuple of str
    nbytes : dict
        Bytes that were sent, by purpose as in `Traffic`.
    """

    client: ClientSpec
    n_steps: int
    loss: float
    notes: tuple
    nbytes: dict


def sent_nbytes(tensors, model, n_clients=1):
    """Bytes of one client's update by purpose; none where nothing is sent.

    Parameters
    ----------
    tensors : dict of tensors
        What is sent, of `n_clients` clients.
    model : collection of str
        Names of the model's tensors; all others are the method's own.
    n_clients : int, default=1
    """
    if not tensors:
        return {}
    own = _tree.nbytes({name: tensor for name, tensor in tensors.items() if name in model})
    extra = _tree.nbytes(tensors) - own
    return {"model": own // n_clients, "extra tensors": extra // n_clients, "weights": WEIGHT_NBYTES}


def mean_loss(receipts, n_rows):
    """Mean of the clients' losses weighted by their rows, NaN where nobody trained.

    Parameters
    ----------
    receipts : list of Receipt
    n_rows : dict
        Position of each of their clients to the rows that it trained on.
    """
    if not receipts:
        return float("nan")
    weights = [n_rows[receipt.client.position] for receipt in receipts]
    return float(np.average([receipt.loss for receipt in receipts], weights=weights))


@dataclass(frozen=True)
class ClientUpdate:
    """What one client sends after local training, and what it keeps for itself.

    Attributes
    ----------
    client : ClientSpec
    tensors : dict of tensors
        What is sent.
    weight : float
        Its weight in the aggregation.
    kept : dict of tensors
        The model's tensors that do not travel; they stay at the client.
    state : dict of tensors
        The algorithm's state of this client until it takes part again; never sent.
    loss : float
        Mean training loss over the rows seen, as the net's criterion gives it.
    n_steps : int
        Optimizer steps that really happened.
    notes : tuple of str
        What a reader of the history should know.
    recorded : dict
        This client's position to posteriors of its training rows, where it recorded any; never sent.
    """

    client: ClientSpec
    tensors: dict
    weight: float
    kept: dict = field(default_factory=dict)
    state: dict = field(default_factory=dict)
    loss: float = float("nan")
    n_steps: int = 0
    notes: tuple = ()
    recorded: dict = field(default_factory=dict)

    @property
    def nbytes(self) -> Any:
        """Bytes of everything that is sent, the weight included; 0 where nothing is."""
        return sum(sent_nbytes(self.tensors, ()).values())

    n_clients = 1

    def add_to(self, aggregator: Any) -> None:
        """Add what is sent to an aggregator."""
        aggregator.add(self.tensors, self.weight)

    def singles(self) -> Any:
        """This update, as the only one of its kind."""
        return (self,)

    def receipts(self, model: Any) -> Any:
        """One `Receipt`; `model` are the names of the model's tensors."""
        return [Receipt(self.client, self.n_steps, self.loss, self.notes, sent_nbytes(self.tensors, model))]


@dataclass(frozen=True)
class ChunkUpdate:
    """The updates of several clients that trained at once, every tensor with a leading client axis.

    Attributes
    ----------
    clients : tuple of ClientSpec
        By key.
    tensors, kept, state : dict of tensors of shape (n_clients, ...)
        As in `ClientUpdate`.
    weights, losses : ndarray of shape (n_clients,), float64
    steps : ndarray of shape (n_clients,), int64
    notes : tuple of tuple of str
    recorded : dict
        Position of every client that recorded posteriors to a tensor of them.
    """

    clients: tuple
    tensors: dict
    weights: np.ndarray
    kept: dict
    state: dict
    losses: np.ndarray
    steps: np.ndarray
    notes: tuple
    recorded: dict = field(default_factory=dict)

    @property
    def n_clients(self) -> Any:
        """Clients whose updates these are."""
        return len(self.clients)

    def add_to(self, aggregator: Any) -> None:
        """Add what is sent to an aggregator, in one operation a tensor where it can."""
        if hasattr(aggregator, "add_stack"):
            aggregator.add_stack(self.tensors, self.weights)
            return
        for single in self.singles():
            single.add_to(aggregator)

    def receipts(self, model: Any) -> Any:
        """One `Receipt` per client; `model` are the names of the model's tensors."""
        each = sent_nbytes(self.tensors, model, len(self.clients))
        return [
            Receipt(client, n_steps, loss, notes, each)
            for client, n_steps, loss, notes in zip(
                self.clients, self.steps.tolist(), self.losses.tolist(), self.notes, strict=True
            )
        ]

    def singles(self) -> Iterator[Any]:
        """One `ClientUpdate` per client; tensors are views."""
        for i, client in enumerate(self.clients):
            tensors, kept, state = (
                {name: stack[i] for name, stack in tree.items()}
                for tree in (self.tensors, self.kept, self.state)
            )
            yield ClientUpdate(
                client,
                tensors,
                float(self.weights[i]),
                kept,
                state,
                float(self.losses[i]),
                int(self.steps[i]),
                self.notes[i],
                {p: Q for p, Q in self.recorded.items() if p == client.position},
            )
