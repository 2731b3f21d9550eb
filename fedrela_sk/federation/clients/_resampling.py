"""Rows that clients' samplers made, kept beside the data that were given."""

from dataclasses import replace

import numpy as np
import torch

from fedrela_sk._random import Purpose, integer_seed
from fedrela_sk.exceptions import ClientError, NotFiniteError
from fedrela_sk.local_data import resample
from fedrela_sk.training._sparse import append_rows


class ResampledData:
    """What each client trains on after its own rows were resampled.

    A client's rows are resampled before round 0 and again, from its own rows with their new labels, after each
    of its relabelings that changed any. New rows lie behind the given ones in one tensor; a client is still an
    index array.

    Parameters
    ----------
    plan : Plan
    """

    def __init__(self, plan):
        self.plan = plan
        self.data = plan.data
        self._made_at = {}  # position -> round of the relabeling that its rows stand for
        self._parts = {}  # position -> Resampled

    def refresh(self, state, rows_of):
        """Resample the clients whose labels moved; True where any did.

        Parameters
        ----------
        state : ClientStates
        rows_of : list of (ClientSpec, ndarray of int64)
            All clients and their rows in training. Samplers do not see rows without weight.
        """
        clients = [(spec, self._with_weight(rows)) for spec, rows in rows_of]
        due = [
            (spec, rows)
            for spec, rows in clients
            if self._made_at.get(spec.position) != self._version(state, spec)
        ]
        for spec, rows in due:
            self._parts[spec.position] = self._resample(state, spec, rows)
            self._made_at[spec.position] = self._version(state, spec)
        if due:
            self._lay_out(clients)
        return bool(due)

    def rows(self, position):
        """(rows of the extended data, codes of their labels) of one client, ndarrays of int64."""
        return self._rows[position], self._parts[position].y

    def notes(self, specs):
        """What samplers could not do at some clients, in their order."""
        found = [
            (spec.key, self._parts[spec.position].note) for spec in specs if spec.position in self._parts
        ]
        return [f"local_data at client {key!r}: {note}" for key, note in found if note is not None]

    def _with_weight(self, rows):
        return rows if self.plan.weights is None else rows[self.plan.weights[rows] > 0]

    def _version(self, state, spec):
        """Round of the relabeling that a client's labels come from; 0: they and its rows are the original ones."""
        last, own = state.relabelings.get(spec.position), spec.train_rows
        same = state.keep[own].all() and np.array_equal(state.codes[own], self.plan.codes[own])
        return 0 if last is None or same else last.round

    def _resample(self, state, spec, rows):
        plan, round = self.plan, self._version(state, spec)
        X = plan.data.X[torch.from_numpy(rows)].cpu().numpy()
        if X.dtype.kind == "i":  # a sampler that mixes rows would round what it makes of integers
            X = X.astype(np.float64)
        seed = integer_seed(plan.seed, Purpose.LOCAL_DATA, round, spec.stream_id)
        try:
            result = resample(plan.local_data, X, state.codes[rows], plan.classes, seed)
        except Exception as error:
            raise ClientError(
                f"local_data failed at client {spec.key!r} before round {round}: {type(error).__name__}: {error}"
            ) from error
        if not np.isfinite(result.X_new).all():
            raise NotFiniteError(f"local_data made a row at client {spec.key!r} that is not finite.")
        return result

    def _lay_out(self, clients):
        """Put all new rows behind the given ones."""
        plan, start = self.plan, len(self.plan.data.X)
        new, weights, self._rows = [], [], {}
        for spec, rows in clients:
            part = self._parts[spec.position]
            n_new = len(part.X_new)
            self._rows[spec.position] = np.concatenate([rows[part.kept], np.arange(start, start + n_new)])
            start += n_new
            new.append(self._as_data(part.X_new))
            if plan.weights is not None:
                weights.append(self._new_weights(rows, part))
        self.data = replace(plan.data, X=append_rows(plan.data.X, new))
        if plan.data.weights is not None:
            added = torch.from_numpy(np.concatenate(weights)).to(plan.data.weights)
            self.data = replace(self.data, weights=torch.cat([plan.data.weights, added]))

    def _as_data(self, X_new):
        """New rows in the dtype of the data, on their device."""
        X = self.plan.data.X
        new = torch.from_numpy(np.ascontiguousarray(X_new))
        if not X.dtype.is_floating_point and not torch.equal(new.to(X.dtype).to(new.dtype), new):
            raise ClientError(
                f"local_data={self.plan.local_data!r} made rows with fractions, but the module takes integers. Use a "
                "sampler that draws rows instead of mixing them, for example RandomOverSampler or SMOTEN."
            )
        return new.to(device=X.device, dtype=X.dtype)

    def _new_weights(self, rows, part):
        """A new row weighs as much as the mean kept row of its class, or of the client where the class has none."""
        weights = self.plan.weights[rows[part.kept]]
        codes, new = part.y[: len(part.kept)], part.y[len(part.kept) :]
        overall = weights.mean() if len(weights) else self.plan.weights[rows].mean()
        means = np.full(len(self.plan.classes), overall)
        for code in np.unique(codes):
            means[code] = weights[codes == code].mean()
        return means[new]
