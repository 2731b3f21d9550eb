"""What is read off the hooks that a method overrides, so that its author has nothing to remember."""

import dis
from itertools import pairwise
from types import FunctionType

_BASE = f"{__package__}._base"
# hooks that run while a client trains
TRAINING_HOOKS = (
    "client_begin",
    "client_row_losses",
    "client_loss",
    "client_penalty",
    "client_correct",
    "client_decoupled",
    "client_finish",
)
# names that hooks had before 0.2 -> what does their work now
FORMER_HOOKS = {
    "prepare": "prepare_module",
    "init_server": "server_init",
    "init_client": "client_init",
    "asks": "server_query",
    "report": "server_query, which returns a Query with this function as its report",
    "gather": "server_query, which returns a Query with this function as its gather",
    "report_needs_model": "server_query, which returns a Query(needs_model=...)",
    "broadcast": "server_broadcast, which returns a Broadcast(every_round=...)",
    "once": "server_broadcast, which returns a Broadcast(first_time=...)",
    "for_relabeling": "server_broadcast, which returns a Broadcast(relabeling=...)",
    "weigh": "server_weights",
    "begin": "client_begin",
    "order": "client_order",
    "row_losses": "client_row_losses",
    "loss": "client_loss",
    "penalty": "client_penalty",
    "correct": "client_correct",
    "decoupled": "client_decoupled",
    "finish": "client_finish",
    "aggregate": "server_aggregator",
    "step": "server_step",
    "relabel_params": "predict_params, which is called with relabeling=True",
    "overrides": "unused_hooks",
}


class Derived:
    """An attribute of a class and of its instances that follows from the hooks; one that states it itself wins.

    Parameters
    ----------
    rule : callable of (uses, kind)
        Gives the value from `uses`, a function of a hook's name, and the method's class.
    """

    def __init__(self, rule):
        self.rule = rule

    def __get__(self, method, kind):
        uses = method.uses if method is not None else lambda hook: has_own(kind, hook)
        return self.rule(uses, kind)


def has_own(kind, hook):
    """Whether a class of methods has its own `hook`, not that of the base."""
    base = next(one for one in kind.__mro__ if one.__module__ == _BASE)
    return getattr(kind, hook) is not getattr(base, hook)


def replaces_loss(uses, kind):
    """Whether a loss of the method takes the place of the criterion."""
    return uses("client_loss") or uses("client_row_losses")


def keeps_tensors(uses, kind):
    """Whether clients predict with tensors of their own beside a global model."""
    return kind.averages and (uses("personal_params") or uses("shared"))


def sends_models(uses, kind):
    """Whether clients send what they trained as it is, to be averaged by their weights."""
    return not (uses("client_finish") or uses("server_aggregator"))


def why_in_turn(uses, kind):
    """Why a method runs only in the loop engine, None where it does not.

    A hook of training, or what it calls, reads ``local.stream``; or its loss returns a pair, the second a state.
    """
    for hook in TRAINING_HOOKS:
        if uses(hook) and _reads(kind, hook, "stream"):
            return f"draws from local.stream in its {hook}, one client after the other"
    if uses("client_loss") and _returns_tuple(kind.client_loss):
        return "keeps a state from step to step of its client_loss, one client after the other"
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


def check_names(method):
    """Refuse a method that defines a hook under the name that it had before 0.2, which nobody would call.

    Raises
    ------
    ValueError
        With the class, the old name and the new one.
    """
    for old, new in FORMER_HOOKS.items():
        if hasattr(type(method), old):
            raise ValueError(
                f"{type(method).__name__} defines {old!r}, a hook of earlier versions that is not called any more. "
                f"It is now {new}; docs/adding.md lists all hooks."
            )


def check_facts(method):
    """Refuse a method whose hooks contradict each other or what it states of itself.

    Raises
    ------
    ValueError
        With the class and what to change.
    """
    check_names(method)
    name, uses = type(method).__name__, method.uses
    if uses("client_loss") and uses("client_row_losses"):
        raise ValueError(
            f"{name} overrides both client_loss and client_row_losses, of which one would not be called. Override "
            "one of them (client_loss where the rows' logits alone do not give it)."
        )
    if replaces_loss(uses, type(method)) and not method.own_loss:
        hook = "client_loss" if uses("client_loss") else "client_row_losses"
        raise ValueError(
            f"{name} states own_loss = False, but its {hook} takes the place of the net's criterion. Leave own_loss "
            "out: it follows from the hooks."
        )
    if uses("client_row_losses") and not method.bare_loss:
        raise ValueError(
            f"{name} states bare_loss = False, but its client_row_losses sees no criterion, so that class weights, "
            "label smoothing and an ignored class would be dropped. Leave bare_loss out, or override client_loss and "
            "use batch.row_losses."
        )
    if uses("personal_params") and method.averages and not method.personal:
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
    names = tuple(names)
    name, shared = type(method).__name__, tuple(method.shared(names))
    unknown = [one for one in shared if one not in names]
    if unknown:
        raise ValueError(f"{name}.shared names {unknown[0]!r}, which is no tensor of the net: {list(names)}.")
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
