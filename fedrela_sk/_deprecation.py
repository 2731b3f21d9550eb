"""Old public names: each still works, with a FutureWarning that says the new one, until `REMOVED_IN`."""

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any, TypeVar, cast

from fedrela_sk._warnings import warn_user

REMOVED_IN = "0.3"

_Decorated = TypeVar("_Decorated", bound=Callable[..., Any])
_Class = TypeVar("_Class", bound=type)

# public place -> {old name: new name}; a place is a room, a class of a room or a function of a room
RENAMED = {
    "fedrela_sk.algorithms.FedLF": {"centre_weight": "center_weight"},
    "fedrela_sk.datasets.make_payments": {"n_rows": "n_samples"},
    "fedrela_sk.report": {"RelabelingReport": "RelabelReport"},
    "fedrela_sk.report.RoundRecord": {"n_rows": "n_samples"},
    "fedrela_sk.training.Stacked": {"cohort_size": "chunk_size"},
}

# rooms -> {name that was public by accident: the private module it comes from}
PRIVATE = {
    "fedrela_sk.training": {
        "ENGINES": "_engine",
        "LocalSettings": "_net",
        "LoopEngine": "loop._engine",
        "StackedEngine": "stacked._engine",
        "build_net": "_net",
        "check_forward": "_net",
        "client_data": "_model",
        "device_turn": "runtime._device",
        "laid_out": "_layout",
        "one_thread_is_enough": "_threads",
        "posteriors": "_posteriors",
        "read_settings": "_net",
        "start_engine": "_engine",
        "tensors_of": "_net",
        "threads_for": "_threads",
        "torch_threads": "_threads",
    },
}


def old_keywords(function: _Decorated) -> _Decorated:
    """Decorator of a public function in `RENAMED`: the old keywords are passed on under their new names."""
    names = _names_of(function)

    @wraps(function)
    def with_old_keywords(*args, **kwargs):
        return function(*args, **_translated(kwargs, names, function.__qualname__))

    return cast(_Decorated, with_old_keywords)


def old_attributes(cls: _Class) -> _Class:
    """Decorator of a public class in `RENAMED`, an estimator or a record.

    The constructor and `set_params`, where there is one, take the old keywords, and the old attributes are
    there. `get_params`, `clone` and `repr` know only the new names. A pickle of an earlier version is read
    without a warning.
    """
    _forward_old_names(cls)
    return cls


def _forward_old_names(cls):
    names = _names_of(cls)
    cls.__init__ = _method_with_old_keywords(cls.__init__, names, cls.__name__)
    if hasattr(cls, "set_params"):
        cls.set_params = _method_with_old_keywords(cls.set_params, names, cls.__name__)
    cls.__setstate__ = _restoring(names, getattr(cls, "__setstate__", None))
    for old, new in names.items():
        setattr(cls, old, _forwarding(old, new, cls.__name__))


def old_members(module):
    """A `__getattr__` for a room in `RENAMED`: ``__getattr__ = old_members(__name__)``."""
    names = RENAMED[module]

    def __getattr__(name):
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        _warn(name, names[name], module)
        return getattr(import_module(module), names[name])

    return __getattr__


def private_members(module):
    """A `__getattr__` for a room in `PRIVATE`: what was public there can still be had, with a warning."""
    homes = PRIVATE[module]

    def __getattr__(name):
        if name not in homes:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        warn_user(
            f"`{name}` of {module} is not part of its public names: it may change without notice, and {module} will "
            f"no longer have it in fedrela_sk {REMOVED_IN}.",
            FutureWarning,
        )
        return getattr(import_module(f"{module}.{homes[name]}"), name)

    return __getattr__


def with_new_names(owner, fields):
    """A dictionary that was stored with old names, under the new ones; nothing is warned about.

    Parameters
    ----------
    owner : class or function in `RENAMED`
    fields : dict of str to object
    """
    names = _names_of(owner)
    return {names.get(name, name): value for name, value in fields.items()}


def _names_of(thing):
    room = ".".join(thing.__module__.split(".")[:2])
    return RENAMED[f"{room}.{thing.__qualname__}"]


def _warn(old, new, owner):
    message = f"`{old}` of {owner} is now `{new}`; the old name will be removed in fedrela_sk {REMOVED_IN}."
    warn_user(message, FutureWarning)


def _translated(kwargs, names, owner):
    """Keywords under their new names, each old one with a warning."""
    translated = {}
    for name, value in kwargs.items():
        new = names.get(name, name)
        if new != name:
            if new in kwargs:
                raise TypeError(f"{owner} got both `{new}` and its old name `{name}`: pass `{new}`.")
            _warn(name, new, owner)
        translated[new] = value
    return translated


def _method_with_old_keywords(method, names, owner):
    @wraps(method)
    def with_old_keywords(self, *args, **kwargs):
        return method(self, *args, **_translated(kwargs, names, owner))

    return with_old_keywords


def _restoring(names, inherited):
    def __setstate__(self, state):
        state = {names.get(name, name): value for name, value in state.items()}
        if inherited is None:
            self.__dict__.update(state)
        else:
            inherited(self, state)

    return __setstate__


def _forwarding(old, new, owner):
    """A property that reads and writes the attribute `new`."""

    def read(self) -> Any:
        _warn(old, new, owner)
        return getattr(self, new)

    def write(self, value):
        _warn(old, new, owner)
        setattr(self, new, value)

    return property(read, write, doc=f"Old name of `{new}`.")
