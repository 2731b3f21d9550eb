"""One round in six labeled steps: here the simulated clients and the server meet."""

import time
from functools import cached_property

import numpy as np

from fedrela_sk import _tree
from fedrela_sk._update import Traffic, mean_loss
from fedrela_sk.algorithms._returned import check_query
from fedrela_sk.exceptions import ClientError, NotFiniteError
from fedrela_sk.federation._server import Aggregation, Server, ServerSettings, aggregating
from fedrela_sk.federation.clients._counts import original_counts, total_weight
from fedrela_sk.federation.clients._reports import Reporter
from fedrela_sk.federation.clients._sampling import sample_cohort, select_senders
from fedrela_sk.federation.clients._training import CohortTraining, TaskMaker
from fedrela_sk.federation.fitted._own_models import OwnModels
from fedrela_sk.federation.relabeling._all_clients import AllRows, relabel_clients
from fedrela_sk.federation.relabeling._one_client import RelabelStep
from fedrela_sk.federation.relabeling._schedule import can_relabel, take_recorded, with_recording
from fedrela_sk.federation.setup._first_state import first_state
from fedrela_sk.report import RoundRecord
from fedrela_sk.training import Instructions
from fedrela_sk.training._net import write_tensors
from fedrela_sk.training._posteriors import posteriors, unit_of


class Simulation:
    """Runs the rounds of one fit.

    Parameters
    ----------
    plan : Plan
    net : initialized skorch net
    engine : engine of `fedrela_sk.training`

    Attributes
    ----------
    present : list of ClientSpec
        Clients that have rows, by key.
    tasks : TaskMaker
        What clients train on.
    server : Server
    counts : ndarray of shape (n_present, n_classes)
        Original rows of each class.
    records : bool
        Whether clients record posteriors while they train, to relabel by them.
    """

    def __init__(self, plan, net, engine):
        self.plan = plan
        self.net = net
        self.engine = engine
        self.present = [spec for spec in plan.specs if total_weight(spec.train_rows, plan.weights)]
        self.tasks = TaskMaker(plan, engine, net.criterion_, self.present)
        self.server = Server(self._server_settings(), net, engine.settings)
        self.counts = original_counts(plan, self.present)
        self.records = plan.relabeler is not None and plan.records

    @cached_property
    def reporter(self):
        """What clients answer."""
        return Reporter(self.plan.algorithm, self.net, len(self.plan.classes), self.plan.seed)

    def _server_settings(self):
        plan, n_classes, n_clients = self.plan, len(self.plan.classes), len(self.present)
        return ServerSettings(
            plan.algorithm,
            n_classes,
            n_clients,
            plan.n_rounds,
            plan.seed,
            plan.client_weight,
            plan.lr_schedule,
        )

    def start(self, params):
        """`State` before round 0, the model having the tensors `params`."""
        return first_state(self.plan, self.present, self.counts, self.net.module_, params)

    def run_round(self, state, round):
        """One round, in place; its record is appended to ``state.history``."""
        state.history.append(Round(self, state, round).run())

    def tasks_of(self, state, specs, round):
        """Local training of some clients, those without a row left left out; a list of LocalTask."""
        tasks, numbers = self.tasks, self.tasks.numbers
        specs = tasks.with_rows(state.clients, specs, round)
        positions = [spec.position for spec in specs]
        weights = self.server.weights(
            state.server,
            tasks.sizes(state.clients),
            positions,
            [numbers[position] for position in positions],
            round,
        )
        return tasks.make(state.clients, specs, weights, state.server.params)

    def predict(self, state, params, X, positions):
        """Posteriors of validation rows under the global model, or under the clients' own.

        `positions` are those of the rows' clients; None: they belong to no client.
        """
        algorithm, n_classes = self.plan.algorithm, len(self.plan.classes)
        if not algorithm.has_own_models:
            write_tensors(self.net.module_, params)
            return posteriors(self.net, X, n_classes)
        positions = np.full(len(X), -1) if positions is None else positions
        clients = state.clients
        own = OwnModels(algorithm, self.net, params, clients.kept, self.tasks.sizes(clients))
        return own.predict(X, positions, n_classes)


