"""How a check says that a promise is broken, and what all checks look at: parameters, global generators, bits."""

import random
from contextlib import contextmanager

import cloudpickle
import numpy as np
import torch
from sklearn.base import clone

from fedrela_sk.exceptions import CheckError
from fedrela_sk.testing._walk import changes, snapshot


def broken(subject, promise, seen, mend):
    """The `CheckError` of a broken promise.

    Parameters
    ----------
    subject : object
        What is checked.
    promise, seen, mend : str
        Sentences without a full stop.
    """
    return CheckError(f"{type(subject).__name__}: {promise}. Seen: {seen}. To mend it: {mend}.")


@contextmanager
def refused(subject, promise, mend):
    """A block whose errors, of any kind, break a promise."""
    try:
        yield
    except CheckError:
        raise
    except Exception as error:
        raise broken(subject, promise, f"{type(error).__name__}: {str(error).rstrip('.')}", mend) from error


def check_parameters(subject):
    """The constructor only stores, so that `clone`, `set_params`, searches and workers can copy the object."""
    promise = "the constructor stores its parameters under their own names and does nothing else"
    mend = "assign every argument of __init__ as it came, and nothing besides; check values in a later call"
    with refused(subject, promise, mend):
        params = subject.get_params(deep=False)
        twin = clone(subject)
    other = vars(subject).keys() ^ params.keys()
    if other:
        raise broken(subject, promise, f"attributes and parameters differ in {sorted(other)}", mend)
    promise = "it can be copied, pickled and sent to other processes"
    mend = "hold no open files, locks, generators or lambdas of another module in parameters; store what makes them"
    with refused(subject, promise, mend):
        copies = [twin, cloudpickle.loads(cloudpickle.dumps(subject))]
    for copy in copies:
        if type(copy).__name__ != type(subject).__name__ or vars(copy).keys() != vars(subject).keys():
            raise broken(subject, promise, f"a copy is {copy!r}", mend)


@contextmanager
def untouched(subject, what="it", places=("self", "the class")):
    """A block that writes nothing to an object and to no attribute of its class, or to one of the two only."""
    looks = {"self": vars, "the class": _class_attributes}
    before = {place: snapshot(looks[place](subject)) for place in places}
    yield
    for place, old in before.items():
        changed = changes(old, snapshot(looks[place](subject)))
        if changed:
            raise broken(
                subject,
                f"{what} writes nothing to itself",
                f"it writes to {place}: {changed[0]}",
                "return what must last (states are passed in and returned), or compute it anew",
            )


def _class_attributes(subject):
    """Plain attributes of the object's classes, those that can be changed in place and those that cannot."""
    return {
        f"{kind.__name__}.{name}": value
        for kind in type(subject).__mro__
        for name, value in vars(kind).items()
        if not (name.startswith("__") or callable(value) or hasattr(value, "__get__"))
    }


def generators():
    """States of the global generators by the name of their library."""
    kind, keys, *rest = np.random.get_state()  # noqa: NPY002 - the global one is what is looked at
    return {
        "random": random.getstate(),
        "numpy": (kind, keys.tobytes(), *rest),
        "torch": torch.get_rng_state().numpy().tobytes(),
    }


def drawn(before, quiet=("random", "numpy", "torch")):
    """The first of some libraries whose global generator has moved, None if none has."""
    after = generators()
    return next((name for name in quiet if after[name] != before[name]), None)


@contextmanager
def no_global_draws(subject, what="it"):
    """A block that draws from no global generator."""
    before = generators()
    yield
    library = drawn(before)
    if library is not None:
        raise global_draws(subject, library, what)


def global_draws(subject, library, what):
    """The `CheckError` of a draw from a global generator."""
    return broken(
        subject,
        f"{what} uses no global random state",
        f"the global generator of {library} has moved",
        "draw from the stream that is passed in (or pass uniforms on), so that one seed gives one result",
    )


@contextmanager
def seeded_globals(seed):
    """A block before which all global generators are set; they are as they were afterwards."""
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    torch.manual_seed(seed)
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002
        torch.set_rng_state(states[2])
