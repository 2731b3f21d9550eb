"""The rounds: who trains on what, in which order, and what becomes of it."""

import time
from collections import deque
from dataclasses import replace

import numpy as np
import torch

from fedrela_sk import _tree
from fedrela_sk._random import Purpose
from fedrela_sk.algorithms import Job, Recipe, RoundFacts
from fedrela_sk.algorithms._base import trainable_names
from fedrela_sk.exceptions import ClientError, FedReLaError, NotFiniteError, PartitionError
from fedrela_sk.federation._asking import ask_clients
from fedrela_sk.federation._lineup import line_up, select_senders
from fedrela_sk.federation._predicting import predict_alone, predict_personal
from fedrela_sk.federation._relabeling_together import relabel_clients
from fedrela_sk.federation._schedule import lr_factor, relabel_due
from fedrela_sk.federation._side_table import SideTable
from fedrela_sk.federation._state import State
from fedrela_sk.federation._weights import class_counts, client_class_weights, client_weights, mass
from fedrela_sk.participation import UniformSampling
from fedrela_sk.report import History, RoundRecord
from fedrela_sk.training import LocalTask, Model, posteriors
from fedrela_sk.training._generator import forked_generators, seed_generators
from fedrela_sk.training._net import write_tensors


def server_round(algorithm, updates, params, server_state, facts, stretch=None):
    """What the server does with the updates of a round; it sees nothing else.

    Parameters
    ----------
    algorithm : Algorithm
    updates : iterable of ClientUpdate
        In the order in which they are folded.
    params, server_state : dict of tensors
    facts : callable of int
        `RoundFacts` of the round, given the number of updates.
    stretch : callable or None
        What becomes of the aggregated tensors before the method's step: weights of a rule of participation
        need not sum to 1.

    Returns
    -------
    params, server_state : dict of tensors
    """
    folded, n_updates = algorithm.aggregate(), 0
    for update in updates:
        update.fold_into(folded)
        n_updates += update.n_clients
    aggregated = folded.result() if stretch is None else stretch(folded.result())
    return algorithm.step(params, aggregated, server_state, facts(n_updates))


