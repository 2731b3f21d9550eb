"""Local training of a round's clients: what each of them trains on, in which order, and what they send."""

from dataclasses import replace

import torch

from fedrela_sk import _tree
from fedrela_sk.exceptions import PartitionError
from fedrela_sk.federation.clients._counts import client_class_weights, client_sizes, count_rows, kept_rows
from fedrela_sk.federation.clients._resampling import ResampledData
from fedrela_sk.federation.relabeling._schedule import keep_recorded
from fedrela_sk.training import LocalTask


class TaskMaker:
    """Makes the clients' tasks; what depends only on labels is kept until labels move.

    Parameters
    ----------
    plan : Plan
    engine : engine of `fedrela_sk.training`
        Told of rows that clients' samplers make.
    criterion : torch module
        The net's; it may count relabeled rows.
    present : list of ClientSpec
        Clients that have rows, by key.

    Attributes
    ----------
    numbers : dict
        Position of a present client to its number among them.
    """

    def __init__(self, plan, engine, criterion, present):
        self.plan = plan
        self.engine = engine
        self.present = present
        self.numbers = {spec.position: number for number, spec in enumerate(present)}
        self._resampled = ResampledData(plan) if hasattr(plan.local_data, "fit_resample") else None
        who_counts = (getattr(plan.algorithm, "counts", None), getattr(criterion, "count_labels", None))
        self._counts_relabeled = "relabeled" in who_counts
        self.labels_moved()

    @property
    def data(self):
        """The rows that clients train on, a `LocalData`."""
        return self.plan.data if self._resampled is None else self._resampled.data

    def labels_moved(self):
        """Forget what was derived from current labels and kept rows."""
        self._tensors = {}
        self._sizes = None
        self._fresh = False

    def with_rows(self, clients, specs, round):
        """Those of some clients that have rows left.

        Parameters
        ----------
        clients : ClientStates
        specs : list of ClientSpec
        round : int

        Raises
        ------
        PartitionError
            If no client at all has a row left.
        """
        self._refresh(clients, round)
        return [spec for spec in specs if self._sizes[spec.position]]

    def make(self, clients, specs, weights, params):
        """Local training of some clients that have rows.

        Parameters
        ----------
        clients : ClientStates
        specs : list of ClientSpec
            As `with_rows` gives them.
        weights : list of float
            Their weights in the aggregation.
        params : dict of tensors
            The model that the server sends.

        Returns
        -------
        tasks : list of LocalTask
            In the order of `specs`.
        """
        tasks = []
        for spec, weight in zip(specs, weights, strict=True):
            rows, y, class_weights, counts = self._client_tensors(clients, spec)
            model, state = clients.model_at(spec, params), clients.method.get(spec.position, {})
            tasks.append(LocalTask(spec, rows, y, class_weights, weight, model, state, counts))
        return tasks

    def notes(self, specs):
        """What clients' samplers could not do, in the order of `specs`."""
        return [] if self._resampled is None else self._resampled.notes(specs)

    def sizes(self, clients):
        """Sum of the weights of every client's rows in training, ndarray of shape (n_clients,)."""
        if self._sizes is None:
            self._sizes = client_sizes(self.plan, clients)
        return self._sizes

    def _refresh(self, clients, round):
        """Sizes and resampled rows of all clients, where labels moved since."""
        if self._fresh:
            return
        if not self.sizes(clients).any():
            raise PartitionError(
                f"All clients are empty in round {round}: relabeling left no row in training anywhere. "
                "Check the mask that the relabeler returns."
            )
        self._fresh = True
        if self._resampled is None:
            return
        rows = [(spec, kept_rows(clients, spec)) for spec in self.present if self._sizes[spec.position]]
        if self._resampled.refresh(clients, rows):
            self.engine.set_data(self._resampled.data)

    def _client_tensors(self, clients, spec):
        """Rows in training, current labels, class weights, class counts: tensors on the data's device."""
        if spec.position not in self._tensors:
            self._tensors[spec.position] = self._make_tensors(clients, spec)
        return self._tensors[spec.position]

    def _make_tensors(self, clients, spec):
        plan, device, dtype = self.plan, self.plan.data.X.device, self.plan.data.dtype
        rows = kept_rows(clients, spec)
        train_rows, codes = rows, clients.codes[rows]
        if self._resampled is not None:
            train_rows, codes = self._resampled.rows(spec.position)
        counts = count_rows(plan, rows)
        factors = client_class_weights(plan.class_weight, counts, plan.classes)
        counts = count_rows(plan, rows, clients.codes) if self._counts_relabeled else counts
        return (
            torch.from_numpy(train_rows).to(device),
            torch.from_numpy(codes).to(device),
            None if factors is None else torch.from_numpy(factors).to(device, dtype),
            torch.from_numpy(counts).to(device, dtype),
        )


