"""The rounds: who trains on what, in which order, and what becomes of it."""

import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from fedrela_sk import _tree
from fedrela_sk.exceptions import ClientError, FedReLaError, NotFiniteError, PartitionError
from fedrela_sk.federation._relabeling import relabel_client
from fedrela_sk.federation._schedule import choose_clients, lr_factor, relabel_due
from fedrela_sk.federation._validation import Validation
from fedrela_sk.federation._weights import class_counts, client_class_weights, client_weights, mass
from fedrela_sk.report import History, RoundRecord
from fedrela_sk.training import LocalData, LocalTask, posteriors
from fedrela_sk.training._net import write_tensors


@dataclass(frozen=True)
class Plan:
    """Everything a fit knows before its first round.

    Attributes
    ----------
    specs : list of ClientSpec
        All clients by key, empty ones included.
    data : LocalData
    labels : ndarray of shape (n_rows,)
        Original labels.
    codes : ndarray of shape (n_rows,), int64
        Original labels as positions in `classes`.
    classes : ndarray of shape (n_classes,)
    weights : ndarray of shape (n_rows,) or None
        Row weights in float64.
    validation : Validation or None
    algorithm : Algorithm
    relabeler : object or None
    first_relabel : int or None
    relabel_every : int or None
    relabel_posteriors : dict
    n_rounds : int
    participation : float
    client_weight, class_weight, lr_schedule : as in `FederatedClassifier`
    select : str
    seed : int
    notes : tuple of str
        What the history should say of the partition.
    """

    specs: list
    data: LocalData
    labels: np.ndarray
    codes: np.ndarray
    classes: np.ndarray
    weights: np.ndarray | None
    validation: Validation | None
    algorithm: Any
    relabeler: Any
    first_relabel: int | None
    relabel_every: int | None
    relabel_posteriors: dict
    n_rounds: int
    participation: float
    client_weight: Any
    class_weight: Any
    lr_schedule: Any
    select: str
    seed: int
    notes: tuple = ()


@dataclass
class State:
    """Everything that changes from round to round.

    Attributes
    ----------
    params : dict of tensors
        The global model.
    server : dict of tensors
        The algorithm's state at the server.
    kept, clients : dict
        Position of a client to the model's tensors that stay there, and to its algorithm's state.
    codes : ndarray of shape (n_rows,), int64
        Current labels.
    keep : ndarray of shape (n_rows,), bool
        Rows that relabelling left in training.
    relabelings : dict
        Position of a client to its latest `ClientRelabeling`.
    history : History
    best : tuple or None
        (validation score, round, params, kept) of the best round so far.
    """

    params: dict
    server: dict
    codes: np.ndarray
    keep: np.ndarray
    history: History
    kept: dict = field(default_factory=dict)
    clients: dict = field(default_factory=dict)
    relabelings: dict = field(default_factory=dict)
    best: tuple | None = None


