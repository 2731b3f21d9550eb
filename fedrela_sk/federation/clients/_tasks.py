"""What each client trains on in a round: its rows, its labels, how much they count, the model it gets."""

import numpy as np
import torch

from fedrela_sk.exceptions import PartitionError
from fedrela_sk.federation.clients._counts import client_sizes, count_rows, kept_rows
from fedrela_sk.federation.clients._resampling import ResampledData
from fedrela_sk.federation.clients._weights import client_class_weights, client_weights
from fedrela_sk.training import LocalTask


class TaskMaker:
    """Makes the clients' tasks; what depends on labels alone is kept until labels move.

    Parameters
    ----------
    plan : Plan
    engine : engine of `fedrela_sk.training`
        Told of rows that clients' samplers make.
    criterion : torch module
        The net's; it may count relabelled rows.
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
        self._sizes = self._weights = None

    def make(self, state, chosen, round):
        """Local training of the chosen clients that have rows left.

        Parameters
        ----------
        state : State
        chosen : list of ClientSpec
        round : int

        Returns
        -------
        tasks : list of LocalTask
            In the order of `chosen`.

        Raises
        ------
        PartitionError
            If no client at all has a row left.
        """
        self._refresh(state, round)
        chosen = [spec for spec in chosen if self._sizes[spec.position]]
        numbers = np.array([self.numbers[spec.position] for spec in chosen], dtype=np.int64)
        weights = self._weights[[spec.position for spec in chosen]]
        weights = self.plan.algorithm.server_weights(weights, numbers, state.server)
        return [
            self._task(state, spec, weight) for spec, weight in zip(chosen, weights.tolist(), strict=True)
        ]

    def notes(self, specs):
        """What clients' samplers could not do, in the order of `specs`."""
        return [] if self._resampled is None else self._resampled.notes(specs)

    def sizes(self, state):
        """Sum of the weights of every client's rows in training, ndarray of shape (n_clients,)."""
        if self._sizes is None:
            self._sizes = client_sizes(self.plan, state)
        return self._sizes

    def _refresh(self, state, round):
        """Sizes, weights and resampled rows of all clients, where labels moved since."""
        if self._weights is not None:
            return
        if not self.sizes(state).any():
            raise PartitionError(
                f"All clients are empty in round {round}: relabelling left no row in training anywhere. "
                "Check the mask that the relabeler returns."
            )
        self._weights = client_weights(self.plan.client_weight, self._sizes)
        if self._resampled is None:
            return
        clients = [(spec, kept_rows(state, spec)) for spec in self.present if self._sizes[spec.position]]
        if self._resampled.refresh(state, clients):
            self.engine.set_data(self._resampled.data)

    def _task(self, state, spec, weight):
        rows, y, class_weights, counts = self._client_tensors(state, spec)
        return LocalTask(
            client=spec,
            rows=rows,
            y=y,
            class_weights=class_weights,
            weight=weight,
            params=state.params_at(spec),
            state=state.clients.get(spec.position, {}),
            counts=counts,
        )

    def _client_tensors(self, state, spec):
        """Rows in training, current labels, class weights, class counts: tensors on the data's device."""
        if spec.position not in self._tensors:
            self._tensors[spec.position] = self._make_tensors(state, spec)
        return self._tensors[spec.position]

    def _make_tensors(self, state, spec):
        plan, device, dtype = self.plan, self.plan.data.X.device, self.plan.data.dtype
        rows = kept_rows(state, spec)
        train_rows, codes = (
            (rows, state.codes[rows]) if self._resampled is None else self._resampled.rows(spec.position)
        )
        counts = count_rows(plan, rows)
        factors = client_class_weights(plan.class_weight, counts, plan.classes)
        counts = count_rows(plan, rows, state.codes) if self._counts_relabeled else counts
        return (
            torch.from_numpy(train_rows).to(device),
            torch.from_numpy(codes).to(device),
            None if factors is None else torch.from_numpy(factors).to(device, dtype),
            torch.from_numpy(counts).to(device, dtype),
        )