class Conductor:
    """Runs the rounds of one fit.

    Parameters
    ----------
    plan : Plan
    net : initialised skorch net
    engine : engine of `fedrela_sk.training`
    """

    def __init__(self, plan, net, engine):
        self.plan = plan
        self.net = net
        self.engine = engine
        self.present = [spec for spec in plan.specs if mass(spec.train_rows, plan.weights)]
        self.side = SideTable(plan) if hasattr(plan.local_data, "fit_resample") else None
        self.numbers = {spec.position: number for number, spec in enumerate(self.present)}
        self._parameters = {name for name, _ in net.module_.named_parameters()}
        self._trainable = trainable_names(net.module_)
        self._check_participation()
        self._counts_relabeled = "relabeled" in (
            getattr(plan.algorithm, "counts", None),
            getattr(net.criterion_, "count_labels", None),
        )
        self._labels_moved()

    def _check_participation(self):
        """Refuse rules of participation that a method cannot follow."""
        rule, algorithm = self.plan.participation, self.plan.algorithm
        if not hasattr(rule, "choose") or (algorithm.averages and algorithm.sends_model):
            return
        if isinstance(rule, UniformSampling):
            return
        raise ValueError(
            f"participation={rule!r} does not go with {type(algorithm).__name__}, whose clients do not send their "
            "model to be averaged. Use a share of the clients, or UniformSampling."
        )

    def start(self, params):
        """`State` before round 0."""
        plan = self.plan
        counts = np.array([self._class_counts(spec.train_rows) for spec in self.present])
        present = {spec.position for spec in self.present}
        history = History(
            [spec.key for spec in plan.specs if spec.position not in present], np.mean(counts == 0)
        )
        history.notes.extend(plan.notes)
        if plan.relabeler is not None and plan.first_relabel is None:
            history.notes.append(
                f"No relabelling: no round of {plan.n_rounds} is left to train on new labels."
            )
        params = _tree.copy(params)
        like, module = plan.data.X.new_empty(0), self.net.module_
        n_clients, n_classes = len(self.present), len(plan.classes)
        job = Job(n_clients, n_classes, plan.classes, plan.seed, like, module, plan.auxiliary)
        return State(
            params=params,
            server=plan.algorithm.init_server(params, job),
            codes=plan.codes.copy(),
            keep=np.ones(len(plan.codes), dtype=bool),
            history=history,
        )

    def run_round(self, state, round):
        """One round, in place; its record is appended to ``state.history``."""
        began = time.perf_counter()
        lineup = self._line_up(state, round)
        chosen = lineup.specs
        relabeled = self._relabel(state, chosen, round)
        reported, asked_model = self._ask(state, chosen, round)
        tasks = self._tasks(state, chosen, round)
        sent = self._model_nbytes(state) * len(tasks) + self._once_nbytes(state, tasks)
        receipts = self._train(state, round, tasks, lineup)
        loss, score = self._validate(state, round)
        n_rows = {task.client.position: len(task.rows) for task in tasks}
        idle = [f"client {spec.key!r} has no row left" for spec in chosen if spec.position not in n_rows]
        if self.side is not None:
            idle += self.side.notes(chosen)
        state.history.append(
            RoundRecord(
                round=round,
                participants=tuple(receipt.client.key for receipt in receipts),
                n_rows=sum(n_rows.values()),
                n_steps=sum(receipt.n_steps for receipt in receipts),
                train_loss=_mean_loss(receipts, n_rows),
                valid_loss=loss,
                valid_score=score,
                n_relabeled=sum(self._n_changed(state, spec.train_rows) for spec in relabeled),
                relabeled_clients=tuple(spec.key for spec in relabeled),
                bytes_up=sum(receipt.nbytes for receipt in receipts) + reported + lineup.nbytes,
                bytes_down=sent + asked_model,
                seconds=time.perf_counter() - began,
                notes=tuple(idle + [note for receipt in receipts for note in receipt.notes]),
            )
        )

    def _n_changed(self, state, rows):
        return int(np.count_nonzero(state.codes[rows] != self.plan.codes[rows]))

    def _line_up(self, state, round):
        """Who takes part, as the rule of participation says."""
        plan = self.plan
        positions = [spec.position for spec in self.present]
        return line_up(
            plan.participation,
            self.present,
            round,
            plan.seed,
            sizes=lambda: self.client_sizes(state)[positions],
            counts=lambda: np.array([self._class_counts(spec.train_rows) for spec in self.present]),
        )

    def _train(self, state, round, tasks, lineup):
        """Train and aggregate, in place; a `Receipt` for every update, in the order of folding.

        A round in which no client has rows left (relabellers may drop them) leaves the model as it is.
        """
        algorithm, receipts = self.plan.algorithm, []
        arriving, total = self._updates(state, round, tasks, lineup, receipts)
        if not (tasks and algorithm.averages):
            deque(arriving, maxlen=0)
            return receipts
        started = state.params
        facts = lambda n_updates: self._facts(round, n_updates, started)  # noqa: E731
        try:
            state.params, state.server = server_round(
                algorithm, arriving, state.params, state.server, facts, self._stretch(state.params, total)
            )
        except FedReLaError:
            raise
        except ValueError as error:
            raise ClientError(f"The updates of round {round} could not be aggregated: {error}") from error
        if algorithm.overrides("server_train"):
            self._train_server(state, facts(len(receipts)))
        return receipts

    def _updates(self, state, round, tasks, lineup, receipts):
        """(updates to fold, factor on the averaged displacement); receipts are appended as they come."""
        rule = self.plan.participation
        if lineup.chained:
            return self._in_chains(state, round, tasks, lineup, receipts), lineup.total
        if lineup.weights is not None:
            tasks = [replace(task, weight=lineup.weights[task.client.position]) for task in tasks]
        arriving = self._arriving(state, round, tasks, receipts)
        if not getattr(rule, "trains_all", False):
            return arriving, lineup.total
        singles = [single for update in arriving for single in update.singles()]
        norms = [self._displacement(single, state.params) for single in singles]
        weights = [single.weight for single in singles]
        senders, absolute = select_senders(rule, round, self.plan.seed, weights, norms)
        kept = {singles[i].client.position for i in senders}
        receipts[:] = [
            receipt if receipt.client.position in kept else replace(receipt, nbytes=0) for receipt in receipts
        ]
        sent = [replace(singles[i], weight=weight) for i, weight in zip(senders, absolute, strict=True)]
        return sent, sum(absolute)

    def _arriving(self, state, round, tasks, receipts):
        """Updates of side-by-side training as they come."""
        if not tasks:
            return ()
        factor, progress = lr_factor(self.plan.lr_schedule, round), round / self.plan.n_rounds
        algorithm = self.plan.algorithm
        broadcast = algorithm.broadcast(state.server) | algorithm.once(state.server)
        arriving = self.engine.train(round, tasks, broadcast, factor, progress)
        return self._keep_books(state, arriving, receipts)

    def _in_chains(self, state, round, tasks, lineup, receipts):
        """The last update of every chain, in the order of the chains; models are handed on inside them."""
        by_position = {task.client.position: task for task in tasks}
        chains = [
            [by_position[s.position] for s in group if s.position in by_position] for group in lineup.groups
        ]
        handed, last = {}, {}
        for wave in range(max(map(len, chains), default=0)):
            here = {chain[wave].client.position: i for i, chain in enumerate(chains) if len(chain) > wave}
            training = [
                replace(by_position[p], params=by_position[p].params | handed.get(here[p], {}))
                for p in sorted(here)
            ]
            for update in self._arriving(state, round, training, receipts):
                for single in update.singles():
                    i = here[single.client.position]
                    handed[i], last[i] = single.tensors, single
        weights = {i: lineup.weights[group[-1].position] for i, group in enumerate(lineup.groups)}
        return [replace(last[i], weight=weights[i]) for i in sorted(last)]

    def _displacement(self, single, params):
        """Euclidean norm of what a client's training moved, a float."""
        moved = {name: single.tensors[name] for name in self._parameters if name in single.tensors}
        return float(_tree.squared_distance(_as_double(moved), _as_double(params)).sqrt())

    def _stretch(self, params, total):
        """Multiplies the averaged displacement of parameters with `total`; None where that changes nothing."""
        if total == 1:
            return None
        return lambda mean: {
            name: params[name] + total * (tensor - params[name]) if name in self._parameters else tensor
            for name, tensor in mean.items()
        }

    def _train_server(self, state, facts):
        """What the server trains by itself after a round, in place."""
        device = self.net.device
        write_tensors(self.net.module_, state.params)
        with forked_generators(device):
            seed_generators(device, self.plan.seed, Purpose.SERVER, facts.round)
            params, server = self.plan.algorithm.server_train(self.model, state.params, state.server, facts)
        state.params, state.server = _tree.detach(params), _tree.detach(server)

    def _facts(self, round, n_updates, anchor):
        factor = lr_factor(self.plan.lr_schedule, round)
        lr = self.engine.settings.lr * factor
        n_clients, recipe = len(self.present), self._recipe()
        return RoundFacts(round, n_updates, n_clients, lr, self._trainable, anchor, recipe)

    def _recipe(self):
        settings, options = self.engine.settings, self.net.optimizer_.param_groups[0]
        momentum, decay = (float(options.get(name, 0.0)) for name in ("momentum", "weight_decay"))
        return Recipe(settings.epochs, settings.batch_size, momentum, decay)

    @property
    def model(self):
        """The net's module as a function of tensors."""
        return Model(self.net.module_, self.net.criterion_, len(self.plan.classes))

    def _model_nbytes(self, state):
        """Bytes that every chosen client receives before it trains."""
        algorithm = self.plan.algorithm
        shared = _tree.subset(state.params, algorithm.shared(state.params))
        return _tree.nbytes(shared) + _tree.nbytes(algorithm.broadcast(state.server))

    def _once_nbytes(self, state, tasks):
        """Bytes of what clients receive when they take part for the first time, all new ones together."""
        algorithm = self.plan.algorithm
        if not algorithm.overrides("once"):
            return 0
        known = {key for record in state.history for key in record.participants}
        n_new = sum(task.client.key not in known for task in tasks)
        return n_new * _tree.nbytes(algorithm.once(state.server))

    def _ask(self, state, chosen, round):
        """Reports before training, in place; bytes sent up, and down to clients that then do not train."""
        plan, algorithm = self.plan, self.plan.algorithm
        whom = algorithm.asks(round)
        if whom == "nobody":
            return 0, 0
        asked = self.present if whom == "all" else chosen
        tasks = self._tasks(state, asked, round)
        answers = ask_clients(
            algorithm, self.net, self.data, tasks, self.numbers, algorithm.broadcast(state.server), round, plan.seed,
            len(plan.classes), round / plan.n_rounds,
        )  # fmt: skip
        idle = len({task.client.position for task in tasks} - {spec.position for spec in chosen})
        received = idle * self._model_nbytes(state) * algorithm.report_needs_model
        facts = self._facts(round, len(tasks), state.params)
        state.server = algorithm.gather(answers.reports, state.server, facts)
        return answers.nbytes, received

    def _relabel(self, state, chosen, round):
        """Relabel those of the chosen clients that are due; returns them."""
        plan = self.plan
        if plan.relabeler is None:
            return []
        due = [spec for spec in chosen if self._is_due(state, spec, round)]
        if not due:
            return due

        def model(spec):
            write_tensors(self.net.module_, self._predicting_at(state, spec))
            return self.net

        results = relabel_clients(
            plan.relabeler,
            due,
            model,
            plan.data.X,
            plan.labels,
            plan.codes,
            plan.classes,
            round,
            plan.seed,
            plan.relabel_posteriors,
            self.engine.settings.batch_size,
            plan.weights,
        )
        for spec, result in zip(due, results, strict=True):
            rows = spec.train_rows
            state.relabelings[spec.position] = result
            state.codes[rows], state.keep[rows] = result.codes, result.keep
        self._labels_moved()
        return due

    def _is_due(self, state, spec, round):
        plan, last = self.plan, state.relabelings.get(spec.position)
        return relabel_due(
            round,
            None if last is None else last.round,
            plan.first_relabel,
            plan.relabel_every,
            plan.relabel_posteriors["late"],
        )

    def _labels_moved(self):
        """Forget what was derived from current labels and kept rows."""
        self._tensors = {}
        self._weights = None

    def _tasks(self, state, chosen, round):
        """Local training of the chosen clients that have rows left, in their order."""
        if self._weights is None:
            self._sizes = self.client_sizes(state)
            if not self._sizes.any():
                raise PartitionError(
                    f"All clients are empty in round {round}: relabelling left no row in training anywhere. "
                    "Check the mask that the relabeler returns."
                )
            self._weights = client_weights(self.plan.client_weight, self._sizes)
        self._refresh_side(state)
        chosen = [spec for spec in chosen if self._sizes[spec.position]]
        numbers = np.array([self.numbers[spec.position] for spec in chosen], dtype=np.int64)
        weights = self._weights[[spec.position for spec in chosen]]
        weights = self.plan.algorithm.weigh(weights, numbers, state.server)
        tasks = []
        for spec, weight in zip(chosen, weights.tolist(), strict=True):
            rows, y, class_weights, counts = self._client_tensors(state, spec)
            tasks.append(
                LocalTask(
                    client=spec,
                    rows=rows,
                    y=y,
                    class_weights=class_weights,
                    weight=weight,
                    params=self._received(state, spec),
                    state=state.clients.get(spec.position, {}),
                    counts=counts,
                )
            )
        return tasks

    @property
    def data(self):
        """The rows that clients train on."""
        return self.plan.data if self.side is None else self.side.data

    def _refresh_side(self, state):
        """Let clients whose labels moved resample their rows."""
        if self.side is None:
            return
        clients = [(spec, _kept_rows(state, spec)) for spec in self.present if self._sizes[spec.position]]
        if self.side.refresh(state, clients):
            self.engine.set_data(self.side.data)
            self._tensors = {}

    @staticmethod
    def _received(state, spec):
        """The model as a client has it: the global tensors, and those that stay with it."""
        kept = state.kept.get(spec.position)
        return state.params | kept if kept else state.params

    def _predicting_at(self, state, spec):
        """The model whose posteriors relabel at a client: the global one as it predicts, else its own."""
        if self.plan.algorithm.averages:
            return self.predicting(state)
        return self._received(state, spec)

    def client_sizes(self, state):
        """Sum of the weights of every client's rows in training, ndarray of shape (n_clients,)."""
        return np.array([mass(_kept_rows(state, spec), self.plan.weights) for spec in self.plan.specs])

    def class_count(self, state):
        """Original rows of each class in training over all clients, as the sum of their weights."""
        return self._class_counts(np.concatenate([_kept_rows(state, spec) for spec in self.plan.specs]))

    def _class_counts(self, rows, codes=None):
        """Rows of each class, of the original labels or of `codes`."""
        plan = self.plan
        weights = None if plan.weights is None else plan.weights[rows]
        codes = plan.codes if codes is None else codes
        return class_counts(codes[rows], len(plan.classes), weights)

    def _client_tensors(self, state, spec):
        """Rows in training, current labels, class weights, class counts: tensors on the data's device."""
        if spec.position not in self._tensors:
            plan, device = self.plan, self.plan.data.X.device
            rows = _kept_rows(state, spec)
            train_rows, codes = (
                (rows, state.codes[rows]) if self.side is None else self.side.rows(spec.position)
            )
            counts = self._class_counts(rows)
            factors = client_class_weights(plan.class_weight, counts, plan.classes)
            counts = self._class_counts(rows, state.codes) if self._counts_relabeled else counts
            self._tensors[spec.position] = (
                torch.from_numpy(train_rows).to(device),
                torch.from_numpy(codes).to(device),
                None if factors is None else torch.from_numpy(factors).to(device, self._dtype),
                torch.from_numpy(counts).to(device, self._dtype),
            )
        return self._tensors[spec.position]

    @property
    def _dtype(self):
        return self.plan.data.X.dtype

    @staticmethod
    def _keep_books(state, arriving, receipts):
        """Pass updates on; what stays at a client is put back there, what was sent is then let go."""
        for update in arriving:
            yield update
            receipts.extend(update.receipts())
            for single in update.singles() if update.kept or update.state else ():
                if single.kept:
                    state.kept[single.client.position] = single.kept
                if single.state:
                    state.clients[single.client.position] = single.state

    def _validate(self, state, round):
        """(loss, score) of the new model on the validation rows; the best round is remembered."""
        plan = self.plan
        if plan.validation is None:
            return float("nan"), float("nan")
        Q = self.predict(state, plan.validation.X, plan.validation.positions)
        bad = np.flatnonzero(~np.isfinite(Q).all(axis=1))
        if len(bad):
            raise NotFiniteError(
                f"The posterior of validation row {bad[0]} is not finite after round {round}, got {Q[bad[0]]}. "
                "Scale the features, or lower the learning rate."
            )
        loss, score = plan.validation.score(Q)
        if plan.select == "best_validation" and (state.best is None or score > state.best[0]):
            state.best = (score, round, _tree.copy(self.predicting(state)), dict(state.kept))
        return loss, score

    def finish(self, state):
        """The model to keep, as (params, kept): the last one, or the best on the validation rows."""
        if state.best is None:
            return self.predicting(state), state.kept
        score, round, params, kept = state.best
        first = self.plan.first_relabel
        if self.plan.relabeler is not None and first is not None and round < first:
            state.history.notes.append(
                f"select='best_validation' kept round {round} (balanced accuracy {score:.4f}), which lies before "
                f"the relabel round {first}: the selected model never saw new labels."
            )
        return params, kept

    def predicting(self, state):
        """The global tensors as they predict."""
        algorithm = self.plan.algorithm
        if not algorithm.overrides("predict_params"):
            return state.params
        device = self.net.device
        write_tensors(self.net.module_, state.params)
        with forked_generators(device):
            seed_generators(device, self.plan.seed, Purpose.SERVER)
            return _tree.detach(algorithm.predict_params(state.params, state.server, self.model))

    def predict(self, state, X, positions=None):
        """Posteriors of rows under the global model, or under the clients' own where there is none.

        Parameters
        ----------
        state : State
        X : tensor of shape (n_rows, ...)
        positions : ndarray of shape (n_rows,) or None
            Position of each row's client, -1 for unknown. None or unknown: the global model, or where there
            is none the mean of all clients' posteriors weighted by their rows.

        Returns
        -------
        Q : ndarray of shape (n_rows, n_classes), float64
        """
        n_classes, algorithm = len(self.plan.classes), self.plan.algorithm
        if algorithm.averages and not algorithm.personal:
            write_tensors(self.net.module_, self.predicting(state))
            return posteriors(self.net, X, n_classes)
        positions = np.full(len(X), -1) if positions is None else positions
        if algorithm.personal:
            params = self.predicting(state)
            return predict_personal(self.net, algorithm, params, state.kept, X, positions, n_classes)
        return predict_alone(
            self.net, state.params, state.kept, self.client_sizes(state), X, positions, n_classes
        )


def _as_double(tree):
    return {name: tensor.double() for name, tensor in tree.items()}


def _mean_loss(receipts, n_rows):
    """Mean of the clients' losses weighted by their rows, NaN where nobody trained."""
    if not receipts:
        return float("nan")
    weights = [n_rows[receipt.client.position] for receipt in receipts]
    return float(np.average([receipt.loss for receipt in receipts], weights=weights))


def _kept_rows(state, spec):
    """Rows of a client in training: without those set aside and those that a relabeler dropped."""
    return spec.train_rows[state.keep[spec.train_rows]]
