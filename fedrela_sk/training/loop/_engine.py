"""The loop engine: one client after the other. The readable reference; runs any module."""

import math
from dataclasses import replace
from functools import partial

import torch

from fedrela_sk import _tree
from fedrela_sk._random import Purpose, numpy_stream
from fedrela_sk._update import ClientUpdate
from fedrela_sk.algorithms import Local, LocalRun
from fedrela_sk.algorithms._records import frozen_names, trainable_names
from fedrela_sk.exceptions import ClientError, NetError, NotFiniteError
from fedrela_sk.training._batches import batch_bounds, client_orders
from fedrela_sk.training._criterion import (
    batch_loss,
    check_output,
    divides_by_class_weights,
    log_input,
    row_losses,
    row_shares,
    use_counts,
)
from fedrela_sk.training._hook_checks import check_frozen, check_shape, check_update
from fedrela_sk.training._model import Batch, Model, client_data
from fedrela_sk.training._net import forward, read_settings, solver_of, tensors_of, write_tensors
from fedrela_sk.training._posteriors import in_evaluation
from fedrela_sk.training._recorder import own_places, recording_of
from fedrela_sk.training.loop._callbacks import LocalTrainingStopped, Notifier
from fedrela_sk.training.runtime._generator import drawing_generators, seed_generators, training_draws
from fedrela_sk.training.runtime._pristine import pristine_of
from fedrela_sk.training.stacked._chunks import even_parts

# most clients that a worker takes at a time; changes no result
UNIT_SIZE = 10


