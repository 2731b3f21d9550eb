"""A method as a class of its own whose hooks are watched: what they are given, what they draw, what they write to."""

from dataclasses import replace
from functools import wraps

from sklearn.base import clone

from fedrela_sk.algorithms import Algorithm
from fedrela_sk.testing._promise import broken, drawn, generators, global_draws
from fedrela_sk.testing._walk import changes, snapshot
from fedrela_sk.training import Model

HOOKS = [
    name for name, value in vars(Algorithm).items() if callable(value) and name[0] != "_" and name != "uses"
]
# what is read off the code of hooks, which the watched ones hide
_FACTS = ("personal", "loop_only", "sends_model", "own_loss", "bare_loss")
# hooks under a stream of torch's generator of their own
_MAY_DRAW = {"prepare_module", "server_train", "predict_params"}
# a training pass moves BatchNorm's running statistics
_MAY_MOVE_BUFFERS = {"prepare_module", "client_loss"}


def probed(method, notes, reverse=False):
    """A copy of a method that notes the first faults of its hooks.

    Parameters
    ----------
    method : Algorithm
    notes : list
        Gets a `CheckError` for each fault.
    reverse : bool, default=False
        Whether reports are gathered from the last client to the first.
    """
    kind, members = type(method), {name: getattr(method, name) for name in _FACTS}
    for hook in HOOKS:
        if getattr(kind, hook) is not getattr(Algorithm, hook):
            members[hook] = _watched(method, hook, getattr(kind, hook), notes, reverse)
    watched = type(kind.__name__, (kind,), members | {"__module__": kind.__module__, "__doc__": kind.__doc__})
    copy = clone(method)
    copy.__class__ = watched
    return copy


def _watched(method, hook, function, notes, reverse=False):
    """A function that calls another and notes what it should not have done."""
    quiet = ("random", "numpy") if hook in _MAY_DRAW else ("random", "numpy", "torch")

    @wraps(function)
    def call(*args, **kwargs):
        given = {"self": vars(args[0])} if isinstance(args[0], Algorithm) else {}
        given |= {} if hook == "prepare_module" else _named(args, kwargs)
        given |= {} if hook in _MAY_MOVE_BUFFERS else _buffers(args)
        before, states = snapshot(given), generators()
        result = function(*args, **kwargs)
        changed, library = changes(before, snapshot(given)), drawn(states, quiet)
        if changed:
            notes.append(_written(method, hook, changed[0]))
        if library is not None:
            notes.append(global_draws(method, library, hook))
        if hook == "server_query" and result is not None:
            return _watched_query(method, result, notes, reverse)
        return result

    return call


def _named(args, kwargs):
    return {f"argument {i}": arg for i, arg in enumerate(args) if not isinstance(arg, Algorithm)} | kwargs


def _buffers(args):
    """Buffers of the models among some arguments, which only a training pass may move."""
    models = {f"argument {i}": arg.module for i, arg in enumerate(args) if isinstance(arg, Model)}
    return {f"{place}, its buffers": dict(module.named_buffers()) for place, module in models.items()}


def _written(method, hook, change):
    place = change.split("[")[0].split(" ")[0]
    if place == "self":
        promise, mend = (
            f"{hook} writes nothing to self",
            "return what must last; states are passed in and returned",
        )
    else:
        promise = f"{hook} changes nothing that it is given"
        mend = "make new tensors (p + d, not p += d; dict | {...}, not dict[...] = ...) and leave modules as they are"
    return broken(method, promise, f"{change} in {hook}", mend)


def _watched_query(method, query, notes, reverse):
    """A query whose functions are watched too."""
    report = _watched(method, "report of server_query", query.report, notes)
    gather = _watched(method, "gather of server_query", query.gather, notes)

    def backwards(reports, server_state, facts):
        return gather(dict(reversed(reports.items())), server_state, facts)

    return replace(query, report=report, gather=backwards if reverse else gather)