class CohortTraining:
    """Trains the clients of one round, side by side or in chains, and passes on what they send.

    Parameters
    ----------
    engine : engine of `fedrela_sk.training`
    clients : ClientStates
        What stays at clients is put back there.
    instructions : Instructions
    send : callable of ClientUpdate or ChunkUpdate
        Called with every update that is sent, in the order of aggregation. Its tensors are let go afterwards.
    model : collection of str
        Names of the model's tensors, by which bytes are counted.

    Attributes
    ----------
    receipts : list of Receipt
        One for every client that trained, in the order of training.
    """

    def __init__(self, engine, clients, instructions, send, model):
        self.engine = engine
        self.clients = clients
        self.instructions = instructions
        self.send = send
        self.model = model
        self.receipts = []

    def side_by_side(self, tasks):
        """All clients start from the server's model; each sends what it made of it."""
        for update in self.engine.train(tasks, self.instructions) if tasks else ():
            self.send(update)
            self._put_back(update)

    def in_chains(self, tasks, groups, weights):
        """Models are handed on inside groups; the last client of each sends.

        Parameters
        ----------
        tasks : list of LocalTask
        groups : list of lists of ClientSpec
        weights : dict or None
            As in `Cohort`.
        """
        by_position = {task.client.position: task for task in tasks}
        chains = [[by_position[s.position] for s in group if s.position in by_position] for group in groups]
        last = {}
        for wave in range(max(map(len, chains), default=0)):
            here = {chain[wave].client.position: i for i, chain in enumerate(chains) if len(chain) > wave}
            training = [self._after(by_position[p], last.get(here[p])) for p in sorted(here)]
            for update in self.engine.train(training, self.instructions):
                last |= {here[single.client.position]: single for single in update.singles()}
                self._put_back(update)
        for i in sorted(last):
            own = sum(task.weight for task in chains[i])
            weight = own if weights is None else weights[groups[i][-1].position]
            self.send(replace(last[i], weight=weight))

    @staticmethod
    def _after(task, before):
        """The task of a client that goes on from what the one before it in its chain sent."""
        return task if before is None else replace(task, params=task.params | before.tensors)

    def selected(self, tasks, select, params, parameters):
        """All train and report how far they moved; those that a rule selects send.

        Parameters
        ----------
        tasks : list of LocalTask
        select : callable of (weights, norms)
            Gives the positions of those that send and their absolute weights.
        params : dict of tensors
            The model that the round started from.
        parameters : set of str
            Names of the tensors whose displacement counts.

        Returns
        -------
        total : float
            Sum of the absolute weights.
        """
        singles = []
        for update in self.engine.train(tasks, self.instructions) if tasks else ():
            singles.extend(update.singles())
            self._put_back(update)
        started = _as_double(params)
        norms = [_displacement(single.tensors, started, parameters) for single in singles]
        senders, weights = select([single.weight for single in singles], norms)
        sending = {singles[i].client.position for i in senders}
        self.receipts = [
            receipt if receipt.client.position in sending else replace(receipt, nbytes={})
            for receipt in self.receipts
        ]
        for i, weight in zip(senders, weights, strict=True):
            self.send(replace(singles[i], weight=weight))
        return sum(weights)

    def _put_back(self, update):
        """Note an update, and keep what it leaves at its clients."""
        self.receipts.extend(update.receipts(self.model))
        self.clients.put_back(update)
        if update.recorded:
            keep_recorded(self.clients, update.recorded, self.instructions.round)


def _displacement(tensors, started, parameters):
    """Euclidean norm of what a client's training moved."""
    moved = {name: tensors[name] for name in parameters if name in tensors}
    return float(_tree.squared_distance(_as_double(moved), started).sqrt())


def _as_double(tree):
    return {name: tensor.double() for name, tensor in tree.items()}