def server_round(algorithm, updates, params, server_state):
    """What the server does with the updates of a round; it sees nothing else.

    Parameters
    ----------
    algorithm : Algorithm
    updates : iterable of ClientUpdate
        In the order in which they are folded.
    params, server_state : dict of tensors

    Returns
    -------
    params, server_state : dict of tensors
    """
    folded = algorithm.aggregate()
    for update in updates:
        update.fold_into(folded)
    return algorithm.step(params, folded.result(), server_state)


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
        self._labels_moved()

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
        return State(
            params=params,
            server=plan.algorithm.init_server(params),
            codes=plan.codes.copy(),
            keep=np.ones(len(plan.codes), dtype=bool),
            history=history,
        )

    def run_round(self, state, round):
        """One round, in place; its record is appended to ``state.history``."""
        began = time.perf_counter()
        chosen = choose_clients(self.present, self.plan.participation, round, self.plan.seed)
        relabeled = self._relabel(state, chosen, round)
        tasks = self._tasks(state, chosen, round)
        receipts = self._train(state, round, tasks)
        loss, score = self._validate(state, round)
        sent = _tree.nbytes(_tree.subset(state.params, self.plan.algorithm.shared(state.params)))
        n_rows = {task.client.position: len(task.rows) for task in tasks}
        idle = [f"client {spec.key!r} has no row left" for spec in chosen if spec.position not in n_rows]
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
                bytes_up=sum(receipt.nbytes for receipt in receipts),
                bytes_down=sent * len(tasks),
                seconds=time.perf_counter() - began,
                notes=tuple(idle + [note for receipt in receipts for note in receipt.notes]),
            )
        )

    def _n_changed(self, state, rows):
        return int(np.count_nonzero(state.codes[rows] != self.plan.codes[rows]))

    def _train(self, state, round, tasks):
        """Train and aggregate, in place; a `Receipt` for every update, in the order of folding.

        A round in which no client has rows left (relabellers may drop them) leaves the model as it is.
        """
        algorithm, receipts = self.plan.algorithm, []
        factor = lr_factor(self.plan.lr_schedule, round)
        arriving = self.engine.train(round, tasks, state.server, factor) if tasks else ()
        arriving = self._keep_books(state, arriving, receipts)
        if not (tasks and algorithm.averages):
            deque(arriving, maxlen=0)
            return receipts
        try:
            state.params, state.server = server_round(algorithm, arriving, state.params, state.server)
        except FedReLaError:
            raise
        except ValueError as error:
            raise ClientError(f"The updates of round {round} could not be aggregated: {error}") from error
        return receipts

    def _relabel(self, state, chosen, round):
        """Relabel those of the chosen clients that are due; returns them."""
        plan = self.plan
        if plan.relabeler is None:
            return []
        due = [spec for spec in chosen if self._is_due(state, spec, round)]
        for spec in due:
            rows = spec.train_rows
            write_tensors(self.net.module_, self._received(state, spec))
            result = relabel_client(
                plan.relabeler,
                self.net,
                plan.data.X[torch.from_numpy(rows)],
                plan.labels[rows],
                plan.classes,
                spec,
                round,
                plan.seed,
                plan.relabel_posteriors,
                self.engine.settings.batch_size,
                None if plan.weights is None else plan.weights[rows],
            )
            state.relabelings[spec.position] = result
            state.codes[rows], state.keep[rows] = result.codes, result.keep
        if due:
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
        tasks = []
        for spec in chosen:
            if self._sizes[spec.position]:
                rows, y, class_weights = self._client_tensors(state, spec)
                tasks.append(
                    LocalTask(
                        client=spec,
                        rows=rows,
                        y=y,
                        class_weights=class_weights,
                        weight=float(self._weights[spec.position]),
                        params=self._received(state, spec),
                        state=state.clients.get(spec.position, {}),
                    )
                )
        return tasks

    @staticmethod
    def _received(state, spec):
        """The model as a client has it: the global tensors, and those that stay with it."""
        kept = state.kept.get(spec.position)
        return state.params | kept if kept else state.params

    def client_sizes(self, state):
        """Sum of the weights of every client's rows in training, ndarray of shape (n_clients,)."""
        return np.array([mass(_kept_rows(state, spec), self.plan.weights) for spec in self.plan.specs])

    def class_count(self, state):
        """Original rows of each class in training over all clients, as the sum of their weights."""
        return self._class_counts(np.concatenate([_kept_rows(state, spec) for spec in self.plan.specs]))

    def _class_counts(self, rows):
        plan = self.plan
        weights = None if plan.weights is None else plan.weights[rows]
        return class_counts(plan.codes[rows], len(plan.classes), weights)

    def _client_tensors(self, state, spec):
        """Rows in training, their current labels and class weights, as tensors on the data's device."""
        if spec.position not in self._tensors:
            plan, device = self.plan, self.plan.data.X.device
            rows = _kept_rows(state, spec)
            factors = client_class_weights(plan.class_weight, self._class_counts(rows), plan.classes)
            self._tensors[spec.position] = (
                torch.from_numpy(rows).to(device),
                torch.from_numpy(state.codes[rows]).to(device),
                None if factors is None else torch.from_numpy(factors).to(device, self._dtype),
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
            state.best = (score, round, _tree.copy(state.params), dict(state.kept))
        return loss, score

    def finish(self, state):
        """The model to keep, as (params, kept): the last one, or the best on the validation rows."""
        if state.best is None:
            return state.params, state.kept
        score, round, params, kept = state.best
        first = self.plan.first_relabel
        if self.plan.relabeler is not None and first is not None and round < first:
            state.history.notes.append(
                f"select='best_validation' kept round {round} (balanced accuracy {score:.4f}), which lies before "
                f"the relabel round {first}: the selected model never saw new labels."
            )
        return params, kept

    def predict(self, state, X, positions=None):
        """Posteriors of rows under the global model, or under the clients' own where there is none.

        Parameters
        ----------
        state : State
        X : tensor of shape (n_rows, ...)
        positions : ndarray of shape (n_rows,) or None
            Position of each row's client, -1 for unknown. None or unknown: the mean of all clients'
            posteriors weighted by their rows.

        Returns
        -------
        Q : ndarray of shape (n_rows, n_classes), float64
        """
        n_classes = len(self.plan.classes)
        if self.plan.algorithm.averages:
            write_tensors(self.net.module_, state.params)
            return posteriors(self.net, X, n_classes)
        positions = np.full(len(X), -1) if positions is None else positions
        return predict_alone(
            self.net, state.params, state.kept, self.client_sizes(state), X, positions, n_classes
        )


def _mean_loss(receipts, n_rows):
    """Mean of the clients' losses weighted by their rows, NaN where nobody trained."""
    if not receipts:
        return float("nan")
    weights = [n_rows[receipt.client.position] for receipt in receipts]
    return float(np.average([receipt.loss for receipt in receipts], weights=weights))


def _kept_rows(state, spec):
    """Rows of a client in training: without those set aside and those that a relabeler dropped."""
    return spec.train_rows[state.keep[spec.train_rows]]


def predict_alone(net, params, kept, sizes, X, positions, n_classes):
    """Posteriors from clients that never averaged: a row's own client, else the mean weighted by rows.

    Parameters
    ----------
    net : initialised skorch net
    params : dict of tensors
        What clients start from.
    kept : dict
        Position of a client to its own tensors; a client that never trained predicts with `params`.
    sizes : ndarray of shape (n_clients,)
        Weight of every client, 0 for those without rows.
    X : tensor of shape (n_rows, ...)
    positions : ndarray of shape (n_rows,), int64
        -1 for rows of no known client.
    n_classes : int

    Returns
    -------
    Q : ndarray of shape (n_rows, n_classes), float64
    """
    Q = np.zeros((len(X), n_classes))
    unknown = ~np.isin(positions, np.flatnonzero(sizes))
    total = sizes.sum()
    for position, size in enumerate(sizes.tolist()):
        own = positions == position
        rows = np.flatnonzero(own | unknown)
        if not size or not len(rows):
            continue
        write_tensors(net.module_, params | kept.get(position, {}))
        posterior = posteriors(net, X[torch.from_numpy(rows)], n_classes)
        factor = np.where(own[rows], 1.0, size / total)
        Q[rows] += factor[:, None] * posterior
    return Q
