"""The rounds: who trains on what, in which order, and what becomes of it."""

import time
from collections import deque

import numpy as np
import torch

from fedrela_sk import _tree
from fedrela_sk.algorithms import Job
from fedrela_sk.algorithms._records import frozen_names
from fedrela_sk.exceptions import ClientError, NotFiniteError
from fedrela_sk.federation._server import Server
from fedrela_sk.federation._state import State
from fedrela_sk.federation._traffic import model_nbytes, once_nbytes
from fedrela_sk.federation.clients._counts import original_counts
from fedrela_sk.federation.clients._reports import ask_clients
from fedrela_sk.federation.clients._sampling import sample_cohort
from fedrela_sk.federation.clients._tasks import TaskMaker
from fedrela_sk.federation.clients._updates import Collecting
from fedrela_sk.federation.clients._weights import total_weight
from fedrela_sk.federation.fitted._own_models import OwnModels
from fedrela_sk.federation.relabeling._all_clients import relabel_clients
from fedrela_sk.federation.relabeling._recorded import can_relabel, take_recorded, with_recording
from fedrela_sk.report import History, RoundRecord
from fedrela_sk.training import posteriors
from fedrela_sk.training._net import write_tensors
from fedrela_sk.training._posteriors import unit_of


class Simulation:
    """Runs the rounds of one fit.

    Parameters
    ----------
    plan : Plan
    net : initialised skorch net
    engine : engine of `fedrela_sk.training`

    Attributes
    ----------
    present : list of ClientSpec
        Clients that have rows, by key.
    tasks : TaskMaker
    server : Server
    """

    def __init__(self, plan, net, engine):
        self.plan = plan
        self.net = net
        self.engine = engine
        self.present = [spec for spec in plan.specs if total_weight(spec.train_rows, plan.weights)]
        self.tasks = TaskMaker(plan, engine, net.criterion_, self.present)
        self.server = Server(plan, net, engine.settings, len(self.present))
        self._counts = original_counts(plan, self.present)
        self._frozen = frozen_names(net.module_)
        self._parameters = {name for name, _ in net.module_.named_parameters(remove_duplicate=False)}

    def start(self, params):
        """`State` before round 0."""
        plan = self.plan
        present = {spec.position for spec in self.present}
        history = History(
            [spec.key for spec in plan.specs if spec.position not in present],
            np.mean(self._counts == 0),
        )
        history.notes.extend(plan.notes)
        if plan.relabeler is not None and plan.first_relabel is None:
            history.notes.append(
                f"No relabelling: no round of {plan.n_rounds} is left to train on new labels."
            )
        params = _tree.copy(params)
        like = torch.empty(0, dtype=plan.data.dtype, device=plan.data.X.device)
        module = self.net.module_
        n_clients, n_classes = len(self.present), len(plan.classes)
        job = Job(n_clients, n_classes, plan.classes, plan.seed, like, module, plan.auxiliary)
        return State(
            params=params,
            server=plan.algorithm.server_init(params, job),
            codes=plan.codes.copy(),
            keep=np.ones(len(plan.codes), dtype=bool),
            history=history,
        )

    def run_round(self, state, round):
        """One round, in place; its record is appended to ``state.history``."""
        began = time.perf_counter()
        algorithm = self.plan.algorithm
        cohort = self._sample(state, round)
        chosen = cohort.specs
        relabeled = self._relabel(state, chosen, round)
        predictor = len(relabeled) * _tree.nbytes(algorithm.server_broadcast(state.server).relabeling)
        reported, asked_model = self._ask(state, chosen, round)
        tasks = with_recording(self.tasks.make(state, chosen, round), self.plan, state, round)
        sent = model_nbytes(algorithm, state, self._frozen) * len(tasks)
        sent += once_nbytes(algorithm, state, tasks, self._frozen)
        receipts = self._train(state, round, tasks, cohort)
        loss, score = self._validate(state, round)
        n_rows = {task.client.position: len(task.rows) for task in tasks}
        idle = [f"client {spec.key!r} has no row left" for spec in chosen if spec.position not in n_rows]
        sampled = self.tasks.notes([task.client for task in tasks])
        trained = [note for receipt in receipts for note in receipt.notes]
        state.history.append(
            RoundRecord(
                round=round,
                participants=tuple(receipt.client.key for receipt in receipts),
                n_samples=sum(n_rows.values()),
                n_steps=sum(receipt.n_steps for receipt in receipts),
                train_loss=_mean_loss(receipts, n_rows),
                valid_loss=loss,
                valid_score=score,
                n_relabeled=sum(self._n_changed(state, spec.train_rows) for spec in relabeled),
                relabeled_clients=tuple(spec.key for spec in relabeled),
                bytes_up=sum(receipt.nbytes for receipt in receipts) + reported + cohort.nbytes,
                bytes_down=sent + asked_model + predictor,
                seconds=time.perf_counter() - began,
                notes=tuple(idle + sampled + trained),
            )
        )

    def _sample(self, state, round):
        """Who takes part, as the rule of participation says."""
        plan, sizes = self.plan, self.tasks.sizes(state)[list(self.tasks.numbers)]
        return sample_cohort(plan.participation, self.present, round, plan.seed, sizes, self._counts)

    def _relabel(self, state, chosen, round):
        """Relabel those of the chosen clients that are due; returns them.

        Posteriors are those of the global model as it predicts, or of a client's own where there is none; or
        what clients recorded when they last trained.
        """
        plan = self.plan
        if plan.relabeler is None:
            return []
        due = [spec for spec in chosen if can_relabel(plan, state, spec, round)]
        if not due:
            return due

        recorded = take_recorded(state, due) if plan.records else None
        shared = (
            self.server.predicting(state, relabeling=True)
            if plan.algorithm.averages and recorded is None
            else None
        )

        def model(spec):
            write_tensors(self.net.module_, state.params_at(spec) if shared is None else shared)
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
            recorded,
            eps=unit_of(self.net.module_),
            targets=plan.targets,
        )
        for spec, result in zip(due, results, strict=True):
            rows = spec.train_rows
            self._check_targets(spec, result, round)
            state.relabelings[spec.position] = result
            state.codes[rows], state.keep[rows] = result.codes, result.keep
        self.tasks.labels_moved()
        return due

    def _check_targets(self, spec, result, round):
        """Refuse new labels of a class that nobody has, which relabelers of our own never give."""
        targets, classes = self.plan.targets, self.plan.classes
        if targets is None or targets[result.codes].all():
            return
        label = classes.tolist()[result.codes[~targets[result.codes]][0]]
        raise ClientError(
            f"Relabelling of client {spec.key!r} before round {round} gave the class {label!r}, which was declared "
            "but which no client has. Let the relabeler choose among the classes that it was fitted on."
        )

    def _n_changed(self, state, rows):
        return int(np.count_nonzero(state.codes[rows] != self.plan.codes[rows]))

    def _ask(self, state, chosen, round):
        """Reports before training, in place; bytes sent up, and down to clients that then do not train."""
        plan, algorithm = self.plan, self.plan.algorithm
        query = algorithm.server_query(round)
        if query is None:
            return 0, 0
        tasks = self.tasks.make(state, self.present if query.whom == "all" else chosen, round)
        answers = ask_clients(
            algorithm,
            query,
            self.net,
            self.tasks.data,
            tasks,
            self.tasks.numbers,
            algorithm.server_broadcast(state.server).every_round,
            round,
            plan.seed,
            len(plan.classes),
            round / plan.n_rounds,
        )
        idle = len({task.client.position for task in tasks} - {spec.position for spec in chosen})
        received = idle * model_nbytes(algorithm, state, self._frozen) * query.needs_model
        facts = self.server.facts(round, len(tasks), state.params)
        state.server = query.gather(answers.reports, state.server, facts)
        return answers.nbytes, received

    def _train(self, state, round, tasks, cohort):
        """Train and aggregate, in place; a `Receipt` for every update, in the order of folding.

        A round in which no client has rows left (relabellers may drop them) leaves the model as it is.
        """
        algorithm, started = self.plan.algorithm, state.params
        collecting = Collecting(self.plan, self.engine, self._parameters, state, round)
        updates, stretch = collecting.updates(tasks, cohort)
        if not (tasks and algorithm.averages):
            deque(updates, maxlen=0)
            return collecting.receipts
        self.server.fold(state, updates, round, stretch)
        if algorithm.uses("server_train"):
            self.server.train(state, self.server.facts(round, len(collecting.receipts), started))
        return collecting.receipts

    def _validate(self, state, round):
        """(loss, score) of the new model on the validation rows; the best round is remembered."""
        plan = self.plan
        if plan.validation is None:
            return float("nan"), float("nan")
        params = self.server.predicting(state)
        Q = self._predict(state, params, plan.validation.X, plan.validation.positions)
        bad = np.flatnonzero(~np.isfinite(Q).all(axis=1))
        if len(bad):
            raise NotFiniteError(
                f"The posterior of validation row {bad[0]} is not finite after round {round}, got {Q[bad[0]]}. "
                "Scale the features, or lower the learning rate."
            )
        loss, score = plan.validation.score(Q)
        if plan.select == "best_validation" and (state.best is None or score > state.best[0]):
            state.best = (score, round, _tree.copy(params), dict(state.kept))
        return loss, score

    def _predict(self, state, params, X, positions):
        """Posteriors of validation rows under the global model, or under the clients' own.

        `positions` are those of the rows' clients; None: they belong to no client.
        """
        algorithm, n_classes = self.plan.algorithm, len(self.plan.classes)
        if algorithm.averages and not algorithm.personal:
            write_tensors(self.net.module_, params)
            return posteriors(self.net, X, n_classes)
        positions = np.full(len(X), -1) if positions is None else positions
        own = OwnModels(algorithm, self.net, params, state.kept, self.tasks.sizes(state))
        return own.predict(X, positions, n_classes)

    def finish(self, state):
        """The model to keep, as (params, kept): the last one, or the best on the validation rows."""
        if state.best is None:
            return self.server.predicting(state), state.kept
        score, round, params, kept = state.best
        first = self.plan.first_relabel
        if self.plan.relabeler is not None and first is not None and round < first:
            state.history.notes.append(
                f"select='best_validation' kept round {round} (balanced accuracy {score:.4f}), which lies before "
                f"the relabel round {first}: the selected model never saw new labels."
            )
        return params, kept


def _mean_loss(receipts, n_rows):
    """Mean of the clients' losses weighted by their rows, NaN where nobody trained."""
    if not receipts:
        return float("nan")
    weights = [n_rows[receipt.client.position] for receipt in receipts]
    return float(np.average([receipt.loss for receipt in receipts], weights=weights))
