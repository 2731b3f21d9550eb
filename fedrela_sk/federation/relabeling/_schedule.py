"""When things happen: the relabel round, who is due, the learning rate, who takes part."""

import math
from numbers import Integral, Real

import numpy as np

from fedrela_sk._random import Purpose, numpy_stream
from fedrela_sk.participation._uniform import draw_uniformly


def relabel_round(relabel_at, n_rounds):
    """The number r of completed rounds after which clients relabel, before round index r trains.

    Parameters
    ----------
    relabel_at : int >= 1 or float in (0, 1)
        An int is r itself; a float f means min(max(1, ceil(f n_rounds - 1e-9)), n_rounds - 1).
    n_rounds : int >= 1

    Returns
    -------
    r : int or None
        None where no round is left to train on new labels: r >= n_rounds, or a single round with a float.
    """
    if isinstance(relabel_at, Integral):
        return int(relabel_at) if relabel_at < n_rounds else None
    if n_rounds == 1:
        return None
    return min(max(1, math.ceil(relabel_at * n_rounds - 1e-9)), n_rounds - 1)


def relabel_due(round, last, first, every, late):
    """Whether a client that takes part in `round` relabels before it trains.

    Parameters
    ----------
    round : int
        Index of the round.
    last : int or None
        Round in which the client last relabelled.
    first : int or None
        The relabel round; None for never.
    every : int or None
        Period of the refresh; None for once.
    late : {"next", "never"}
        Whether a client absent at a due round relabels when it next takes part.
    """
    if first is None or round < first:
        return False
    latest_due = first if every is None else first + (round - first) // every * every
    if late == "never":
        return round == latest_due
    return last is None or last < latest_due


def lr_factor(lr_schedule, round):
    """Factor on the learning rate in round index `round`: g^round, what a callable says, or 1."""
    if lr_schedule is None:
        return 1.0
    with np.errstate(over="ignore"):
        factor = lr_schedule(round) if callable(lr_schedule) else np.float64(lr_schedule) ** round
    if not (isinstance(factor, Real) and np.isfinite(factor) and factor >= 0):
        raise ValueError(f"lr_schedule must give a finite factor >= 0, got {factor!r} in round {round}.")
    return float(factor)


def choose_clients(clients, share, round, seed):
    """The clients of one round, drawn without replacement, ordered as `clients` are.

    Parameters
    ----------
    clients : list of ClientSpec
        Those with rows.
    share : float in (0, 1]
        max(1, round half up(share x number of clients)) take part.
    """
    stream = numpy_stream(seed, Purpose.PARTICIPATION, round)
    return [clients[i] for i in draw_uniformly(stream, share, len(clients))]
