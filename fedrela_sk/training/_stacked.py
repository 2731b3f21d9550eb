"""The stacked engine: many clients in one pass, their parameters stacked along a leading axis."""

from contextlib import nullcontext

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.func import vmap

from fedrela_sk._random import Purpose
from fedrela_sk._update import CohortUpdate
from fedrela_sk.algorithms import LocalRun
from fedrela_sk.exceptions import ClientError, NetError, NotFiniteError
from fedrela_sk.training._cohort import make_cohorts, plan_cohort
from fedrela_sk.training._criterion import check_output
from fedrela_sk.training._generator import drawing_generators, seed_generators, training_draws
from fedrela_sk.training._net import read_settings
from fedrela_sk.training._stack import Stack
from fedrela_sk.training._stackable import clip_rule, stacked_forward


class StackedEngine:
    """Trains the clients of a cohort in one pass.

    The batches, the hooks and the mathematics are those of the loop engine; sums run in another order.

    Parameters
    ----------
    net : initialised skorch net
    data : LocalData
    algorithm : Algorithm
    n_classes : int
    seed : int
    cohort_size : int
        Clients that train at once. Memory grows with it; results depend on it by rounding.
    precision : {None, "bf16"}
        "bf16": products under `torch.autocast`; None: the module's own dtype.

    Raises
    ------
    NotStackable
        If the net, its criterion, optimiser or callbacks cannot be stacked.
    """

    name = "stacked"

    def __init__(self, net, data, algorithm, n_classes, seed, cohort_size, precision=None):
        self.net = net
        self.data = data
        self.algorithm = algorithm
        self.n_classes = n_classes
        self.seed = seed
        self.unit_size = cohort_size
        self.precision = precision
        self.settings = read_settings(net)
        self._forward, self.kind = stacked_forward(net, data.X)
        self._clip = clip_rule(self.settings.callbacks)
        module = net.module_
        self._param_names = {name: p.requires_grad for name, p in module.named_parameters()}
        self._plans = {}
        self._draws = training_draws(net, self.settings.callbacks, algorithm)
        self._output_checked = False

    def train(self, round, tasks, server_state, lr_factor=1.0):
        """Updates of the clients of one round, a `CohortUpdate` per cohort, in the plan's order.

        Parameters and errors as in `LoopEngine.train`.
        """
        for cohort in self.units(list(tasks)):
            yield from self.train_unit(round, cohort, server_state, lr_factor)

    def close(self):
        """Nothing is held outside this process."""

    def units(self, tasks):
        """The cohorts of a round: groups of tasks that one worker takes at a time."""
        return make_cohorts(tasks, self.settings, self.unit_size)

    def train_unit(self, round, tasks, server_state, lr_factor):
        """`CohortUpdate` of one cohort, in a list; `tasks` are ordered as `units` orders them."""
        try:
            with drawing_generators(self._draws, self.net.device):
                return [self._train(round, tasks, server_state, lr_factor)]
        except NetError as error:
            raise NetError(f"Round {round}, clients {_names(tasks)}: {error}") from error
        except ClientError:
            raise
        except Exception as error:
            raise ClientError(
                f"Clients {_names(tasks)} failed in round {round}: {type(error).__name__}: {error}. "
                "engine='loop' trains them one by one and names the one that fails."
            ) from error

    def _autocast(self):
        """Where products run in a shorter dtype, if they are to."""
        if self.precision is None:
            return nullcontext()
        return torch.autocast(self.data.X.device.type, dtype=torch.bfloat16)

    def _train(self, round, tasks, server_state, lr_factor):
        self.net.module_.train()  # Dropout acts through the module's own layers
        if self._draws:
            seed_generators(self.net.device, self.seed, Purpose.MODULE, round, tasks[0].client.code)
        run = self.cohort_run(round, tasks, server_state, lr_factor)
        run.all_steps()
        return run.update()

    def cohort_run(self, round, tasks, server_state, lr_factor):
        """One cohort in one round, laid out but not trained yet."""
        return _CohortRun(self, round, tasks, server_state, lr_factor)


