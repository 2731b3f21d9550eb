"""One chunk in one round: its batches laid out, its steps taken, its update made."""

import numpy as np
import torch

from fedrela_sk._update import ChunkUpdate
from fedrela_sk.training._client_round import ClientRound, divide_update
from fedrela_sk.training._criterion import check_output, log_input, row_losses, row_shares
from fedrela_sk.training._net import solver_of, write_tensors
from fedrela_sk.training._posteriors import in_evaluation
from fedrela_sk.training._recorder import places_of_steps, recording_of
from fedrela_sk.training.stacked._chunks import chunk_batches
from fedrela_sk.training.stacked._hooks import StackedHooks
from fedrela_sk.training.stacked._optimizer import fresh_optimizer, optimizer_step, shrink_optimizer
from fedrela_sk.training.stacked._stack import Stack

# layouts of batches that an engine keeps where nothing is shuffled
KEPT_PLANS = 64


class ChunkRun:
    """One chunk in one round.

    Parameters
    ----------
    engine : StackedEngine
    tasks : list of LocalTask
        As `make_chunks` orders them.
    instructions : Instructions
    """

    def __init__(self, engine, tasks, instructions):
        self.engine, self.tasks, self.instructions = engine, tasks, instructions
        self.clients = [ClientRound(engine, task, instructions) for task in tasks]
        self.solver = {}
        self.device = engine.data.X.device
        self.plan = self._make_plan()
        self.rows, self.labels = self._gather_rows()
        self._check_batches()
        self.whole = self._stack()
        self.hooks = StackedHooks(engine, instructions)
        self.recording = recording_of(tasks, engine)
        self.losses = torch.zeros(len(tasks), dtype=engine.data.dtype, device=self.device)

    def _make_plan(self):
        """Batches of the chunk; without shuffling they are the same in every round."""
        engine, orders = self.engine, lambda: [client.orders() for client in self.clients]
        if engine.settings.shuffle or engine.algorithm.uses("client_order"):
            return chunk_batches(orders(), engine.settings)
        key = tuple(len(task.rows) for task in self.tasks)
        if key not in engine.plans:
            if len(engine.plans) >= KEPT_PLANS:
                engine.plans.clear()
            engine.plans[key] = chunk_batches(orders(), engine.settings)
        return engine.plans[key]

    def _gather_rows(self):
        """Row of the data and label of every entry of the plan's index, on the device."""
        plan = self.plan
        sizes = np.array([len(task.rows) for task in self.tasks])
        first = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        owner = np.concatenate([np.arange(n) for n in plan.active]) if len(plan.active) else np.empty(0, int)
        flat = torch.from_numpy(plan.index + first[owner][:, None]).to(self.device)
        rows = torch.cat([task.rows for task in self.tasks])
        labels = torch.cat([task.y for task in self.tasks])
        self.owner = torch.from_numpy(owner).to(self.device)
        return rows[flat], labels[flat]

    def _check_batches(self):
        """BatchNorm has no statistics of one row, here as in torch.

        A client of one row uses the running ones; where a layer keeps none, it cannot train.
        """
        layers = self.engine.settings.batch_norms
        if not layers:
            return
        tracked = all(layer.running_mean is not None for layer in layers)
        alone = self.plan.lengths == 1
        for i in self.owner.cpu().numpy()[alone]:
            if len(self.tasks[i].rows) > 1 or not tracked:
                raise ValueError(
                    f"Expected more than 1 value per channel when training, but client "
                    f"{self.tasks[i].client.key!r} has batches of one row under BatchNorm. Use a larger batch_size, "
                    "or a layer that tracks running statistics."
                )

    def _stack(self):
        """Parameters and buffers of all clients of the chunk, copied once for each."""
        n, names = len(self.tasks), self.engine.param_names
        received = {}
        for name, tensor in self.tasks[0].params.items():
            if all(task.params is self.tasks[0].params or task.params[name] is tensor for task in self.tasks):
                received[name] = tensor.detach().expand(n, *tensor.shape).contiguous()
            else:
                received[name] = torch.stack([task.params[name] for task in self.tasks])
        params = {name: _columns_first(received[name]).requires_grad_(grad) for name, grad in names.items()}
        buffers = {name: received[name].clone() for name in received if name not in names}
        self.received = received
        single = torch.tensor([len(task.rows) == 1 for task in self.tasks], device=self.device)
        return Stack(params, buffers, self._client_facts(received), single)

    def _client_facts(self, received):
        """What the hooks read of the clients, every tensor stacked: anchor, state, counts, start."""
        tasks, algorithm = self.tasks, self.engine.algorithm
        counts = {} if tasks[0].counts is None else {"counts": torch.stack([task.counts for task in tasks])}
        if not algorithm.uses("client_begin"):
            states = [client.state() for client in self.clients]
            return {"anchor": received, "state": _stack_trees(states), "start": {}, **counts}
        begun = [client.begin(self.engine.model.with_params(client.task.params)) for client in self.clients]
        state, start = (
            _stack_trees([getattr(local, name) for local in begun]) for name in ("state", "start")
        )
        return {"anchor": received, "state": state, "start": start, **counts}

    def all_steps(self):
        """Every step of every client; those that have finished leave the stack."""
        stack, plan = self.whole, self.plan
        optimizer = fresh_optimizer(self.engine.net, stack.params, self.instructions.lr_factor)
        self.solver = solver_of(optimizer)
        lengths = torch.from_numpy(plan.lengths).to(self.device)
        column = torch.arange(plan.index.shape[1], device=self.device)
        masks = (column < lengths[:, None]).to(self.engine.data.dtype)
        batches = (self.rows, self.labels, self._shares(masks), masks, lengths.to(masks.dtype))
        n_active = plan.active.tolist()
        places = places_of_steps(plan, self.tasks, self.engine.settings.epochs, self.recording)
        for n, where, rows, y, shares, mask, length in zip(
            n_active, places, *(tensor.split(n_active) for tensor in batches), strict=True
        ):
            if n < len(stack.frozen_norm):
                smaller = stack.first(n)
                shrink_optimizer(optimizer, stack.params, smaller.params)
                stack = smaller
            stack.mask, stack.lengths, stack.places = mask, length, where
            self._step(stack, optimizer, rows, y, shares)

    def _shares(self, masks):
        """Share of every row in the loss of its batch; padding has none."""
        weights = self._row_weights()
        weights = masks if weights is None else masks * weights
        counts = self.whole.facts.get("counts")
        counts = None if counts is None else counts[self.owner]
        return row_shares(
            self.engine.net.criterion_,
            self.labels,
            weights,
            counts=counts,
            progress=self.instructions.progress,
        )

    def _row_weights(self):
        """Weight of every entry of the index, None where all are one."""
        weights = None if self.engine.data.weights is None else self.engine.data.weights[self.rows]
        if self.tasks[0].class_weights is None:
            return weights
        by_class = torch.stack([task.class_weights for task in self.tasks])[self.owner]
        by_class = by_class.gather(1, self.labels)
        return by_class if weights is None else weights * by_class

    def _step(self, stack, optimizer, rows, y, shares):
        """One step of the clients in `stack`."""
        engine, algorithm = self.engine, self.engine.algorithm
        for param in stack.params.values():
            param.grad = None
        with engine.autocast():
            losses = self._losses(stack, _take(engine.data.X, rows), y, shares)
        self.losses[: len(losses)].addcmul_(losses.detach().to(self.losses.dtype), stack.lengths)
        if algorithm.uses("client_penalty"):
            losses = losses + self.hooks.penalty(stack)
        losses.backward(torch.ones_like(losses))  # each client's loss moves its own parameters only
        if algorithm.uses("client_correct"):
            self.hooks.correct(stack)
        if engine.clip is not None:
            engine.clip([param for param in stack.params.values() if param.grad is not None])
        beside = self.hooks.decoupled(stack) if algorithm.uses("client_decoupled") else {}
        optimizer_step(optimizer)
        self.hooks.take_off(stack, beside, optimizer.param_groups[0]["lr"])

    def _losses(self, stack, X, y, shares):
        """Loss of every client's batch, tensor of shape (n_clients,)."""
        engine, algorithm, criterion = self.engine, self.engine.algorithm, self.engine.net.criterion_
        if algorithm.uses("client_loss"):
            self._check_output(lambda: engine.model.raw(X[0]))
            return self.hooks.losses(stack, X, y, shares)
        output = engine.forward(stack, X)
        self._check_output(lambda: output.detach().flatten(0, 1))
        if stack.places is not None:
            self.recording.see(stack.places, output)
        logits = log_input(criterion, output)
        if algorithm.uses("client_row_losses") or hasattr(criterion, "row_losses"):
            losses = self.hooks.row_losses(stack, logits, y)
        else:
            losses = row_losses(criterion, logits.flatten(0, 1), y.flatten()).view_as(shares)
        return (losses * shares).sum(1)

    def _check_output(self, output):
        """Check the first output of a fit; `output` gives it when it is called."""
        engine = self.engine
        if not engine.output_checked:
            check_output(output(), engine.net.criterion_, engine.n_classes)
            engine.output_checked = True

    def update(self):
        """What the chunk sends, ordered by the clients' keys."""
        engine, tasks = self.engine, self.tasks
        sizes = np.array([len(task.rows) for task in tasks]) * engine.settings.epochs
        losses = self.losses.cpu().numpy().astype(np.float64) / sizes
        for client, loss in zip(self.clients, losses.tolist(), strict=True):
            client.check_loss(loss)
        tensors = {name: p.detach() for name, p in self.whole.params.items()} | self.whole.buffers
        tensors, state = self._finish(tensors)
        self._check_finite(tensors)
        sent, kept = divide_update(engine, tensors, self.received)
        order = np.array(sorted(range(len(tasks)), key=lambda i: tasks[i].client.position))
        turn = torch.from_numpy(order).to(self.device)
        straight = (order == np.arange(len(order))).all()
        put = lambda tree: tree if straight else {k: v[turn] for k, v in tree.items()}  # noqa: E731
        return ChunkUpdate(
            clients=tuple(tasks[i].client for i in order),
            tensors=put(sent),
            weights=np.array([tasks[i].weight for i in order]),
            kept=put(kept),
            state=put(state),
            losses=losses[order],
            steps=self.plan.steps[order],
            notes=tuple(self.clients[i].norm_notes for i in order),
            recorded={} if self.recording is None else self.recording.posteriors(self._evaluate),
        )

    def _evaluate(self, client, rows):
        """Posteriors of rows under a client's model after training."""
        engine, whole = self.engine, self.whole
        k = next(i for i, task in enumerate(self.tasks) if task.client is client)
        tensors = {name: stack[k].detach() for name, stack in (whole.params | whole.buffers).items()}
        write_tensors(engine.net.module_, tensors)
        return in_evaluation(engine.net, engine.data.X[rows], engine.n_classes)

    def _finish(self, tensors):
        """The method's `client_finish` for every client: (tensors, state), stacked again."""
        facts = self.whole.facts
        if not self.engine.algorithm.uses("client_finish"):
            return tensors, facts["state"]
        sent, states = [], []
        for i, client in enumerate(self.clients):
            one = lambda tree, i=i: {name: stack[i] for name, stack in tree.items()}  # noqa: E731
            local = self.hooks.local(
                {"anchor": client.task.params, "counts": client.task.counts}
                | {name: one(facts[name]) for name in ("state", "start")}
            )
            new, own = client.finish(one(tensors), local, int(self.plan.steps[i]), self.solver)
            sent.append(new)
            states.append(own)
        return _stack_trees(sent), _stack_trees(states)

    def _check_finite(self, tensors):
        for name, stack in tensors.items():
            if not stack.is_floating_point():
                continue
            bad = ~torch.isfinite((stack * 0).flatten(1).sum(1)) if stack.ndim > 1 else ~torch.isfinite(stack)
            if bad.any():
                self.clients[int(bad.nonzero()[0])].refuse_tensor(name)


def _columns_first(stack):
    """A copy of stacked parameters; matrices lie in memory as (n_clients, inputs, outputs).

    That is the layout in which a batched product makes the gradient of a dense layer, 1.5 times faster
    than in the layout of `torch.nn.Linear`; the shape stays the module's.
    """
    if stack.ndim != 3:
        return stack.clone(memory_format=torch.contiguous_format)
    return stack.transpose(1, 2).clone(memory_format=torch.contiguous_format).transpose(1, 2)


def _take(X, rows):
    """``X[rows]``; `index_select` is several times faster than indexing with a matrix."""
    return X.index_select(0, rows.flatten()).view(*rows.shape, *X.shape[1:])


def _stack_trees(trees):
    return {name: torch.stack([tree[name] for tree in trees]) for name in trees[0]}
