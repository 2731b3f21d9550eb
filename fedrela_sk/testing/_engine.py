"""`check_engine`: the promises of an engine, against the loop engine."""

from typing import Any

import joblib
import numpy as np
import torch

from fedrela_sk import FedReLaRelabeler
from fedrela_sk.algorithms import SCAFFOLD, FedDyn
from fedrela_sk.losses import LDAMLoss
from fedrela_sk.testing._problem import answers, fit, furthest, made_rows
from fedrela_sk.testing._promise import (
    broken,
    check_parameters,
    no_global_draws,
    refused,
    seeded_globals,
    untouched,
)
from fedrela_sk.testing._watching import Watching
from fedrela_sk.training import Engine, RunningEngine

_ROUNDING = 1e-8


class _TwiceTheRarest:
    """A sampler for clients: every row of the client's rarest class twice."""

    def fit_resample(self, X, y):
        """Rows and labels with those of the rarest class once more."""
        labels, counts = np.unique(y, return_counts=True)
        more = np.flatnonzero(y == labels[counts.argmin()])
        return np.concatenate([X, X[more]]), np.concatenate([y, y[more]])


def _jobs():
    """Fits that together use all that an engine is told, by what they show."""
    weights = np.random.default_rng(0).uniform(0.5, 2, len(made_rows()[1]))
    return {
        "plain averaging": {},
        "the state of clients, and what the server sends along": {
            "algorithm": SCAFFOLD(),
            "participation": 0.6,
        },
        "a penalty of the method's": {"algorithm": FedDyn()},
        "what a method's client_finish sends": {"algorithm": "fednova"},
        "a loss of the method's": {"algorithm": "fedrod"},
        "tensors that stay at clients": {"algorithm": "local_only", "participation": 0.6},
        "row weights and class weights": {"sample_weight": weights, "class_weight": "balanced"},
        "how far training has come, for losses that go by it": {
            "net_params": {"criterion": LDAMLoss, "criterion__defer": 0.5}
        },
        "the schedule of the learning rate": {"lr_schedule": 0.5},
        "rows that clients' samplers made": {"local_data": _TwiceTheRarest()},
        "recorded posteriors": {
            "relabel_posteriors": {"passes": "training"},
            "relabeler": FedReLaRelabeler(0.2),
            "relabel_at": 1,
        },
    }


def check_engine(engine: Any) -> None:
    """Check that an engine trains clients as the loop engine does, and keeps to the protocol `RunningEngine`.

    1. Its constructor only stores; it can be cloned and pickled, and is left as it was by a fit.
    2. `start` gives an object with everything that `RunningEngine` names.
    3. Every client of a round is in one update, with its weight, its steps and its loss.
    4. The groups of `units` hold every client once, and `train_unit` of all groups gives the bits of `train`; so do
       joblib workers.
    5. One seed gives one result, whatever the global generators hold.
    6. Whole fits are those of the loop engine up to rounding, for methods with state, penalties, losses and tensors
       of their own, with weights, schedules, samplers and recorded posteriors.

    Parameters
    ----------
    engine : Engine

    Raises
    ------
    CheckError
        At the first promise that is broken: which it is, what was seen, and how to mend it.
    TypeError
        If it is no instance of an `Engine`.

    Examples
    --------
    >>> from fedrela_sk.testing import check_engine
    >>> from fedrela_sk.training import Stacked
    >>> check_engine(Stacked(chunk_size=2))
    """
    if not isinstance(engine, Engine):
        raise TypeError(f"check_engine takes an instance of an Engine, such as Stacked(), got {engine!r}.")
    check_parameters(engine)
    watching = Watching(engine)
    with untouched(engine, "a fit"):
        plain = answers(_fitted(engine, watching))
    _check_protocol(engine, watching.running)
    _check_updates(engine, watching.rounds)
    _check_units(engine, watching)
    _check_bits(engine, plain)
    for what, params in _jobs().items():
        _check_as_loop(engine, what, params)