class Round:
    """One round: sample, relabel, query, train (and aggregate), validate, record.

    The order is part of the method: clients relabel with the model and the server's state from before the query, and
    are weighed after it.

    Parameters
    ----------
    simulation : Simulation
    state : State
        Changed in place.
    index : int
        0-based.
    """

    def __init__(self, simulation, state, index):
        self.simulation = simulation
        self.plan = simulation.plan
        self.server = simulation.server
        self.state = state
        self.index = index
        self.traffic = Traffic()

    def run(self):
        """All steps; the round's `RoundRecord`."""
        began = time.perf_counter()
        cohort = self.sample()
        relabeled = self.relabel(cohort)
        self.query(cohort)
        tasks, receipts = self.train(cohort)
        loss, score = self.validate()
        seconds = time.perf_counter() - began
        return self.record(cohort, relabeled, tasks, receipts, loss=loss, score=score, seconds=seconds)

    # --- 1 ---------------------------------------------------------------------------------------------------

    def sample(self):
        """The `Cohort`: who takes part, as the rule of participation says."""
        plan, simulation = self.plan, self.simulation
        sizes = simulation.tasks.sizes(self.state.clients)[list(simulation.tasks.numbers)]
        cohort = sample_cohort(
            plan.participation, simulation.present, self.index, plan.seed, sizes, simulation.counts
        )
        self.traffic.add("up", "reports", cohort.nbytes)
        return cohort

    # --- 2 ---------------------------------------------------------------------------------------------------

    def relabel(self, cohort):
        """Relabel those clients of the cohort that are due; returns them."""
        plan, clients = self.plan, self.state.clients
        if plan.relabeler is None or plan.first_relabel is None or self.index < plan.first_relabel:
            return []
        due = [spec for spec in cohort.specs if can_relabel(plan, clients, spec, self.index)]
        if not due:
            return due
        for spec, result in zip(due, self._relabelings(due), strict=True):
            rows = spec.train_rows
            self._check_targets(spec, result)
            clients.relabelings[spec.position] = result
            clients.codes[rows], clients.keep[rows] = result.codes, result.keep
        self.simulation.tasks.labels_moved()
        extra = self.server.broadcast(self.state.server).relabeling
        self.traffic.add("down", "extra tensors", len(due) * _tree.nbytes(extra))
        return due

    def _relabelings(self, due):
        """New labels, by the posteriors of the model that predicts, or by those recorded in training."""
        plan, clients, net = self.plan, self.state.clients, self.simulation.net
        recorded = take_recorded(clients, due) if plan.records else None
        shared = None
        if plan.algorithm.averages and recorded is None:
            shared = self.server.predicting(self.state.server, relabeling=True)

        def model(spec):
            own = clients.model_at(spec, self.state.server.params) if shared is None else shared
            write_tensors(net.module_, own)
            return net

        step = RelabelStep(
            plan.relabeler,
            plan.classes,
            plan.seed,
            plan.relabel_posteriors,
            self.simulation.engine.settings.batch_size,
            eps=unit_of(net.module_),
            targets=plan.targets,
        )
        rows = AllRows(plan.data.X, plan.labels, plan.codes, plan.weights)
        return relabel_clients(step, due, self.index, rows, model, recorded=recorded)

    def _check_targets(self, spec, result):
        """Refuse new labels of a class that nobody has, which relabelers of our own never give."""
        targets, classes = self.plan.targets, self.plan.classes
        if targets is None or targets[result.codes].all():
            return
        label = classes.tolist()[result.codes[~targets[result.codes]][0]]
        raise ClientError(
            f"Relabeling of client {spec.key!r} before round {self.index} gave the class {label!r}, which was "
            "declared but which no client has. Let the relabeler choose among the classes that it was fitted on."
        )

    # --- 3 ---------------------------------------------------------------------------------------------------

    def query(self, cohort):
        """Let the method ask clients and gather their reports, where it has a question."""
        simulation, server, plan = self.simulation, self.state.server, self.plan
        if not plan.algorithm.uses("server_query"):
            return
        name = type(plan.algorithm).__name__
        query = check_query(
            plan.algorithm.server_query(self.index), f"{name}.server_query of round {self.index}"
        )
        if query is None:
            return
        asked = simulation.present if query.whom == "all" else cohort.specs
        tasks = simulation.tasks_of(self.state, asked, self.index)
        sent = self.server.broadcast(server).every_round
        instructions = Instructions(self.index, sent, progress=self.index / plan.n_rounds)
        reports = {
            simulation.tasks.numbers[task.client.position]: simulation.reporter.report(
                query, simulation.tasks.data, task, instructions
            )
            for task in tasks
        }
        self.traffic.add("up", "reports", sum(map(_tree.nbytes, reports.values())))
        training = {spec.position for spec in cohort.specs}
        only_asked = sum(task.client.position not in training for task in tasks)
        self.server.log_model(self.traffic, server, only_asked * query.needs_model, 0)
        facts = self.server.facts(self.index, len(tasks), server.params)
        made = query.gather(reports, server.method, facts)
        server.method = _tree.check_tensors(made, f"{name}: gather of the query of round {self.index}")

    # --- 4 ---------------------------------------------------------------------------------------------------

    def train(self, cohort):
        """Local training, aggregation and the server's step, in place.

        A round in which no client has rows left (relabelers may drop them) leaves the model as it is.

        Returns
        -------
        tasks : list of LocalTask
        receipts : list of Receipt
            One for every client that trained, in the order of aggregation.
        """
        state, plan, started = self.state, self.plan, self.state.server.params
        tasks = self.simulation.tasks_of(state, cohort.specs, self.index)
        if self.simulation.records:
            tasks = with_recording(tasks, plan, state.clients, self.index)
        self.server.log_model(self.traffic, state.server, len(tasks), self._n_new(tasks))
        aggregation = Aggregation(plan.algorithm)
        training, total = self._train_cohort(tasks, cohort, aggregation)
        for receipt in training.receipts:
            for purpose, nbytes in receipt.nbytes.items():
                self.traffic.add("up", purpose, nbytes)
        if tasks and plan.algorithm.averages:
            self.server.aggregate(state.server, aggregation, total, self.index)
            if plan.algorithm.uses("server_train"):
                facts = self.server.facts(self.index, len(training.receipts), started)
                self.server.train(state.server, facts)
        return tasks, training.receipts

    def _n_new(self, tasks):
        """Clients that have never trained; 0 where nothing travels to such clients only."""
        if not self.server.sends_once(self.state.server):
            return 0
        known = {key for record in self.state.history for key in record.participants}
        return sum(task.client.key not in known for task in tasks)

    def _train_cohort(self, tasks, cohort, aggregation):
        """(what the clients' training left, factor on the averaged displacement)."""
        plan, state = self.plan, self.state

        def send(update):
            if plan.algorithm.averages:
                with aggregating(self.index):
                    aggregation.add(update)

        instructions = self.server.instructions(state.server, self.index)
        training = CohortTraining(
            self.simulation.engine, state.clients, instructions, send, state.server.params.keys()
        )
        if cohort.chained:
            training.in_chains(tasks, cohort.groups, cohort.weights)
            return training, cohort.total
        tasks = [task.weighted(cohort.weights) for task in tasks] if cohort.weights is not None else tasks
        rule = plan.participation
        if not getattr(rule, "trains_all", hasattr(rule, "select")):
            training.side_by_side(tasks)
            return training, cohort.total

        def select(weights, norms):
            return select_senders(rule, self.index, plan.seed, weights, norms)

        return training, training.selected(tasks, select, state.server.params, self.server.parameters)

    # --- 5 ---------------------------------------------------------------------------------------------------

    def validate(self):
        """(loss, score) of the new model on the validation rows; the best round is remembered."""
        plan, state = self.plan, self.state
        if plan.validation is None:
            return float("nan"), float("nan")
        params = self.server.predicting(state.server)
        Q = self.simulation.predict(state, params, plan.validation.X, plan.validation.positions)
        bad = np.flatnonzero(~np.isfinite(Q).all(axis=1))
        if len(bad):
            raise NotFiniteError(
                f"The posterior of validation row {bad[0]} is not finite after round {self.index}, got {Q[bad[0]]}. "
                "Scale the features, or lower the learning rate."
            )
        loss, score = plan.validation.score(Q)
        if plan.select == "best_validation" and (state.best is None or score > state.best[0]):
            state.best = (score, self.index, _tree.copy(params), dict(state.clients.kept))
        return loss, score

    # --- 6 ---------------------------------------------------------------------------------------------------

    def record(self, cohort, relabeled, tasks, receipts, **measured):
        """The `RoundRecord`."""
        n_rows = {task.client.position: len(task.rows) for task in tasks}
        idle = [
            f"client {spec.key!r} has no row left" for spec in cohort.specs if spec.position not in n_rows
        ]
        sampled = self.simulation.tasks.notes([task.client for task in tasks])
        trained = [note for receipt in receipts for note in receipt.notes]
        return RoundRecord(
            round=self.index,
            participants=tuple(receipt.client.key for receipt in receipts),
            n_samples=sum(n_rows.values()),
            n_steps=sum(receipt.n_steps for receipt in receipts),
            train_loss=mean_loss(receipts, n_rows),
            valid_loss=measured["loss"],
            valid_score=measured["score"],
            n_relabeled=sum(self._n_changed(spec.train_rows) for spec in relabeled),
            relabeled_clients=tuple(spec.key for spec in relabeled),
            seconds=measured["seconds"],
            notes=tuple(idle + sampled + trained),
            traffic=self.traffic.nbytes,
        )

    def _n_changed(self, rows):
        return int(np.count_nonzero(self.state.clients.codes[rows] != self.plan.codes[rows]))
