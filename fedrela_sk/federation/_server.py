"""The server: it weighs clients, aggregates what they send, takes its step, trains, and says how the model predicts.

It sees messages and its own state, no row and no label.
"""

from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from fedrela_sk import _tree
from fedrela_sk._random import Purpose
from fedrela_sk.algorithms import Algorithm, Recipe, RoundFacts
from fedrela_sk.algorithms._records import frozen_names, trainable_names
from fedrela_sk.algorithms._returned import check_broadcast, check_weights
from fedrela_sk.exceptions import ClientError, FedReLaError, NotFiniteError
from fedrela_sk.training import Instructions, Model
from fedrela_sk.training._net import write_tensors
from fedrela_sk.training.runtime._generator import forked_generators, seed_generators
from fedrela_sk.training.runtime._replica import private_copy


@dataclass(frozen=True)
class ServerSettings:
    """What the server is told before round 0.

    Attributes
    ----------
    algorithm : Algorithm
    n_classes, n_clients : int
        Clients that have rows.
    n_rounds, seed : int
    client_weight, lr_schedule : as in `FederatedClassifier`
    """

    algorithm: Algorithm
    n_classes: int
    n_clients: int
    n_rounds: int
    seed: int
    client_weight: Any = "size"
    lr_schedule: Any = None


class Aggregation:
    """The updates of one round, added up as they come.

    Parameters
    ----------
    algorithm : Algorithm
        Gives the rule, `server_aggregator`.

    Attributes
    ----------
    n_updates : int
    """

    def __init__(self, algorithm):
        self._sum = algorithm.server_aggregator()
        self.n_updates = 0

    def add(self, update):
        """Add a `ClientUpdate` or a `ChunkUpdate`."""
        update.add_to(self._sum)
        self.n_updates += update.n_clients

    def result(self):
        """The aggregated tensors."""
        return self._sum.result()


