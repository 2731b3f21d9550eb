"""When clients relabel: the relabel round, who is due in it or later, and who records posteriors before."""

import math
from dataclasses import replace
from numbers import Integral

import torch


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
        Round in which the client last relabeled.
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


def is_due(plan, state, spec, round):
    """Whether a client that takes part in `round` should relabel before it trains."""
    last = state.relabelings.get(spec.position)
    return relabel_due(
        round,
        None if last is None else last.round,
        plan.first_relabel,
        plan.relabel_every,
        plan.relabel_posteriors["late"],
    )


def can_relabel(plan, state, spec, round):
    """Whether it does: where posteriors are recorded, it needs some, with ``late="never"`` of the round before."""
    if not is_due(plan, state, spec, round):
        return False
    if not plan.records:
        return True
    own = state.recorded.get(spec.position)
    if own is None:
        return False
    return plan.relabel_posteriors["late"] == "next" or int(own["round"]) == round - 1


def with_recording(tasks, plan, state, round):
    """The tasks of a round; clients that would be due before the next one record posteriors."""
    if not plan.records or round + 1 == plan.n_rounds:
        return tasks
    return [replace(task, record=is_due(plan, state, task.client, round + 1)) for task in tasks]


def keep_recorded(state, recorded, round):
    """Put recorded posteriors where they stay until their clients relabel, as copies."""
    for position, Q in recorded.items():
        state.recorded[position] = {"round": torch.tensor(round), "posteriors": Q.clone()}


def take_recorded(state, specs):
    """Position of each client to the posteriors that it recorded; they are used once."""
    return {spec.position: state.recorded.pop(spec.position)["posteriors"] for spec in specs}