class LoopEngine:
    """Trains the clients of a round one after the other on one working copy of the net.

    Parameters
    ----------
    net : initialised skorch net
        Its module is the working copy.
    data : LocalData
    algorithm : Algorithm
    n_classes : int
    seed : int
    """

    name, kind = "loop", None
    unit_size, precision = 1, None

    def __init__(self, net, data, algorithm, n_classes, seed):
        self.net = net
        self.data = data
        self.algorithm = algorithm
        self.n_classes = n_classes
        self.seed = seed
        self.settings = read_settings(net)
        self._notify = Notifier(net, self.settings.callbacks)
        self._trainable = {name: p for name, p in net.module_.named_parameters() if p.requires_grad}
        self._names = trainable_names(net.module_)
        self._frozen = frozen_names(net.module_)
        self._draws = training_draws(net, self.settings.callbacks, algorithm)
        self._pristine = pristine_of(net, self.settings.callbacks)
        self._model = Model(net.module_, net.criterion_, n_classes)
        self._draws_for_method = algorithm.loop_only is not None
        self._own_loss = algorithm.uses("client_loss")
        self._row_losses = algorithm.uses("client_row_losses")
        self._output_checked = False
        self._optimizer = None
        self._holds_state = False
        self._options = []

    def train(self, round, tasks, server_state, lr_factor=1.0, progress=0.0):
        """Updates of the clients of one round, in the order of `tasks`.

        Parameters
        ----------
        round : int
        tasks : iterable of LocalTask
        server_state : dict of tensors
            What the server sends along with the model.
        lr_factor : float
            Factor on the net's learning rates in this round.
        progress : float in [0, 1)
            Share of all rounds that are over, for criteria that change with it.

        Yields
        ------
        update : ClientUpdate

        Raises
        ------
        ClientError
            Whatever went wrong, with client and round; `NotFiniteError` for a loss or an update.
        """
        for task in tasks:
            yield self._train_one(round, task, server_state, lr_factor, progress)

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

    def train_unit(self, round, tasks, server_state, lr_factor, progress=0.0):
        """Updates of one group, a list."""
        return list(self.train(round, tasks, server_state, lr_factor, progress))

    def _train_one(self, round, task, server_state, lr_factor, progress):
        """The update of one client; errors name it, torch's generators stay as they were."""
        try:
            with drawing_generators(self._draws, self.net.device):
                return self._train_client(round, task, server_state, lr_factor, progress)
        except ClientError:
            raise
        except NetError as error:
            raise NetError(f"Client {task.client.key!r}, round {round}: {error}") from error
        except Exception as error:
            raise ClientError(
                f"Client {task.client.key!r} failed in round {round}: {type(error).__name__}: {error}"
            ) from error

    def _train_client(self, round, task, server_state, lr_factor, progress):
        module, settings = self.net.module_, self.settings
        if self._draws:
            seed_generators(self.net.device, self.seed, Purpose.MODULE, round, task.client.stream_id)
        self.forget()
        write_tensors(module, task.params)
        module.train()
        notes = self._freeze_batch_norm(task)
        optimizer = self._fresh_optimizer(lr_factor)
        if self.data.mixing is not None:
            self._mixing_stream = numpy_stream(self.seed, Purpose.LOCAL_DATA, round, task.client.stream_id)
        use_counts(self.net.criterion_, task.counts, progress)
        recording = recording_of([task], self)
        local = self._local(round, task, server_state)
        with self._notify.listening():
            loss, n_steps, local, stops = self._epochs(round, task, optimizer, local, recording)
        if not math.isfinite(loss):
            raise NotFiniteError(
                f"The loss of client {task.client.key!r} in round {round} is {loss}. "
                "Lower the learning rate, scale the features, or clip gradients "
                "(skorch.callbacks.GradientNormClipping)."
            )
        run = LocalRun(
            n_steps, settings.lr * lr_factor, len(task.rows), task.weight, **solver_of(optimizer),
            trainable=self._names,
        )  # fmt: skip
        with torch.no_grad():
            tensors, state = self.algorithm.client_finish(_tree.copy(tensors_of(module)), local, run)
        shared = set(self.algorithm.shared(task.params))
        self._named(check_update, task, round, self.algorithm, tensors, task.params, shared)
        bad = _tree.first_not_finite(tensors)
        if bad is not None:
            raise NotFiniteError(
                f"The update of client {task.client.key!r} in round {round} is not finite in {bad!r}. "
                "Lower the learning rate, scale the features, or clip gradients."
            )
        self._named(check_frozen, task, round, self._frozen, tensors, task.params)
        kept = {name: tensors[name] for name in task.params if name not in shared}
        sent = {n: tensor for n, tensor in tensors.items() if n not in kept and n not in self._frozen}
        recorded = {} if recording is None else recording.posteriors(self._evaluate)
        notes = (*notes, *stops)
        return ClientUpdate(task.client, sent, task.weight, kept, state, loss, n_steps, notes, recorded)

    @staticmethod
    def _named(check, task, round, *arguments):
        """Run a check whose errors name no client."""
        try:
            check(*arguments)
        except ClientError as error:
            raise ClientError(
                f"The update of client {task.client.key!r} in round {round}: {error}"
            ) from error

    def _evaluate(self, client, rows):
        """Posteriors of rows under the model that the module holds."""
        return in_evaluation(self.net, self.data.X[rows], self.n_classes)

    def _local(self, round, task, server_state):
        """What the hooks may read of this client in this round."""
        algorithm = self.algorithm
        stream = {}
        if self._draws_for_method:
            stream = {"stream": numpy_stream(self.seed, Purpose.METHOD, round, task.client.stream_id)}
        local = Local(
            anchor=task.params,
            state=task.state or algorithm.client_init(task.params),
            server=server_state,
            counts=task.counts,
            round=round,
            **stream,
        )
        if not algorithm.uses("client_begin"):
            return local
        start = algorithm.client_begin(self._model, client_data(self.data, task), local)
        return replace(local, start=_tree.detach(start))

    def _freeze_batch_norm(self, task):
        """BatchNorm has no statistics of one row: such a client trains with the running ones."""
        if len(task.rows) > 1 or not self.settings.batch_norms:
            return ()
        for layer in self.settings.batch_norms:
            layer.eval()
        return (f"client {task.client.key!r} has one row: BatchNorm in evaluation mode",)

    def _fresh_optimizer(self, lr_factor):
        """An optimiser of the net's kind that remembers nothing from earlier clients and rounds.

        One optimiser is emptied and used again, which is much cheaper than a new one; kinds that hold
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
            group.clear()  # schedulers and some optimisers leave notes in it
            group.update(options, params=params, lr=options["lr"] * lr_factor)
        return self._optimizer

    def _epochs(self, round, task, optimizer, local, recording):
        """(mean loss over the rows seen, steps, local after the last step, early stops) of all local epochs."""
        settings = self.settings
        orders = client_orders(self.algorithm, task, settings, self.n_classes, self.seed, round)
        bounds = batch_bounds(len(task.rows), settings.batch_size, bool(settings.batch_norms))
        total, n_seen, n_steps, stops = 0.0, 0, 0, ()
        try:
            self._notify.train_begin(self.data.X, task)
            for epoch, order in enumerate(orders, start=1):
                places = None
                if recording is not None and epoch == len(orders):
                    places = own_places(task, order)
                order = torch.from_numpy(order).to(task.rows.device)
                X, y, weights = self._rows(task, order)
                self._notify.epoch_begin()
                for start, stop in bounds:
                    batch = X[start:stop], y[start:stop]
                    row_weights = None if weights is None else weights[start:stop]
                    see = None if places is None else partial(recording.see, places[start:stop])
                    loss, output, local = self._step(batch, row_weights, optimizer, local, see)
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

    def _step(self, batch, weights, optimizer, local, see=None):
        """One optimiser step: (the batch's loss before it, penalty left out; output or None; new local).

        `see` is shown the output before the step, which moves an output that is a view of parameters.
        """
        algorithm, trainable = self.algorithm, self._trainable
        seen = {}
        self._notify.batch_begin(batch)

        def closure():
            optimizer.zero_grad()
            loss, output, state = self._batch_loss(batch, weights, local)
            if see is not None and "output" not in seen:
                see(output)
            seen.setdefault("loss", loss.detach())
            seen.setdefault("output", output)
            seen["state"] = state
            if algorithm.uses("client_penalty"):
                penalty = algorithm.client_penalty(trainable, local)
                loss = loss + (
                    penalty if isinstance(penalty, float) else check_shape(penalty, (), "client_penalty")
                )
            loss.backward()
            if algorithm.uses("client_decoupled"):
                seen["beside"] = self._decoupled(local)
            if algorithm.uses("client_correct"):
                self._correct(local)
            self._notify.grad_computed(trainable, batch)
            return loss

        optimizer.step(closure)
        if "beside" in seen:
            with torch.no_grad():
                for name, direction in seen["beside"].items():
                    check_shape(direction, trainable[name].shape, f"client_decoupled of {name!r}")
                    trainable[name].sub_(optimizer.param_groups[0]["lr"] * direction)
        if seen["state"] is not None:
            local = replace(local, state=_tree.detach(seen["state"]))
        return seen["loss"], seen["output"], local

    def _batch_loss(self, batch, weights, local):
        """(loss of a batch, the module's output or None, the method's new state or None)."""
        net, (x, y) = self.net, batch
        if self.data.mixing is not None:
            return *self._mixed_loss(x, y, weights, local), None
        if not (self._own_loss or self._row_losses):
            output = self._checked(forward(net, x))
            return batch_loss(net.criterion_, output, y, weights), output, None
        weights = torch.ones(len(y), dtype=self.data.dtype, device=y.device) if weights is None else weights
        share = row_shares(net.criterion_, y, weights)
        if self._row_losses:
            output = self._checked(forward(net, x))
            losses = self.algorithm.client_row_losses(log_input(net.criterion_, output), y, local)
            return (share * check_shape(losses, y.shape, "client_row_losses")).sum(), output, None
        if not self._output_checked:
            self._checked(self._model.raw(x))
        result = self.algorithm.client_loss(self._model, Batch(x, y, share, net.criterion_), local)
        loss, state = result if isinstance(result, tuple) else (result, None)
        return check_shape(loss, (), "client_loss"), None, state

    def _mixed_loss(self, x, y, weights, local):
        """(loss of a batch whose rows are mixed with partners, the module's output)."""
        net, algorithm = self.net, self.algorithm
        mix = self.data.mixing.mix(y.cpu().numpy(), local.counts.cpu().numpy(), self._mixing_stream)
        partner = torch.from_numpy(mix.partner).to(y.device)
        output = self._checked(forward(net, mix.x_share * x + (1 - mix.x_share) * x[partner]))
        logits, share = log_input(net.criterion_, output), torch.from_numpy(mix.y_share).to(x)
        losses = [
            algorithm.client_row_losses(logits, labels, local)
            if self._row_losses
            else row_losses(net.criterion_, logits, labels)
            for labels in (y, y[partner])
        ]
        weights = torch.ones_like(share) if weights is None else weights
        shares = row_shares(net.criterion_, y, weights, divides_by_class_weights(net.criterion_, logits, y))
        return (shares * (share * losses[0] + (1 - share) * losses[1])).sum(), output

    def _checked(self, output):
        if not self._output_checked:
            check_output(output, self.net.criterion_, self.n_classes)
            self._output_checked = True
        return output

    def _decoupled(self, local):
        """What the step takes beside the optimiser, from the parameters before it."""
        with torch.no_grad():
            return self.algorithm.client_decoupled({n: p.detach() for n, p in self._trainable.items()}, local)

    def _correct(self, local):
        """Replace the gradients by what the algorithm makes of them."""
        with torch.no_grad():
            grads = {name: p.grad for name, p in self._trainable.items() if p.grad is not None}
            params = {name: p.detach() for name, p in self._trainable.items()}
            for name, grad in self.algorithm.client_correct(grads, params, local).items():
                self._trainable[name].grad = grad
