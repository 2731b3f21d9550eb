"""What a fit leaves behind: fitted attributes from a model and the books of its rounds."""

import copy
from dataclasses import replace

from fedrela_sk.federation.clients._counts import class_count, client_sizes
from fedrela_sk.federation.fitted._own_models import OwnModels
from fedrela_sk.federation.relabeling._report import relabel_report
from fedrela_sk.training._net import write_tensors
from fedrela_sk.training.runtime._replica import independent_net


def fitted_attributes(simulation, state, net, params, kept):
    """Fitted attributes of `FederatedClassifier` by name.

    Parameters
    ----------
    simulation : Simulation
    state : State
        The books of the rounds so far.
    net : initialized skorch net
        Gets the model and keeps it.
    params : dict of tensors
        The model as it predicts.
    kept : dict
        Position of a client to the model's tensors that stay there.
    """
    plan, clients = simulation.plan, state.clients
    y_relabeled = plan.classes[clients.codes]
    write_tensors(net.module_, params)
    _forget_training(net)
    return {
        "classes_": plan.classes,
        "n_features_in_": plan.data.X.shape[1],
        "net_": net if plan.algorithm.averages else None,
        "clients_": [spec.rows for spec in plan.specs],
        "client_names_": [spec.key for spec in plan.specs],
        "class_count_": class_count(plan, clients),
        "relabelers_": [
            getattr(clients.relabelings.get(spec.position), "relabeler", None) for spec in plan.specs
        ],
        "y_relabeled_": y_relabeled,
        "relabeled_mask_": y_relabeled != plan.labels,
        "kept_mask_": clients.keep.copy(),
        "relabel_round_": _relabel_round(plan, state),
        "history_": state.history,
        "_algorithm": plan.algorithm,
        "_takes_integers": not plan.data.X.dtype.is_floating_point,
        "_report": relabel_report(plan.specs, clients.relabelings, plan.labels, y_relabeled),
        "_own_models": _own_models(plan, clients, net, params, kept),
    }


def _own_models(plan, clients, net, params, kept):
    """The clients' own models, None where the method has none."""
    if not plan.algorithm.has_own_models:
        return None
    return OwnModels.of(plan.algorithm, net, params, kept, client_sizes(plan, clients))


def chosen_model(simulation, state):
    """The model to keep, as (params, kept): the last one, or the best on the validation rows."""
    if state.best is None:
        return simulation.server.predicting(state.server), state.clients.kept
    score, round, params, kept = state.best
    plan = simulation.plan
    if plan.relabeler is not None and plan.first_relabel is not None and round < plan.first_relabel:
        state.history.notes.append(
            f"select='best_validation' kept round {round} (balanced accuracy {score:.4f}), which lies before "
            f"the relabel round {plan.first_relabel}: the selected model never saw new labels."
        )
    return params, kept


def _relabel_round(plan, state):
    """The relabel round, None before it has begun: a callback may have stopped the fit."""
    begun = plan.first_relabel is not None and len(state.history) > plan.first_relabel
    return plan.first_relabel if begun else None


def snapshot(simulation, state):
    """Fitted attributes after the round that just ended, on a net and books of their own."""
    simulation.engine.forget()
    state = replace(state, history=copy.deepcopy(state.history))
    params = simulation.server.predicting(state.server)
    return fitted_attributes(
        simulation, state, independent_net(simulation.net), params, dict(state.clients.kept)
    )


def _forget_training(net):
    """Leave nothing of the client that trained last: no gradients, no history, a fresh optimizer, evaluation mode."""
    net.module_.zero_grad(set_to_none=True)
    net.module_.eval()
    net.initialize_optimizer()
    net.initialize_history()
