"""The loop engine: one client after the other. The readable reference; runs any module."""

from contextlib import nullcontext
from functools import partial

import torch

from fedrela_sk import _tree
from fedrela_sk._random import Purpose
from fedrela_sk._update import ClientUpdate
from fedrela_sk.algorithms._records import frozen_names, trainable_names
from fedrela_sk.exceptions import ClientError, NetError
from fedrela_sk.training._client_round import ClientRound, divide_update
from fedrela_sk.training._net import read_settings, solver_of, tensors_of, write_tensors
from fedrela_sk.training._posteriors import in_evaluation
from fedrela_sk.training._recorder import own_places, recording_of
from fedrela_sk.training._task import even_parts
from fedrela_sk.training.loop._callbacks import Notifier
from fedrela_sk.training.loop._step import Listener, LocalTrainingStopped, Stepper
from fedrela_sk.training.runtime._generator import forked_generators, seed_generators, training_draws
from fedrela_sk.training.runtime._pristine import pristine_of

# most clients that a worker takes at a time; changes no result
UNIT_SIZE = 10


class LoopEngine:
    """Trains the clients of a round one after the other on one working copy of the net.

    Parameters
    ----------
    net : initialized skorch net
        Its module is the working copy.
    data : LocalData
    algorithm : Algorithm
    n_classes : int
    seed : int
    """

    name = "loop"
    kind: str | None = None
    chunk_size = 1
    precision: str | None = None

    def __init__(self, net, data, algorithm, n_classes, seed):
        self.net = net
        self.data = data
        self.algorithm = algorithm
        self.n_classes = n_classes
        self.seed = seed
        self.settings = read_settings(net)
        self.trainable = trainable_names(net.module_)
        self.frozen = frozen_names(net.module_)
        callbacks = self.settings.callbacks
        self._notify = Notifier(net, callbacks) if callbacks else Listener()
        self._stepper = Stepper(net, data, algorithm, n_classes, self._notify)
        self._draws = training_draws(net, callbacks, algorithm)
        self._pristine = pristine_of(net, callbacks)
        self._draws_for_method = algorithm.loop_only is not None
        self._optimizer = None
        self._holds_state = False
        self._options = []

    def train(self, tasks, instructions):
        """Updates of the clients of one round, in the order of `tasks`.

        Parameters
        ----------
        tasks : iterable of LocalTask
        instructions : Instructions

        Yields
        ------
        update : ClientUpdate

        Raises
        ------
        ClientError
            Whatever went wrong, with client and round; `NotFiniteError` for a loss or an update.
        """
        for task in tasks:
            yield self._train_one(ClientRound(self, task, instructions))

    def close(self):
        """Nothing is held outside this process."""

    def forget(self):
        """Leave nothing of the client that trained last in module, criterion and callbacks."""
        if self._pristine is not None:
            self._pristine.restore()

    def set_data(self, data):
        """Go on with other `LocalData`, as clients' samplers made them."""
        self.data = data

    def units(self, tasks, n_workers=1):
        """The tasks in groups that one worker takes at a time, as many for every worker as for the others."""
        each = -(-len(tasks) // (n_workers * UNIT_SIZE))
        return even_parts(tasks, min(n_workers * each, len(tasks)))

    def train_unit(self, tasks, instructions):
        """Updates of one group, a list."""
        return list(self.train(tasks, instructions))

    def _train_one(self, client):
        """The update of one client; errors name it, torch's generators stay as they were."""
        key, round = client.task.client.key, client.instructions.round
        try:
            with forked_generators(self.net.device) if self._draws else nullcontext():
                return self._train_client(client)
        except ClientError:
            raise
        except NetError as error:
            raise NetError(f"Client {key!r}, round {round}: {error}") from error
        except Exception as error:
            raise ClientError(
                f"Client {key!r} failed in round {round}: {type(error).__name__}: {error}"
            ) from error

    def _train_client(self, client):
        task, module = client.task, self.net.module_
        self._prepare(client)
        recording = recording_of([task], self) if task.record else None
        local = self._begin(client)
        with self._notify.listening():
            loss, n_steps, local, stops = self._epochs(client, local, recording)
        client.check_loss(loss)
        tensors = _tree.copy(tensors_of(module))
        tensors, state = client.finish(tensors, local, n_steps, solver_of(self._optimizer))
        bad = _tree.first_not_finite(tensors)
        if bad is not None:
            client.refuse_tensor(bad)
        sent, kept = divide_update(self, tensors, task.params)
        recorded = {} if recording is None else recording.posteriors(self._evaluate)
        notes = (*client.norm_notes, *stops)
        return ClientUpdate(task.client, sent, task.weight, kept, state, loss, n_steps, notes, recorded)

    def _prepare(self, client):
        """Put the client's model into the module, and nothing else of what trained before."""
        if self._draws:
            round, stream_id = client.instructions.round, client.task.client.stream_id
            seed_generators(self.net.device, self.seed, Purpose.MODULE, round, stream_id)
        self.forget()
        write_tensors(self.net.module_, client.task.params)
        self.net.module_.train()
        if client.norm_notes:
            for layer in self.settings.batch_norms:
                layer.eval()
        self._stepper.optimizer = self._fresh_optimizer(client.instructions.lr_factor)
        if self.data.mixing is not None:
            self._stepper.mixing_stream = client.stream(Purpose.LOCAL_DATA)

    def _begin(self, client):
        """What the hooks may read; a stream of its own for a method that draws."""
        model = self._stepper.model if self.algorithm.uses("client_begin") else None
        if not self._draws_for_method:
            return client.begin(model)
        return client.begin(model, stream=client.stream(Purpose.METHOD))

    def _evaluate(self, client, rows):
        """Posteriors of rows under the model that the module holds."""
        return in_evaluation(self.net, self.data.X[rows], self.n_classes)

    def _fresh_optimizer(self, lr_factor):
        """An optimizer of the net's kind that remembers nothing from earlier clients and rounds.

        One optimizer is emptied and used again, which is much cheaper than a new one; kinds that hold
        state from the start (Adagrad), and kinds that are not torch's, are made anew.
        """
        if self._optimizer is None or self._holds_state:
            self._optimizer = self.net.initialize_optimizer().optimizer_
            known = type(self._optimizer).__module__.startswith("torch.optim.")
            self._holds_state = len(self._optimizer.state) > 0 or not known
            self._options = [
                {name: value for name, value in group.items() if name != "params"}
                for group in self._optimizer.param_groups
            ]
        else:
            self._optimizer.state.clear()
        for group, options in zip(self._optimizer.param_groups, self._options, strict=True):
            params = group["params"]
            group.clear()  # schedulers and some optimizers leave notes in it
            group.update(options, params=params, lr=options["lr"] * lr_factor)
        return self._optimizer

    def _epochs(self, client, local, recording):
        """(mean loss over the rows seen, steps, local after the last step, early stops) of all local epochs."""
        task, orders = client.task, client.orders()
        bounds = self.settings.batch_bounds(len(task.rows))
        total, n_seen, n_steps, stops = 0.0, 0, 0, ()
        try:
            self._notify.train_begin(self.data.X, task)
            for epoch, order in enumerate(orders, start=1):
                record = recording is not None and epoch == len(orders)
                places = own_places(task, order) if record else None
                X, y, weights = self._rows(task, torch.from_numpy(order).to(task.rows.device))
                self._notify.epoch_begin()
                for start, stop in bounds:
                    row_weights = None if weights is None else weights[start:stop]
                    see = None if places is None else partial(recording.see, places[start:stop])
                    batch = X[start:stop], y[start:stop]
                    loss, output, local = self._stepper.step(batch, row_weights, local, see)
                    total = total + loss * (stop - start)
                    n_seen, n_steps = n_seen + stop - start, n_steps + 1
                    self._notify.batch_end(batch, loss, output)
                self._notify.epoch_end()
        except LocalTrainingStopped as stop:
            stops = (f"client {task.client.key!r}: {stop} after {n_steps} steps",)
        self._notify.train_end(self.data.X, task)
        return float(total) / max(n_seen, 1), n_steps, local, stops

    def _rows(self, task, order):
        """X, labels and row weights of a client in the order of one epoch."""
        rows, y = task.rows[order], task.y[order]
        weights = None if self.data.weights is None else self.data.weights[rows]
        if task.class_weights is not None:
            by_class = task.class_weights[y]
            weights = by_class if weights is None else weights * by_class
        return self.data.X[rows], y, weights