def _fitted(engine, watching=None, **params):
    with refused(
        engine, "a fit with it works", "see the message, and the protocol fedrela_sk.training.RunningEngine"
    ):
        return fit(engine=engine if watching is None else watching, **params)


def _check_protocol(engine, running):
    names = [*RunningEngine.__annotations__, *(n for n, v in vars(RunningEngine).items() if _is_part(n, v))]
    missing = [name for name in names if not hasattr(running, name)]
    if missing:
        raise broken(
            engine,
            "start gives what the protocol fedrela_sk.training.RunningEngine names",
            f"it has no {missing[0]!r}",
            "write it, or pass it on from a Loop() that was started with the same arguments",
        )


def _is_part(name, value):
    return callable(value) and not name.startswith("_")


def _singles(updates):
    """One update for each client."""
    return [single for update in updates for single in update.singles()]


def _check_updates(engine, rounds):
    promise = "every client of a round is in one update, with its weight, its steps and its loss"
    mend = "yield what training made of each task, once"
    for tasks, instructions, updates in rounds:
        singles = _singles(updates)
        keys = sorted(single.client.key for single in singles)
        expected = sorted(task.client.key for task in tasks)
        if keys != expected:
            seen = f"round {instructions.round} has clients {expected}, and updates of {keys}"
            raise broken(engine, promise, seen, mend)
        weights = {task.client.key: task.weight for task in tasks}
        for single in singles:
            if (
                single.weight != weights[single.client.key]
                or single.n_steps < 1
                or not np.isfinite(single.loss)
            ):
                seen = (
                    f"client {single.client.key} of round {instructions.round}: weight {single.weight} (expected "
                    f"{weights[single.client.key]}), {single.n_steps} steps, loss {single.loss}"
                )
                raise broken(engine, promise, seen, mend)


def _check_units(engine, watching):
    """Groups hold every task once, and give the bits of all at once."""
    tasks, instructions, _ = watching.rounds[0]
    expected = _singles(watching.running.train(list(tasks), instructions))
    for n_workers in (1, 3):
        units = watching.running.units(list(tasks), n_workers)
        keys = sorted(task.client.key for unit in units for task in unit)
        promise = (
            "the groups of units hold every client once, and train_unit of all groups gives the bits of train"
        )
        mend = "cut the tasks into lists, and let train go through train_unit of each"
        if keys != sorted(task.client.key for task in tasks):
            raise broken(engine, promise, f"units for {n_workers} workers hold clients {keys}", mend)
        made = _singles(u for unit in units for u in watching.running.train_unit(unit, instructions))
        if not _same_updates(expected, made):
            raise broken(engine, promise, f"units for {n_workers} workers give other updates", mend)


def _same_updates(some, others):
    """The same tensors of the same clients; the order of clients counts."""
    return [one.client.key for one in some] == [other.client.key for other in others] and all(
        one.tensors.keys() == other.tensors.keys()
        and all(torch.equal(tensor, other.tensors[name]) for name, tensor in one.tensors.items())
        for one, other in zip(some, others, strict=True)
    )


def _check_bits(engine, plain):
    """The same bits again under other global generators, and by threads."""
    with seeded_globals(1), no_global_draws(engine, "a fit"):
        again = _fitted(engine)
    with joblib.parallel_config("threading"):
        threads = _fitted(engine, n_jobs=2)
    for what, fed in (("under other global generators", again), ("with n_jobs=2", threads)):
        if not np.array_equal(plain, answers(fed)):
            raise broken(
                engine,
                "one seed gives one result",
                f"a fit {what} differs by {np.abs(plain - answers(fed)).max():.1g}",
                "draw from streams of the seed only, and let no state pass from client to client",
            )


def _check_as_loop(engine, what, params):
    with refused(engine, f"it does what the loop engine does: {what}", "see the message"):
        fed = fit(engine=engine, **params)
    distance = furthest(fed, fit(**params))
    if distance > _ROUNDING:
        raise broken(
            engine,
            f"it does what the loop engine does: {what}",
            f"posteriors differ by {distance:.1g} from the loop's",
            "pass on everything of a task and of the instructions, and start every client from what it was sent",
        )
