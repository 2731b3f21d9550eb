"""What is read off the hooks that a method overrides, so that its author has nothing to remember."""

import dis
from itertools import pairwise
from types import FunctionType

_BASE = f"{__package__}._base"
# hooks that run while a client trains
TRAINING_HOOKS = ("begin", "row_losses", "loss", "penalty", "correct", "decoupled", "finish")


class Derived:
    """An attribute of a class and of its instances that follows from the hooks; one that states it itself wins.

    Parameters
    ----------
    rule : callable of (overrides, kind)
        Gives the value from `overrides`, a function of a hook's name, and the method's class.
    """

    def __init__(self, rule):
        self.rule = rule

    def __get__(self, method, kind):
        overrides = method.overrides if method is not None else lambda hook: has_own(kind, hook)
        return self.rule(overrides, kind)


def has_own(kind, hook):
    """Whether a class of methods has its own `hook`, not that of the base."""
    base = next(one for one in kind.__mro__ if one.__module__ == _BASE)
    return getattr(kind, hook) is not getattr(base, hook)


def replaces_loss(overrides, kind):
    """Whether a loss of the method takes the place of the criterion."""
    return overrides("loss") or overrides("row_losses")


def keeps_tensors(overrides, kind):
    """Whether clients predict with tensors of their own beside a global model."""
    return kind.averages and (overrides("personal_params") or overrides("shared"))


def sends_models(overrides, kind):
    """Whether clients send what they trained as it is, to be averaged by their weights."""
    return not (overrides("finish") or overrides("aggregate"))


def why_in_turn(overrides, kind):
    """Why a method runs in the loop engine alone, None where it does not.

    A hook of training, or what it calls, reads ``local.stream``; or its loss returns a pair, the second a state.
    """
    for hook in TRAINING_HOOKS:
        if overrides(hook) and _reads(kind, hook, "stream"):
            return f"draws from local.stream in its {hook}, one client after the other"
    if overrides("loss") and _returns_tuple(kind.loss):
        return "keeps a state from step to step of its loss, one client after the other"
    return None


def _returns_tuple(function):
    """Whether a function has a ``return a, b``."""
    steps = [step.opname for step in dis.get_instructions(function)]
    return ("BUILD_TUPLE", "RETURN_VALUE") in pairwise(steps)


def _reads(kind, hook, name):
    """Whether the code of a method's function, or of own functions that it calls, reads an attribute `name`."""
    seen, left = set(), [getattr(kind, hook)]
    while left:
        function = left.pop()
        if not isinstance(function, FunctionType) or function in seen:
            continue
        seen.add(function)
        names = _names(function.__code__)
        if name in names:
            return True
        left += [found for called in names for found in _functions(kind, function, called)]
    return False


def _functions(kind, function, name):
    """What a name may mean in a function of a method: the method's own, or one beside it in its file."""
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    beside = cells[name].cell_contents if name in cells else function.__globals__.get(name)
    own = getattr(beside, "__module__", None) == function.__module__
    return [getattr(kind, name, None), beside if own else None]


def _names(code):
    """Global and attribute names, and those of a closure, in a code object and in those that it holds."""
    inner = [_names(const) for const in code.co_consts if hasattr(const, "co_names")]
    return set(code.co_names).union(code.co_freevars, *inner)


def check_facts(method):
    """Refuse a method whose hooks contradict each other or what it states of itself.

    Raises
    ------
    ValueError
        With the class and what to change.
    """
    name, overrides = type(method).__name__, method.overrides
    if overrides("loss") and overrides("row_losses"):
        raise ValueError(
            f"{name} overrides both loss and row_losses, of which one would not be called. Override one of them "
            "(loss where the rows' logits alone do not give it)."
        )
    if replaces_loss(overrides, type(method)) and not method.own_loss:
        raise ValueError(
            f"{name} states own_loss = False, but its {'loss' if overrides('loss') else 'row_losses'} takes the "
            "place of the net's criterion. Leave own_loss out: it follows from the hooks."
        )
    if overrides("row_losses") and not method.bare_loss:
        raise ValueError(
            f"{name} states bare_loss = False, but its row_losses sees no criterion, so that class weights, label "
            "smoothing and an ignored class would be dropped. Leave bare_loss out, or override loss and use "
            "batch.row_losses."
        )
    if overrides("personal_params") and method.averages and not method.personal:
        raise ValueError(
            f"{name} states personal = False, but its personal_params gives clients models of their own. Leave "
            "personal out: it follows from the hooks."
        )


def check_sharing(method, names):
    """Refuse a method that says that it averages and shares nothing, or the other way round.

    Parameters
    ----------
    method : Algorithm
    names : iterable of str
        Of the module's tensors.

    Raises
    ------
    ValueError
    """
    name, shared = type(method).__name__, tuple(method.shared(tuple(names)))
    if method.averages and not shared:
        raise ValueError(
            f"{name}.shared gives no tensor, so that the global model would stay as it was drawn. State averages = "
            "False where clients predict for themselves, or share something."
        )
    if shared and not method.averages:
        raise ValueError(
            f"{name} states averages = False, but its shared sends {shared[0]!r}, which nobody would average and "
            "its client would not keep. Let shared return ()."
        )
