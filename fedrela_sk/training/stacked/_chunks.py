"""Which clients train together, and in which step which of their rows are used."""

from dataclasses import dataclass

import numpy as np

from fedrela_sk.training._task import even_parts

# clients of one chunk differ in their steps by at most this factor
BAND_RATIO = 3


def make_chunks(tasks, settings, chunk_size):
    """Cut the clients of a round into chunks of clients with similar numbers of steps.

    Clients are ordered by steps, most first. A new band starts where a client has less than a third of the
    steps of the band's first one: a few very long clients do not hold the others up. Each band is cut
    evenly into as few chunks of at most `chunk_size` as it takes. The cut depends only on keys, row counts
    and the chunk size.

    Parameters
    ----------
    tasks : list of LocalTask
        By key.
    settings : LocalSettings
    chunk_size : int >= 1

    Returns
    -------
    chunks : list of list of LocalTask
        Each ordered by steps, most first; equal ones by key.
    """
    steps = {id(task): settings.n_steps(len(task.rows)) for task in tasks}
    by_steps = sorted(tasks, key=lambda task: -steps[id(task)])  # stable: equal ones by key
    bands = []
    for task in by_steps:
        if not bands or BAND_RATIO * steps[id(task)] < steps[id(bands[-1][0])]:
            bands.append([])
        bands[-1].append(task)
    return [chunk for band in bands for chunk in even_parts(band, -(-len(band) // chunk_size))]


@dataclass(frozen=True)
class ChunkBatches:
    """The batches of one chunk in one round, step after step.

    At step s the clients 0 to ``active[s] - 1`` train, in the chunk's order. Their batches are the rows
    ``offset[s]`` to ``offset[s] + active[s] - 1`` of `index`, padded to one width.

    Attributes
    ----------
    active, offset : ndarray of shape (n_steps,), int64
    index : ndarray of shape (total, width), int64
        Position of each row among the client's own; padding repeats the first row of the batch.
    lengths : ndarray of shape (total,), int64
        Real rows of each batch.
    steps : ndarray of shape (n_clients,), int64
        Steps of each client, descending.
    """

    active: np.ndarray
    offset: np.ndarray
    index: np.ndarray
    lengths: np.ndarray
    steps: np.ndarray


def chunk_batches(orders, settings):
    """Lay out the batches of a chunk: the same ones that the loop engine uses.

    Parameters
    ----------
    orders : sequence of ndarray of shape (epochs, n_rows), int64
        Order of each client's rows in each epoch; clients ordered as `make_chunks` orders them.
    settings : LocalSettings

    Returns
    -------
    plan : ChunkBatches
    """
    bounds = [settings.batch_bounds(order.shape[1]) for order in orders]
    steps = np.array([len(b) * settings.epochs for b in bounds], dtype=np.int64)
    width = max(stop - start for b in bounds for start, stop in b)
    n_steps = int(steps.max(initial=0))
    active = np.array([(steps > s).sum() for s in range(n_steps)], dtype=np.int64)
    offset = np.concatenate([[0], np.cumsum(active)[:-1]])
    index = np.empty((int(steps.sum()), width), dtype=np.int64)
    lengths = np.empty(len(index), dtype=np.int64)
    for k, order in enumerate(orders):
        own_lengths = np.array([stop - start for start, stop in bounds[k]], dtype=np.int64)
        starts = np.array([start for start, _ in bounds[k]], dtype=np.int64)
        column = np.arange(width)
        inside = column < own_lengths[:, None]
        position = np.where(inside, starts[:, None] + column, starts[:, None])
        where = offset[: steps[k]] + k
        index[where] = order[:, position].reshape(-1, width)
        lengths[where] = np.tile(own_lengths, settings.epochs)
    return ChunkBatches(active, offset, index, lengths, steps)
