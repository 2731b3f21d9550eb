"""Who takes part in a round, in which groups, with which weights."""

from dataclasses import dataclass
from itertools import chain

import numpy as np

from fedrela_sk._random import Purpose, numpy_stream
from fedrela_sk.participation import Participation
from fedrela_sk.participation._uniform import draw_uniformly


@dataclass(frozen=True)
class Cohort:
    """The clients of one round.

    Attributes
    ----------
    groups : list of lists of ClientSpec
        Clients of one group train one after the other; groups are ordered by their first client's key.
    weights : dict or None
        Position of the last client of each group to the group's weight; None for the algorithm's own.
    total : float
        Factor on the averaged displacement.
    nbytes : int
        Bytes that clients send so that the choice can be made.
    """

    groups: list
    weights: dict | None = None
    total: float = 1.0
    nbytes: int = 0

    @property
    def specs(self):
        """All clients of the round, by key."""
        return sorted(chain.from_iterable(self.groups), key=lambda spec: spec.position)

    @property
    def chained(self):
        """Whether some client starts from what another one of this round made."""
        return any(len(group) > 1 for group in self.groups)


def sample_cohort(rule, present, round, seed, sizes, counts):
    """The `Cohort` of one round.

    Parameters
    ----------
    rule : float in (0, 1] or Participation
        A share of the clients, or an object that chooses.
    present : list of ClientSpec
        Clients that have rows, by key.
    round, seed : int
    sizes : ndarray of shape (n_present,)
        Rows of each in training, as the sum of their weights.
    counts : ndarray of shape (n_present, n_classes)
        Original rows of each class; shown only to rules that need them.
    """
    if not isinstance(rule, Participation):
        return Cohort([[spec] for spec in choose_clients(present, rule, round, seed)])
    stream = numpy_stream(seed, Purpose.PARTICIPATION, round)
    counts = counts if rule.needs_counts else None
    choice = rule.choose(round, stream, sizes, counts)
    order = sorted(range(len(choice.groups)), key=lambda i: choice.groups[i][0])
    groups = [[present[position] for position in choice.groups[i]] for i in order]
    weights = None
    if choice.weights is not None:
        weights = {
            group[-1].position: float(choice.weights[i]) for i, group in zip(order, groups, strict=True)
        }
    n_classes = None if counts is None else counts.shape[1]
    nbytes = rule.report_nbytes(n_classes) * sum(map(len, groups))
    return Cohort(groups, weights, choice.total, nbytes)


def select_senders(rule, round, seed, weights, norms):
    """(positions in the order of `weights`, their absolute weights) of a rule that lets all clients train."""
    stream = numpy_stream(seed, Purpose.SELECTION, round)
    positions, absolute = rule.select(round, stream, np.asarray(weights), np.asarray(norms))
    return positions.tolist(), absolute.tolist()


def choose_clients(clients, share, round, seed):
    """The clients of one round, drawn without replacement, ordered as `clients` are.

    Parameters
    ----------
    clients : list of ClientSpec
        Those with rows.
    share : float in (0, 1]
        max(1, round half up(share x number of clients)) take part.
    """
    if share == 1:
        return list(clients)
    stream = numpy_stream(seed, Purpose.PARTICIPATION, round)
    return [clients[i] for i in draw_uniformly(stream, share, len(clients))]