class _CohortRun:
    """One cohort in one round."""

    def __init__(self, engine, round, tasks, server_state, lr_factor):
        self.engine, self.round, self.tasks = engine, round, tasks
        self.server_state, self.lr_factor = server_state, lr_factor
        self.device = engine.data.X.device
        self.plan = self._make_plan()
        self.rows, self.labels = self._gather_rows()
        self._check_batches()
        self.whole = self._stack()
        self.losses = torch.zeros(len(tasks), dtype=torch.float64, device=self.device)

    def _make_plan(self):
        """Batches of the cohort; without shuffling they are the same in every round."""
        engine, sizes = self.engine, [len(task.rows) for task in self.tasks]
        codes = [task.client.code for task in self.tasks]
        if engine.settings.shuffle:
            return plan_cohort(sizes, codes, engine.settings, engine.seed, self.round)
        key = tuple(sizes)
        if key not in engine._plans:
            engine._plans = {key: plan_cohort(sizes, codes, engine.settings, engine.seed, self.round)}
        return engine._plans[key]

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
        """BatchNorm has no statistics of one row, here as in torch."""
        if not self.engine.settings.batch_norms:
            return
        alone = self.plan.lengths == 1
        for i in self.owner.cpu().numpy()[alone]:
            if len(self.tasks[i].rows) > 1:
                raise ValueError(
                    f"Expected more than 1 value per channel when training, but client "
                    f"{self.tasks[i].client.key!r} has batches of one row under BatchNorm. Use a larger batch_size."
                )

    def _stack(self):
        """Parameters and buffers of all clients of the cohort, copied once for each."""
        n, names = len(self.tasks), self.engine._param_names
        received = {}
        for name, tensor in self.tasks[0].params.items():
            if all(task.params[name] is tensor for task in self.tasks):
                received[name] = tensor.detach().expand(n, *tensor.shape).contiguous()
            else:
                received[name] = torch.stack([task.params[name] for task in self.tasks])
        params = {name: _columns_first(received[name]).requires_grad_(grad) for name, grad in names.items()}
        buffers = {name: received[name].clone() for name in received if name not in names}
        states = [task.state or self.engine.algorithm.init_client(task.params) for task in self.tasks]
        state = {name: torch.stack([own[name] for own in states]) for name in states[0]}
        self.received = received
        single = torch.tensor([len(task.rows) == 1 for task in self.tasks], device=self.device)
        anchor = {name: received[name] for name, grad in names.items() if grad}
        return Stack(params, buffers, anchor, state, single)

    def all_steps(self):
        """Every step of every client; those that have finished leave the stack."""
        stack = self.whole
        optimizer = self._optimizer(stack.params)
        weights = self._row_weights()
        width = self.plan.index.shape[1]
        column = torch.arange(width, device=self.device)
        lengths = torch.from_numpy(self.plan.lengths).to(self.device)
        masks = (column < lengths[:, None]).to(self.engine.data.X.dtype)
        weights = masks if weights is None else masks * weights
        mass = self._mass(weights)
        shares = torch.where(mass > 0, weights / mass.clamp_min(torch.finfo(mass.dtype).tiny), 0 * weights)
        for n, start in zip(self.plan.active.tolist(), self.plan.offset.tolist(), strict=True):
            if n < len(stack.frozen_norm):
                stack = self._shrink(stack, optimizer, n)
            part = slice(start, start + n)
            stack.mask, stack.lengths = masks[part], lengths[part]
            self._step(stack, optimizer, self.rows[part], self.labels[part], shares[part])

    def _row_weights(self):
        """Weight of every entry of the index, None where all are one."""
        weights = None if self.engine.data.weights is None else self.engine.data.weights[self.rows]
        if self.tasks[0].class_weights is None:
            return weights
        by_class = torch.stack([task.class_weights for task in self.tasks])[self.owner]
        by_class = by_class.gather(1, self.labels)
        return by_class if weights is None else weights * by_class

    def _mass(self, weights):
        """What a batch's weighted losses are divided by: 1 under reduction 'sum'."""
        criterion = self.engine.net.criterion_
        if criterion.reduction == "sum":
            return torch.ones_like(weights[:, :1])
        weights = weights if criterion.weight is None else weights * criterion.weight[self.labels]
        return (weights * (self.labels != criterion.ignore_index)).sum(1, keepdim=True)

    def _optimizer(self, params):
        """The net's optimiser over the stacked parameters, fresh."""
        net = self.engine.net
        args, kwargs = net.get_params_for_optimizer("optimizer", list(params.items()))
        optimizer = net.optimizer(*args, **kwargs)
        for group in optimizer.param_groups:
            group["lr"] = group["lr"] * self.lr_factor
        return optimizer

    @staticmethod
    def _shrink(stack, optimizer, n):
        """Keep the first `n` clients, in the optimiser and its state too."""
        smaller = stack.first(n)
        new = {id(old): smaller.params[name] for name, old in stack.params.items()}
        for group in optimizer.param_groups:
            group["params"] = [new[id(old)] for old in group["params"]]
        for name, old in stack.params.items():
            if old not in optimizer.state:
                continue
            optimizer.state[smaller.params[name]] = {
                key: value[:n] if isinstance(value, torch.Tensor) and value.shape == old.shape else value
                for key, value in optimizer.state.pop(old).items()
            }
        return smaller

    def _step(self, stack, optimizer, rows, y, shares):
        """One step of the clients in `stack`."""
        engine, algorithm = self.engine, self.engine.algorithm
        optimizer.zero_grad()
        with engine._autocast():
            output = engine._forward(stack, _take(engine.data.X, rows))
        if not engine._output_checked:
            check_output(output.detach().flatten(0, 1), engine.net.criterion_, engine.n_classes)
            engine._output_checked = True
        losses = _row_losses(engine.net.criterion_, output.flatten(0, 1), y.flatten()).view_as(shares)
        batch = (losses * shares).sum(1)
        total = batch.sum()
        self.losses[: len(batch)] += batch.detach() * stack.lengths
        if algorithm.overrides("penalty"):
            live = {name: stack.params[name] for name in stack.anchor}
            total = (
                total
                + vmap(algorithm.penalty, in_dims=(0, 0, 0, None))(
                    live, stack.anchor, stack.state, self.server_state
                ).sum()
            )
        total.backward()
        if algorithm.overrides("correct"):
            self._correct(stack)
        if engine._clip is not None:
            engine._clip([p for p in stack.params.values() if p.grad is not None])
        optimizer.step()

    def _correct(self, stack):
        with torch.no_grad():
            live = {name: stack.params[name].detach() for name in stack.anchor}
            grads = {name: stack.params[name].grad for name in live if stack.params[name].grad is not None}
            new = vmap(self.engine.algorithm.correct, in_dims=(0, 0, 0, 0, None))(
                grads, live, stack.anchor, stack.state, self.server_state
            )
            for name, grad in new.items():
                stack.params[name].grad = grad

    def update(self):
        """What the cohort sends, ordered by the clients' keys."""
        engine, tasks = self.engine, self.tasks
        sizes = np.array([len(task.rows) for task in tasks]) * engine.settings.epochs
        losses = self.losses.cpu().numpy() / sizes
        self._check_losses(losses)
        tensors = {name: p.detach() for name, p in self.whole.params.items()} | self.whole.buffers
        tensors, state = self._finish(tensors)
        self._check_finite(tensors)
        shared = set(engine.algorithm.shared(self.received))
        kept = {name: tensors[name] for name in self.received if name not in shared}
        sent = {name: stack for name, stack in tensors.items() if name not in kept}
        order = np.array(sorted(range(len(tasks)), key=lambda i: tasks[i].client.position))
        turn = torch.from_numpy(order).to(self.device)
        straight = (order == np.arange(len(order))).all()
        put = lambda tree: tree if straight else {k: v[turn] for k, v in tree.items()}  # noqa: E731
        return CohortUpdate(
            clients=tuple(tasks[i].client for i in order),
            tensors=put(sent),
            weights=np.array([tasks[i].weight for i in order]),
            kept=put(kept),
            state=put(state),
            losses=losses[order],
            steps=self.plan.steps[order],
            notes=tuple(self._notes(tasks[i]) for i in order),
        )

    def _notes(self, task):
        if len(task.rows) > 1 or not self.engine.settings.batch_norms:
            return ()
        return (f"client {task.client.key!r} has one row: BatchNorm in evaluation mode",)

    def _finish(self, tensors):
        """The algorithm's `finish` for every client."""
        algorithm, state = self.engine.algorithm, self.whole.state
        if not algorithm.overrides("finish"):
            return tensors, state
        sent, states = [], []
        for i, task in enumerate(self.tasks):
            one = lambda tree, i=i: {name: stack[i] for name, stack in tree.items()}  # noqa: E731
            lr = self.engine.settings.lr * self.lr_factor
            run = LocalRun(int(self.plan.steps[i]), lr, len(task.rows), task.weight)
            new, own = algorithm.finish(one(tensors), task.params, one(state), self.server_state, run)
            sent.append(new)
            states.append(own)
        return _stack_trees(sent), _stack_trees(states)

    def _check_losses(self, losses):
        bad = np.flatnonzero(~np.isfinite(losses))
        if len(bad):
            raise NotFiniteError(
                f"The loss of client {self.tasks[bad[0]].client.key!r} in round {self.round} is "
                f"{losses[bad[0]]}. Lower the learning rate, scale the features, or clip gradients "
                "(skorch.callbacks.GradientNormClipping)."
            )

    def _check_finite(self, tensors):
        for name, stack in tensors.items():
            if not stack.is_floating_point():
                continue
            bad = ~torch.isfinite((stack * 0).flatten(1).sum(1)) if stack.ndim > 1 else ~torch.isfinite(stack)
            if bad.any():
                client = self.tasks[int(bad.nonzero()[0])].client
                raise NotFiniteError(
                    f"The update of client {client.key!r} in round {self.round} is not finite in {name!r}. "
                    "Lower the learning rate, scale the features, or clip gradients."
                )


def _row_losses(criterion, output, y):
    """Loss of every row; `output` is (rows, classes)."""
    if isinstance(criterion, nn.NLLLoss):
        logs = torch.log(output + torch.finfo(output.dtype).eps)
        return F.nll_loss(
            logs, y, weight=criterion.weight, ignore_index=criterion.ignore_index, reduction="none"
        )
    return F.cross_entropy(
        output,
        y,
        weight=criterion.weight,
        ignore_index=criterion.ignore_index,
        label_smoothing=criterion.label_smoothing,
        reduction="none",
    )


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


def _names(tasks):
    keys = [task.client.key for task in tasks]
    return f"{keys}" if len(keys) <= 5 else f"{keys[:5]} and {len(keys) - 5} more"
