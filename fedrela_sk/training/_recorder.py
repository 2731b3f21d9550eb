"""Posteriors of clients' own rows, recorded from the outputs of their last local epoch."""

import numpy as np
import torch

from fedrela_sk.training._criterion import posteriors_of


def own_places(task, order):
    """Where the rows of an epoch stand among a client's own.

    Parameters
    ----------
    task : LocalTask
        Some of its rows may be a sampler's, and some of the client's own may be missing.
    order : ndarray of shape (n_visits,), int64
        Position in ``task.rows`` of every visit of the epoch; a row may be visited often, or never.

    Returns
    -------
    places : ndarray of shape (n_visits,), int64
        Position in ``client.train_rows`` at the last visit of a row; -1 at earlier ones and at other rows.
    """
    own, visited = task.client.train_rows, task.rows.cpu().numpy()[order]
    place = np.searchsorted(own, visited).clip(max=len(own) - 1)
    known = np.flatnonzero(own[place] == visited)
    last = np.full(len(own), -1)
    last[place[known]] = known  # of several visits NumPy keeps the last
    met = np.flatnonzero(last >= 0)
    places = np.full(len(order), -1)
    places[last[met]] = met
    return places


def places_of_steps(plan, tasks, epochs, recording):
    """Where the rows of every step of a chunk are recorded.

    Parameters
    ----------
    plan : ChunkBatches
    tasks : list of LocalTask
    epochs : int
    recording : Recording or None

    Returns
    -------
    steps : list of (ndarray of shape (n_active, width), int64) or None
        As `Recording.see` takes it; None for steps of which nothing is recorded.
    """
    if recording is None:
        return [None] * len(plan.active)
    places = np.full(plan.index.shape, -1)
    for k, task in enumerate(tasks):
        if task.record:
            first = recording.first[task.client.position]
            batches = plan.offset[plan.steps[k] - plan.steps[k] // epochs : plan.steps[k]] + k
            real = np.arange(plan.index.shape[1]) < plan.lengths[batches, None]
            own = own_places(task, plan.index[batches][real])
            block = np.full(real.shape, -1)
            block[real] = np.where(own < 0, -1, own + first)
            places[batches] = block
    steps = np.split(places, np.cumsum(plan.active)[:-1])
    return [step if (step >= 0).any() else None for step in steps]


def recording_of(tasks, engine):
    """A `Recording` of those of the clients that record; None where nobody does."""
    clients = [task.client for task in tasks if task.record]
    if not clients:
        return None
    return Recording(engine.net.criterion_, clients, engine.n_classes, engine.data.X.device)


class Recording:
    """Posteriors of the training rows of clients that train together.

    Parameters
    ----------
    criterion : nn.Module
        Says what outputs mean.
    clients : sequence of ClientSpec
    n_classes : int
    device : torch.device

    Attributes
    ----------
    first : dict
        Position of a client to the place of its first row among those of all these clients.
    """

    def __init__(self, criterion, clients, n_classes, device):
        self.criterion = criterion
        self.clients = tuple(clients)
        starts = np.cumsum([0, *(len(client.train_rows) for client in self.clients)]).tolist()
        self.first = {client.position: start for client, start in zip(self.clients, starts, strict=False)}
        # one place more than rows: what is not recorded is written there
        self._Q = torch.empty((starts[-1] + 1, n_classes), dtype=torch.float64, device=device)
        self._met = np.zeros(starts[-1] + 1, dtype=bool)

    def see(self, places, output):
        """Keep the posteriors of a step.

        Parameters
        ----------
        places : ndarray of int64
            Where every row belongs, -1 for rows that are not recorded.
        output : tensor of shape (*places.shape, n_classes)
            As the module gave it.
        """
        self._met[places] = True
        self._Q[torch.from_numpy(places).to(self._Q.device)] = posteriors_of(
            self.criterion, output.detach().flatten(0, -2)
        ).view(*places.shape, -1)

    def posteriors(self, evaluate):
        """What was recorded; rows that no step met are evaluated now.

        Parameters
        ----------
        evaluate : callable of (ClientSpec, tensor of int64)
            Posteriors of some rows of a client under its own model after training.

        Returns
        -------
        recorded : dict
            Position of a client to a float64 tensor of shape (n_train_rows, n_classes).
        """
        recorded = {}
        for client in self.clients:
            first, n = self.first[client.position], len(client.train_rows)
            Q = self._Q[first : first + n]
            missing = np.flatnonzero(~self._met[first : first + n])
            if len(missing):
                rows = torch.from_numpy(client.train_rows[missing])
                Q[torch.from_numpy(missing).to(Q.device)] = evaluate(client, rows.to(Q.device))
            recorded[client.position] = Q
        return recorded
