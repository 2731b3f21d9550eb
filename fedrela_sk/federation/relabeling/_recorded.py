"""Which clients relabel before a round, and which record posteriors for it while they train."""

from dataclasses import replace

import torch

from fedrela_sk.federation.relabeling._schedule import relabel_due


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
