"""The state of a federation before round 0: the server's, the clients', and what the history says from the start."""

import numpy as np
import torch

from fedrela_sk import _tree
from fedrela_sk.algorithms import Job
from fedrela_sk.federation._state import ClientStates, ServerState, State
from fedrela_sk.report import History


def first_state(plan, present, counts, module, params):
    """`State` before round 0.

    Parameters
    ----------
    plan : Plan
    present : list of ClientSpec
        Clients that have rows.
    counts : ndarray of shape (n_present, n_classes)
        Their original rows of each class.
    module : nn.Module
        That is trained.
    params : dict of tensors
        Its initial tensors; they are copied.
    """
    params = _tree.copy(params)
    like = torch.empty(0, dtype=plan.data.dtype, device=plan.data.X.device)
    job = Job(len(present), len(plan.classes), plan.classes, plan.seed, like, module, plan.auxiliary)
    first = plan.algorithm.server_init(params, job)
    server = ServerState(params, _tree.check_tensors(first, f"{type(plan.algorithm).__name__}.server_init"))
    clients = ClientStates(plan.codes.copy(), np.ones(len(plan.codes), dtype=bool))
    return State(server, clients, _history(plan, present, counts))


def _history(plan, present, counts):
    """A history without rounds, with notes on the partition and on the relabel round."""
    here = {spec.position for spec in present}
    empty = [spec.key for spec in plan.specs if spec.position not in here]
    history = History(empty, np.mean(counts == 0))
    history.notes.extend(plan.notes)
    if plan.relabeler is not None and plan.first_relabel is None:
        history.notes.append(f"No relabeling: no round of {plan.n_rounds} is left to train on new labels.")
    return history