class Server:
    """The server of one fit.

    Parameters
    ----------
    settings : ServerSettings
    net : initialized skorch net
        Its module is where the server computes.
    local : LocalSettings
        How clients train, which methods may ask.
    """

    def __init__(self, settings, net, local):
        self.settings = settings
        self.algorithm = settings.algorithm
        self.net = net
        self.local = local
        self.frozen = frozen_names(net.module_)
        self._trainable = trainable_names(net.module_)
        self.parameters = {name for name, _ in net.module_.named_parameters(remove_duplicate=False)}
        self._weighed = None, None

    @property
    def model(self):
        """The net's module as a function of tensors."""
        own = private_copy(self.net)
        return Model(own.module_, own.criterion_, self.settings.n_classes)

    # --- before clients train ---------------------------------------------------------------------------------

    def weights(self, state, sizes, positions, numbers, round=0):
        """Aggregation weights of some clients, a list of float.

        Parameters
        ----------
        state : ServerState
        sizes : ndarray of shape (n_all_clients,)
            Sum of the row weights of each client.
        positions, numbers : list of int
            Of those clients among all, and among those that have rows.
        round : int, default=0
            For messages.

        Raises
        ------
        ClientError
            If the method makes no weights of them.
        """
        if self._weighed[0] is not sizes:
            self._weighed = sizes, client_weights(self.settings.client_weight, sizes)
        weights = self._weighed[1][positions]
        if not self.algorithm.uses("server_weights"):
            return weights.tolist()
        where = f"{self._hook('server_weights')} of round {round}"
        signed = self.algorithm.uses("server_aggregator")
        given = self.algorithm.server_weights(weights, np.array(numbers, dtype=np.int64), state.method)
        return check_weights(given, len(numbers), where, signed).tolist()

    def broadcast(self, state):
        """What the method sends beside the model, a `Broadcast`."""
        sent = self.algorithm.server_broadcast(state.method)
        if not self.algorithm.uses("server_broadcast"):
            return sent
        return check_broadcast(sent, self._hook("server_broadcast"))

    def _hook(self, name):
        """A hook with its class, for messages."""
        return f"{type(self.algorithm).__name__}.{name}"

    def instructions(self, state, round):
        """`Instructions` of a round."""
        sent = self.broadcast(state)
        factor, progress = lr_factor(self.settings.lr_schedule, round), round / self.settings.n_rounds
        return Instructions(round, sent.every_round | sent.first_time, factor, progress)

    def sends_once(self, state):
        """Whether anything travels to a client only when it trains for the first time."""
        return bool(self.frozen or self.broadcast(state).first_time)

    def log_model(self, traffic, state, n_clients, n_new):
        """Count what clients are sent to train on.

        Parameters
        ----------
        traffic : Traffic
        state : ServerState
        n_clients, n_new : int
            All of them, and those that have never trained: what never changes travels to them only.
        """
        sent = self.broadcast(state)
        shared = self.algorithm.shared(state.params)
        moving, fixed = (
            _tree.subset(state.params, [name for name in shared if (name in self.frozen) is frozen])
            for frozen in (False, True)
        )
        traffic.add("down", "model", n_clients * _tree.nbytes(moving) + n_new * _tree.nbytes(fixed))
        extra = n_clients * _tree.nbytes(sent.every_round) + n_new * _tree.nbytes(sent.first_time)
        traffic.add("down", "extra tensors", extra)

    def facts(self, round, n_updates, anchor):
        """`RoundFacts` of a round that started from the tensors `anchor`."""
        lr = self.local.lr * lr_factor(self.settings.lr_schedule, round)
        recipe, n_clients = self._recipe(), self.settings.n_clients
        return RoundFacts(round, n_updates, n_clients, lr, self._trainable, anchor, recipe)

    def _recipe(self):
        settings, options = self.local, self.net.optimizer_.param_groups[0]
        momentum, decay = (float(options.get(name, 0.0)) for name in ("momentum", "weight_decay"))
        return Recipe(settings.epochs, settings.batch_size, momentum, decay)

    # --- after clients trained --------------------------------------------------------------------------------

    def aggregate(self, state, aggregation, total, round):
        """The method's step with what clients sent, in place.

        Parameters
        ----------
        state : ServerState
        aggregation : Aggregation
            With all updates of the round.
        total : float
            Factor on the averaged displacement of parameters.
        round : int

        Raises
        ------
        ClientError
            With the round, for what cannot be aggregated.
        """
        started = state.params
        facts = self.facts(round, aggregation.n_updates, started)
        with aggregating(round):
            mean = (
                aggregation.result() if total == 1 else self._stretched(aggregation.result(), started, total)
            )
            made = self.algorithm.server_step(started, mean, state.method, facts)
        where = f"{self._hook('server_step')} of round {round}"
        state.params, state.method = _tree.check_pair(made, where, "(params, server_state)")
        self._check_model(state.params, started, "server_step", round)

    def _stretched(self, mean, started, total):
        """The averaged model, `total` times as far from where the round started."""
        return {
            name: started[name] + total * (tensor - started[name]) if name in self.parameters else tensor
            for name, tensor in mean.items()
        }

    def _check_model(self, params, like, hook, round):
        """Refuse a global model of other tensors, or one that is not finite, with the hook and the round."""
        where = f"{self._hook(hook)} of round {round}"
        _tree.check_like(params, like, where)
        bad = _tree.first_not_finite(params)
        if bad is not None:
            raise NotFiniteError(
                f"{where} gave {bad!r} that is not finite. Lower the learning rates, of the server too, or scale the "
                "features."
            )

    def train(self, state, facts):
        """What the server trains by itself after a round, in place."""
        with self._computing(state.params, facts.round):
            made = self.algorithm.server_train(self.model, state.params, state.method, facts)
        where = f"{self._hook('server_train')} of round {facts.round}"
        params, method = _tree.check_pair(made, where, "(params, server_state)")
        self._check_model(params, state.params, "server_train", facts.round)
        state.params, state.method = _tree.detach(params), _tree.detach(method)

    def predicting(self, state, relabeling=False):
        """The global tensors as they predict, or as they relabel."""
        if not self.algorithm.uses("predict_params"):
            return state.params
        with self._computing(state.params):
            params = self.algorithm.predict_params(
                state.params, state.method, self.model, relabeling=relabeling
            )
        _tree.check_like(params, state.params, self._hook("predict_params"))
        return _tree.detach(params)

    @contextmanager
    def _computing(self, params, round=0):
        """A block in which the module holds `params` and draws are the server's own of that round."""
        device = self.net.device
        write_tensors(self.net.module_, params)
        with forked_generators(device):
            seed_generators(device, self.settings.seed, Purpose.SERVER, round)
            yield


@contextmanager
def aggregating(round):
    """Errors of rules that aggregate name the round."""
    try:
        yield
    except FedReLaError:
        raise
    except ValueError as error:
        raise ClientError(f"The updates of round {round} could not be aggregated: {error}") from error


def lr_factor(lr_schedule, round):
    """Factor on the learning rate in round index `round`: g^round, what a callable says, or 1."""
    if lr_schedule is None:
        return 1.0
    with np.errstate(over="ignore"):
        factor = lr_schedule(round) if callable(lr_schedule) else np.float64(lr_schedule) ** round
    if not (isinstance(factor, Real) and np.isfinite(factor) and factor >= 0):
        raise ValueError(f"lr_schedule must give a finite factor >= 0, got {factor!r} in round {round}.")
    return float(factor)


def client_weights(client_weight, sizes):
    """Weight of every client in the aggregation.

    Parameters
    ----------
    client_weight : "size", "uniform", array-like of shape (n_clients,) or callable
        A callable gets `sizes` and returns the array.
    sizes : ndarray of shape (n_clients,)
        Sum of the row weights of each client.

    Returns
    -------
    weights : ndarray of shape (n_clients,), float64, >= 0
    """
    if isinstance(client_weight, str):
        return sizes.astype(np.float64) if client_weight == "size" else np.ones(len(sizes))
    given = client_weight(sizes.copy()) if callable(client_weight) else client_weight
    weights = np.asarray(given, dtype=np.float64)
    if weights.shape != sizes.shape:
        raise ValueError(
            f"client_weight must give one weight per client, shape {sizes.shape} in the order of "
            f"client_names_; got shape {weights.shape}."
        )
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if len(bad):
        raise ValueError(
            f"client_weight must be finite and >= 0, got {weights[bad[0]]} for client number {bad[0]}."
        )
    return weights
