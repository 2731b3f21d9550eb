"""The hooks of a federated method; FedAvg is the default of every one of them."""

from dataclasses import dataclass

from sklearn.base import BaseEstimator

from fedrela_sk.aggregation import WeightedMean


@dataclass(frozen=True)
class LocalRun:
    """Facts about one client's local training, for hooks that need them.

    Attributes
    ----------
    n_steps : int
        Optimiser steps that really happened.
    lr : float
        Learning rate of this round, schedule included.
    n_rows : int
        Rows trained on.
    weight : float
        The client's aggregation weight.
    """

    n_steps: int
    lr: float
    n_rows: int
    weight: float


class Algorithm(BaseEstimator):
    """Base of all methods.

    A method is a `BaseEstimator`: its constructor stores hyper-parameters, so that
    `GridSearchCV` over ``algorithm__...`` works. Hooks are pure functions of named tensors: they return
    new ones and write nothing to `self`. State that lives longer than a round is passed in and returned.

    In every hook `params` are the local tensors, `anchor` the tensors as the client received them, both
    ``{name: tensor}``; `penalty` and `correct` see trainable parameters only, `finish`, `shared` and
    `step` see buffers too.

    Attributes
    ----------
    averages : bool
        Whether there is one global model. False: clients predict for themselves.
    neutral : dict or None
        Hyper-parameters under which the method equals FedAvg; None where `neutral_reason` says why there
        are none.
    """

    averages = True
    neutral = None
    neutral_reason = "not stated"

    def shared(self, names):
        """Names of the tensors that travel; all others stay at their client between rounds."""
        return tuple(names)

    def init_server(self, params):
        """State of the server before round 0, a dictionary of tensors."""
        return {}

    def init_client(self, params):
        """State of a client before it first takes part, a dictionary of tensors."""
        return {}

    def penalty(self, params, anchor, client_state, server_state):
        """A scalar tensor that is added to the loss of every batch."""
        return 0.0

    def correct(self, grads, params, anchor, client_state, server_state):
        """The gradients that the optimiser sees, ``{name: tensor}``."""
        return grads

    def finish(self, params, anchor, client_state, server_state, run):
        """(tensors to send, new client state) after local training; `run` is a `LocalRun`."""
        return params, client_state

    def aggregate(self):
        """A new object with `add(tensors, weight)` and `result()`."""
        return WeightedMean()

    def step(self, params, aggregated, server_state):
        """(new global tensors, new server state) from what `aggregate` gave."""
        return aggregated, server_state

    def overrides(self, hook):
        """Whether this method has its own `hook`: engines skip those that would change nothing."""
        return getattr(type(self), hook) is not getattr(Algorithm, hook)
