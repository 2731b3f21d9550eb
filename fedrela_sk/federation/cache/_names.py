"""What a function's code loads from outside itself, read off its bytecode; what cannot be read off is refused."""

import builtins
import dis
import importlib
import inspect
import logging
import os
import pickle
import random
import sys
import types

import numpy as np
import torch

from fedrela_sk.federation.cache._not_keyable import NotKeyable

_LOADS = {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"}
_ATTRIBUTES = {"LOAD_ATTR", "LOAD_METHOD"}
_FILLERS = {"CACHE", "EXTENDED_ARG", "PUSH_NULL", "NOP", "PRECALL"}
# What a function may do with them is not in its code.
_OUTSIDE = (
    eval, exec, compile, builtins.__import__, globals, input, importlib, importlib.import_module,
    importlib.reload, inspect.currentframe, inspect.stack, sys._getframe, sys.modules, os.environ, os.getenv,
    pickle.load, torch.load, np.load, np.loadtxt, np.genfromtxt, np.fromfile,
)  # fmt: skip
_OUTSIDE_NAMES = {"__globals__", "__builtins__", "__subclasses__", "f_globals", "read_text", "read_bytes"}
_WRITES = {mode + kind for mode in "wax" for kind in ("", "b", "t", "+", "b+", "+b", "t+")}
_GENERATORS = (np.random.mtrand._rand, random._inst)


def codes(code):
    """A code object and all code objects inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes(constant)


def names_in(function, release):
    """Dotted names that a function loads from outside itself, and what they stand for.

    Parameters
    ----------
    function : function
    release : callable of a module's name
        Name and version of an installed package; None for the user's own modules.

    Returns
    -------
    names : list of [str, object]
        In the order of the code. Of modules, what the code takes from them.

    Raises
    ------
    NotKeyable
        Where what is used depends on more than names: a module of the user's own that is passed around or asked
        by `getattr`, an import inside the function, `eval`, a file that is read, a global random generator.
    """
    found = {}
    for code in codes(function.__code__):
        for name in _OUTSIDE_NAMES & set(code.co_names):
            raise NotKeyable(f"{_label(function)} uses {name}, which leads to what cannot be followed")
        steps = [step for step in dis.get_instructions(code) if step.opname not in _FILLERS]
        for place, step in enumerate(steps):
            if step.opname == "IMPORT_NAME":
                raise NotKeyable(
                    f"{_label(function)} imports {step.argval or 'its own package'!r} inside itself, which cannot be "
                    "followed: import it at the top of the file"
                )
            elif step.opname in _LOADS:
                name, value = _loaded(function, code, steps, place, release)
                found[name] = value
    return [[name, value] for name, value in found.items() if not isinstance(value, logging.Logger)]


def check_followable(thing, user):
    """Refuse what leads to things outside; `user` is who uses it, for the error."""
    if any(thing is other for other in _OUTSIDE):
        name = getattr(thing, "__name__", None) or ("os.environ" if thing is os.environ else "sys.modules")
        raise NotKeyable(f"{user} uses {name}, and what comes of that cannot be followed")
    if any(getattr(thing, "__self__", None) is generator for generator in _GENERATORS):
        raise NotKeyable(
            f"{user} draws from the global generator by {thing.__name__}, whose state is not known: use a generator "
            "of its own"
        )


def _label(function):
    return f"{function.__module__}.{function.__qualname__}"


def _loaded(function, code, steps, place, release):
    """(dotted name, value) of a load together with the attributes that are taken from modules."""
    name, user = steps[place].argval, _label(function)
    if name not in function.__globals__:
        _check_builtin(name, code, user)
        return name, "built in, or not there"
    value, through = function.__globals__[name], None
    for step in steps[place + 1 :]:
        if not (isinstance(value, types.ModuleType) and step.opname in _ATTRIBUTES):
            break
        through = release(value.__name__)
        if through is None and step.argval not in vars(value):
            break
        check_followable(value, user)
        name, value = f"{name}.{step.argval}", getattr(value, step.argval, "not there")
    check_followable(value, user)
    if isinstance(value, types.ModuleType):
        return name, _whole_module(value, user, release)
    # of an installed package the version says it all, unless somebody has put something else there
    described = through is None or isinstance(value, types.FunctionType | type)
    return name, value if described else through


def _check_builtin(name, code, user):
    if name == "open":
        if not _WRITES & {c for c in code.co_consts if isinstance(c, str)}:
            raise NotKeyable(f"{user} reads a file by open, whose content is not known")
        return
    check_followable(getattr(builtins, name, None), user)


def _whole_module(module, user, release):
    """What stands for a module that is not asked for a name."""
    found = release(module.__name__)
    if found is None:
        raise NotKeyable(
            f"{user} uses the module {module.__name__} as a whole (getattr, vars or an argument), so that what it "
            "takes from there cannot be followed: name it, as in module.function"
        )
    return found
