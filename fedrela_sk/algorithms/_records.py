"""What the hooks of a method are given: facts of the fit, of a round, of a client's training and of its run."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Broadcast:
    """What the server sends to clients beside the model; all of it is counted as traffic.

    Attributes
    ----------
    every_round : dict of tensors
        To every client that trains or reports.
    first_time : dict of tensors
        To a client that trains for the first time; it stays there.
    relabeling : dict of tensors
        To a client that relabels in this round, where it cannot work out the model that predicts by itself.
    """

    every_round: dict = field(default_factory=dict)
    first_time: dict = field(default_factory=dict)
    relabeling: dict = field(default_factory=dict)


@dataclass(frozen=True)
class Query:
    """A question that the server asks clients before they train.

    Attributes
    ----------
    report : callable of (model, data, local)
        Runs at a client and returns a dictionary of small tensors, which is sent and counted as traffic. `model` is
        a `fedrela_sk.training.Model` that holds the global model, `data` the client's own rows as
        `fedrela_sk.training.ClientData`, `local` a `Local`.
    gather : callable of (reports, server_state, facts)
        Runs at the server and returns its new state. `reports` has the client's number as key and its report as
        value; it is empty where no asked client has a row left. `facts` are those of the round that is about to
        train, whose participants are here the clients that answered.
    whom : {"sampled", "all"}, default="sampled"
        The clients of the round, or all clients.
    needs_model : bool, default=True
        Whether a client receives the model for its report, which counts as traffic where it does not train in the
        same round. False: `report` gets no model.
    """

    report: Callable
    gather: Callable
    whom: str = "sampled"
    needs_model: bool = True


@dataclass(frozen=True)
class Job:
    """What a method may know before round 0.

    Attributes
    ----------
    n_clients : int
        Clients that have rows. Hooks count them from 0 in the order of their keys.
    n_classes : int
    classes : ndarray of shape (n_classes,)
        Labels in the order of the columns.
    seed : int
        Keys every stream of the fit.
    like : tensor
        An empty tensor of the module's dtype on its device.
    module : nn.Module
        The module that is trained, as `Algorithm.prepare_module` returned it.
    auxiliary : (tensor of shape (n_rows, ...), tensor of shape (n_rows,)) or None
        Rows that the server holds, as `Algorithm.auxiliary` asks for them, and their classes. No client sees them.
    """

    n_clients: int
    n_classes: int
    classes: np.ndarray
    seed: int
    like: Any
    module: Any = None
    auxiliary: Any = None

    @property
    def trainable(self) -> Any:
        """Names of the parameters that learn, a tuple; all other tensors are frozen or buffers."""
        return trainable_names(self.module)


@dataclass(frozen=True)
class Recipe:
    """How every client trains, as the net says it.

    Attributes
    ----------
    epochs : int
    batch_size : int
        -1 for all rows at once.
    momentum, weight_decay : float
        0 where the optimizer has none.
    """

    epochs: int
    batch_size: int
    momentum: float = 0.0
    weight_decay: float = 0.0


@dataclass(frozen=True)
class RoundFacts:
    """What the server knows of the round that just ended, without any client's data.

    Attributes
    ----------
    round : int
    n_participants : int
        Updates that were aggregated.
    n_clients : int
        All clients that have rows.
    lr : float
        Clients' learning rate in this round.
    trainable : tuple of str
        Names of the parameters that learn; all other tensors are frozen or buffers.
    anchor : dict of tensors
        The global tensors that the round started from.
    recipe : Recipe or None
    """

    round: int
    n_participants: int
    n_clients: int
    lr: float
    trainable: tuple = ()
    anchor: dict = field(default_factory=dict)
    recipe: Recipe | None = None


class NoStream:
    """Stands where a hook has no draws, and says why when it is asked for some."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        raise TypeError(
            "local.stream has no draws here: clients that train together have none of their own. State in the method "
            "why it trains one client after the other, loop_only = 'draws ...'."
        )

    def __bool__(self):
        return False


NO_STREAM = NoStream()


@dataclass(frozen=True)
class Local:
    """What a client's hooks may read in one round.

    Attributes
    ----------
    anchor : dict of tensors
        Parameters and buffers as the client received them.
    state : dict of tensors
        What the method keeps at this client.
    server : dict of tensors
        What `Algorithm.server_broadcast` sends along with the model.
    counts : tensor of shape (n_classes,)
        The client's rows of each class (sums of their weights), of the labels that `counts` names.
    start : dict of tensors
        What `Algorithm.client_begin` computed before the first step of this round.
    round : int
    stream : numpy.random.Generator
        Draws of this client in this round: always there in a report, in other hooks only of methods that are
        `loop_only`; of others it raises a TypeError where it is used.
    """

    anchor: dict
    state: dict
    server: dict
    counts: Any
    start: dict = field(default_factory=dict)
    round: int = 0
    stream: Any = NO_STREAM


@dataclass(frozen=True)
class LocalRun:
    """Facts about one client's local training, for hooks that need them.

    Attributes
    ----------
    n_steps : int
        Optimizer steps that really happened.
    lr : float
        Learning rate of this round, schedule included.
    n_rows : int
        Rows trained on.
    weight : float
        The client's aggregation weight.
    momentum : float
        Momentum of the client's optimizer, 0 where it has none.
    dampening : float
        Share of a gradient that the momentum buffer leaves out.
    nesterov : bool
    optimizer : str
        Class name of the client's optimizer.
    alike : bool
        Whether it treats all parameters with one learning rate, momentum and dampening.
    trainable : tuple of str
        As in `RoundFacts`.
    """

    n_steps: int
    lr: float
    n_rows: int
    weight: float
    momentum: float = 0.0
    dampening: float = 0.0
    nesterov: bool = False
    optimizer: str = "SGD"
    alike: bool = True
    trainable: tuple = ()


def frozen_names(module):
    """Names of a module's parameters that do not learn, a set; as in `trainable_names`."""
    named = module.named_parameters(remove_duplicate=False)
    return {name for name, param in named if not param.requires_grad}


def trainable_names(module):
    """Names of a module's parameters that learn, a tuple; one that has several names is there under each."""
    named = module.named_parameters(remove_duplicate=False)
    return tuple(name for name, param in named if param.requires_grad)
