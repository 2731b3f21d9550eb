"""One client in one round: what the loop and the stacked engine decide alike, from its streams to what it sends."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from fedrela_sk import _tree
from fedrela_sk._random import Purpose, numpy_stream
from fedrela_sk.algorithms import Local, LocalRun
from fedrela_sk.algorithms._returned import check_orders
from fedrela_sk.exceptions import ClientError, NetError, NotFiniteError
from fedrela_sk.training._criterion import use_counts
from fedrela_sk.training._model import client_data
from fedrela_sk.training._task import Instructions, LocalTask

_CALM_DOWN = "Lower the learning rate, scale the features, or clip gradients"


@dataclass(frozen=True)
class ClientRound:
    """One client's local training in one round.

    Attributes
    ----------
    engine : LoopEngine or StackedEngine
        Gives the method, the net's settings, the data and the seed.
    task : LocalTask
    instructions : Instructions
    """

    engine: Any
    task: LocalTask
    instructions: Instructions

    def stream(self, purpose):
        """The client's own random stream of this round, a NumPy generator."""
        return numpy_stream(self.engine.seed, purpose, self.instructions.round, self.task.client.stream_id)

    def orders(self):
        """Order of the client's rows in each local epoch, as the method or else the net asks for it.

        Returns
        -------
        orders : ndarray of shape (n_epochs, n_rows), int64
        """
        engine, y = self.engine, self.task.y
        epochs, client = engine.settings.epochs, self.task.client.stream_id
        if engine.algorithm.uses("client_order"):
            stream = self.stream(Purpose.BATCHES)
            orders = engine.algorithm.client_order(y.cpu().numpy(), epochs, engine.n_classes, stream)
            if orders is not None:
                return check_orders(orders, epochs, len(y), self._made_by("client_order"))
        shuffle, round = engine.settings.shuffle, self.instructions.round
        return epoch_orders(len(y), epochs, shuffle, engine.seed, round, client)

    def begin(self, model, **stream):
        """What the client's hooks may read, `client_begin` included.

        Parameters
        ----------
        model : Model or None
            Holds the model that the client received; None where the method has no `client_begin`.
        **stream
            ``stream=`` of a method that draws.

        Returns
        -------
        local : Local
        """
        engine, task, given = self.engine, self.task, self.instructions
        state = self.state()
        facts = {"counts": task.counts, "round": given.round, **stream}
        use_counts(engine.net.criterion_, task.counts, given.progress)
        local = Local(task.params, state, given.server, **facts)
        if not engine.algorithm.uses("client_begin"):
            return local
        start = engine.algorithm.client_begin(model, client_data(engine.data, task), local)
        _tree.check_tensors(start, self._made_by("client_begin"))
        return Local(task.params, state, given.server, start=_tree.detach(start), **facts)

    def state(self):
        """What the method keeps at this client, a dictionary of tensors; its `client_init` at first."""
        if self.task.state:
            return self.task.state
        first = self.engine.algorithm.client_init(self.task.params)
        return _tree.check_tensors(first, self._made_by("client_init"))

    def finish(self, tensors, local, n_steps, solver):
        """The method's `client_finish`, checked.

        Parameters
        ----------
        tensors : dict of tensors
            Parameters and buffers after the last step.
        local : Local
        n_steps : int
        solver : dict
            Facts of the optimizer, as `solver_of` gives them.

        Returns
        -------
        tensors, state : dict of tensors
            What is sent or stays of the model, and the client's state.
        """
        engine, task, state = self.engine, self.task, local.state
        own = engine.algorithm.uses("client_finish")
        if own:
            lr = engine.settings.lr * self.instructions.lr_factor
            run = LocalRun(n_steps, lr, len(task.rows), task.weight, **solver, trainable=engine.trainable)
            with torch.no_grad():
                made = engine.algorithm.client_finish(tensors, local, run)
            tensors, state = _tree.check_pair(made, self._made_by("client_finish"))
        try:
            if own:
                check_update(engine.algorithm, tensors, task.params)
            check_frozen(engine.frozen, tensors, task.params)
        except ClientError as error:
            raise ClientError(f"{self._update}: {error}") from error
        return tensors, state

    def check_loss(self, loss):
        """Refuse a mean loss that is not finite."""
        if not np.isfinite(loss):
            raise NotFiniteError(
                f"The loss of client {self.task.client.key!r} in round {self.instructions.round} is {loss}. "
                f"{_CALM_DOWN} (skorch.callbacks.GradientNormClipping)."
            )

    def refuse_tensor(self, name):
        """Raise for a tensor of the update that is not finite."""
        raise NotFiniteError(f"{self._update} is not finite in {name!r}. {_CALM_DOWN}.")

    @property
    def norm_notes(self):
        """BatchNorm has no statistics of one row: such a client trains with the running ones, and this says so."""
        if len(self.task.rows) > 1 or not self.engine.settings.batch_norms:
            return ()
        return (f"client {self.task.client.key!r} has one row: BatchNorm in evaluation mode",)

    def _made_by(self, hook):
        """A hook with its class, the client and the round, for messages."""
        method = type(self.engine.algorithm).__name__
        return f"{method}.{hook} at client {self.task.client.key!r} in round {self.instructions.round}"

    @property
    def _update(self):
        return f"The update of client {self.task.client.key!r} in round {self.instructions.round}"


