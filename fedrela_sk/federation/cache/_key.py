"""The key of a stored state: a digest of everything that training up to the relabel round depends on."""

import platform
from dataclasses import fields

import numpy
import scipy
import sklearn
import skorch
import torch

from fedrela_sk import losses
from fedrela_sk.federation.cache._fingerprint import fingerprint
from fedrela_sk.federation.cache._modules import global_hooks
from fedrela_sk.federation.cache._not_keyable import NotKeyable
from fedrela_sk.federation.cache._numerics import machine, sklearn_settings, torch_settings
from fedrela_sk.federation.cache._package import check_untouched, edition
from fedrela_sk.federation.setup._plan import Plan
from fedrela_sk.training._engine import ENGINES

# Parameters of `FederatedClassifier` that change nothing before the relabel round, or stand in the key in
# another form: n_rounds and relabel_at as the relabel round and what is told of progress, random_state as the
# seed, engine as what runs, clients as the rows of each. Any other parameter counts.
PARAMS_NOT_IN_KEY = {
    "relabeler", "relabel_every", "relabel_posteriors", "n_jobs", "memory", "checkpoint", "verbose", "n_rounds",
    "relabel_at", "random_state", "engine", "clients",
}  # fmt: skip
# Fields of `Plan` of the same kind; of the labels, their codes and the classes count, of the settings of
# relabeling, whether clients record posteriors; targets follow from codes and classes. Any other field counts.
PLAN_NOT_IN_KEY = {"labels", "relabeler", "relabel_every", "relabel_posteriors", "n_rounds", "targets"}

_LIBRARIES = (torch, numpy, scipy, sklearn, skorch)


def key_entries(params, plan, net, engine, n_threads):
    """Digest of each thing that the rounds before the relabel round depend on, by name.

    Two fits have the same entries exactly where training up to the relabel round is the same.

    Parameters
    ----------
    params : dict
        Parameters of the estimator, not deep.
    plan : Plan
    net : initialized skorch net
        Before round 0: its module holds the initial weights.
    engine : running engine
    n_threads : int
        torch threads.

    Returns
    -------
    entries : dict of str

    Raises
    ------
    NotKeyable
        If something has no stable description.
    """
    check_untouched()
    things = {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "fedrela_sk": edition(),
        **{library.__name__: library.__version__ for library in _LIBRARIES},
        "machine": machine(plan.data.X.device),
        "torch settings": torch_settings(),
        "scikit-learn settings": sklearn_settings(),
        "torch threads": n_threads,
        "global hooks": global_hooks(),
        "engine": _engine_facts(params["engine"], engine),
        "module": net.module_,
        "criterion": net.criterion_,
        "progress": plan.n_rounds if _progress_counts(net.criterion_, params["engine"]) else None,
        "recorded": plan.records,
        "memory layout": list(plan.data.X.stride()) if isinstance(plan.data.X, torch.Tensor) else "sparse",
        **settings(params, plan),
    }
    return {name: fingerprint(thing) for name, thing in things.items()}


def settings(params, plan):
    """What the caller set and what was made of it, by name: parameters, and fields of the plan."""
    asked = {f"parameter {name}": value for name, value in params.items() if name not in PARAMS_NOT_IN_KEY}
    names = [field.name for field in fields(Plan) if field.name not in PLAN_NOT_IN_KEY]
    return asked | {f"plan {name}": getattr(plan, name) for name in names}


def moved(params, plan, engine, entries):
    """Parameters that are no longer what they were when `entries` were made.

    Training has changed them, say a schedule that counts its calls: a state that is read later would not bring
    that back.

    Returns
    -------
    names : list of str
    """
    now = {name: thing for name, thing in settings(params, plan).items() if name.startswith("parameter ")}
    now["engine"] = _engine_facts(params["engine"], engine)
    return [
        name.removeprefix("parameter ") for name, thing in now.items() if not _is_still(thing, entries[name])
    ]


def _is_still(thing, digest):
    try:
        return fingerprint(thing) == digest
    except NotKeyable:  # it holds something now that has no description
        return False


def _engine_facts(asked, engine):
    """What runs: its kind, its sizes, and whatever is not one of ours."""
    running = type(getattr(engine, "engine", engine))  # that of the workers
    facts = [running, engine.name, engine.kind, engine.chunk_size, engine.precision]
    return [*facts, asked if _is_own(asked) else None]


def _is_own(engine):
    return not isinstance(engine, str) and type(engine) not in ENGINES.values()


def _progress_counts(criterion, engine):
    """Whether the share of rounds that are over can change what clients do.

    Only what is known not to read it is left out: torch's own criteria, ours that say so, and criteria without
    the two methods that are told of it.
    """
    if _is_own(engine):
        return True
    known = type(criterion) in [getattr(losses, name) for name in losses.__all__ if name.endswith("Loss")]
    if known:
        return criterion.needs_progress
    return hasattr(criterion, "use") or hasattr(criterion, "row_losses")