def epoch_orders(n_rows, epochs, shuffle, seed, round, client):
    """Order of the rows of one client in each epoch of one round.

    Returns
    -------
    orders : ndarray of shape (epochs, n_rows), int64
    """
    if not shuffle:
        return np.tile(np.arange(n_rows), (epochs, 1))
    stream = numpy_stream(seed, Purpose.BATCHES, round, client)
    return np.stack([stream.permutation(n_rows) for _ in range(epochs)])


def divide_update(engine, tensors, received):
    """What of a client's tensors travels, and what stays with it.

    Parameters
    ----------
    engine : LoopEngine or StackedEngine
    tensors : dict of tensors
        After `client_finish`; of one client, or of several along a leading axis.
    received : dict of tensors
        The model before training, for its names.

    Returns
    -------
    sent, kept : dict of tensors
        Parameters that do not learn are in neither: everybody has them.
    """
    shared = set(engine.algorithm.shared(received))
    kept = {name: tensors[name] for name in received if name not in shared}
    sent = {n: tensor for n, tensor in tensors.items() if n not in kept and n not in engine.frozen}
    return sent, kept


def check_update(algorithm, tensors, received):
    """Refuse an update that does not fit the model that the client received.

    Parameters
    ----------
    algorithm : Algorithm
        Whose `client_finish` gave it.
    tensors : dict of tensors
        What `client_finish` returned first.
    received : dict of tensors
        The client's model before it trained.

    Raises
    ------
    ClientError
        With the tensor, what it is and what it should be.
    """
    hook = f"{type(algorithm).__name__}.client_finish"
    shared = set(algorithm.shared(received))
    _tree.check_like(tensors, {n: received[n] for n in received if n in tensors}, hook, extra=True)
    missing = [name for name in received if name not in tensors]
    stays = [name for name in missing if name not in shared]
    if stays:
        raise ClientError(f"{hook} left out {stays[0]!r}, which stays at the client. Return it unchanged.")
    if shared and not any(name in shared or name not in received for name in tensors):
        raise ClientError(
            f"{hook} sends nothing, although the method shares {sorted(shared)[0]!r} and others. Return the "
            "tensors, or name none of them in `shared`."
        )
    if missing and not (algorithm.uses("server_step") or algorithm.uses("server_aggregator")):
        raise ClientError(
            f"{hook} left out {missing[0]!r}, which would stay as it was at the server. Return it, or write a "
            "`server_step` that makes it from what is sent."
        )


def check_frozen(frozen, tensors, received):
    """Refuse that a parameter moved which does not learn: it travels once, not in every round.

    Parameters
    ----------
    frozen : set of str
        Names of the parameters that did not learn before round 0.
    tensors, received : dict of tensors
        The client's model after and before it trained.

    Raises
    ------
    ClientError
        With the first such parameter.
    """
    for name in frozen & tensors.keys():
        if not torch.equal(tensors[name], received[name]):
            raise ClientError(
                f"parameter {name!r} did not learn before round 0 (requires_grad is False) and has moved. Let it "
                "learn from the start, and freeze it for a while by a callback."
            )


def check_shape(tensor, expected, where):
    """Refuse what a hook returned for a batch if it is not of the expected shape; returns it.

    torch would broadcast most other shapes.

    Raises
    ------
    NetError
        With both shapes.
    """
    shape = tuple(getattr(tensor, "shape", ()))
    if shape != tuple(expected):
        raise NetError(f"{where} must give shape {tuple(expected)}, got {shape}.")
    return tensor


def check_gradients(grads, params):
    """Refuse what `client_correct` returned if it is not a gradient of the model's parameters; returns it.

    Parameters
    ----------
    grads : dict of tensors
    params : dict of tensors
        What learns, of one client or of several along a leading axis.

    Raises
    ------
    NetError
        With the first name or shape that does not fit.
    """
    if not isinstance(grads, dict):
        raise NetError(f"client_correct must give a dictionary of tensors, got {type(grads).__name__}.")
    for name, grad in grads.items():
        if name not in params:
            raise NetError(f"client_correct gave a gradient of {name!r}, which is no parameter that learns.")
        check_shape(grad, params[name].shape, f"client_correct of {name!r}")
    return grads
