"""What a function or a class does, in parts that can be described: source, bytecode, what it refers to."""

import dis
import functools
import inspect
import logging
import platform
import sys
import sysconfig
import threading
import types
from pathlib import Path

from fedrela_sk._version import __version__

# Described by name and version, wherever they are installed.
_KNOWN = {"numpy", "scipy", "sklearn", "skorch", "torch"}
# Python's parser, which finds the text of a class, is not safe under threads before 3.13.
_reading = threading.Lock()
_STANDARD_LIBRARY = Path(sysconfig.get_path("stdlib"))


class NotKeyable(Exception):
    """A thing has no stable description; the message says which and why."""


def release(module):
    """Name and version of the installed package that a module belongs to.

    Parameters
    ----------
    module : str or None
        Name of a module; None for what is built in.

    Returns
    -------
    release : str or None
        None for code whose text must be compared: the user's own.
    """
    root = (module or "builtins").split(".")[0]
    if root == "fedrela_sk":
        return f"fedrela_sk {__version__}"
    package = sys.modules.get(root)
    file = getattr(package, "__file__", None)
    folders = () if file is None else Path(file).parents
    installed = {"site-packages", "dist-packages"} & {folder.name for folder in folders}
    own = file is None or (_STANDARD_LIBRARY in folders and not installed)
    if root in sys.stdlib_module_names and own:
        return f"python {platform.python_version()}"
    version = getattr(package, "__version__", None)
    if isinstance(version, str) and (installed or root in _KNOWN):
        return f"{root} {version}"
    return None


def source_text(thing):
    """Source of a function or a class.

    Raises
    ------
    NotKeyable
        If there is none, or if it is a lambda: its text is that of the whole line.
    """
    if thing.__name__ == "<lambda>":
        raise NotKeyable("a lambda has no stable description: define a named function at module level")
    try:
        with _reading:
            return inspect.getsource(thing)
    except (OSError, TypeError) as error:
        name = f"{thing.__module__}.{thing.__qualname__}"
        raise NotKeyable(f"{name} has no source text that could be compared") from error


def function_parts(function):
    """What a function computes with: its code, defaults, closure and the global things that it names."""
    cells = []
    for cell in function.__closure__ or ():
        try:
            cells.append(cell.cell_contents)
        except ValueError:  # not bound yet
            cells.append("unbound")
    return {
        "code": _bytecode(function.__code__),
        "defaults": [function.__defaults__, function.__kwdefaults__],
        "closure": cells,
        "globals": _globals(function),
    }


def class_parts(cls):
    """Bases, functions and settings of a class; what Python itself puts there is left out."""
    parts = {"bases": list(cls.__bases__)}
    for name, value in vars(cls).items():
        if isinstance(value, staticmethod | classmethod):
            value = value.__func__
        elif isinstance(value, property):
            value = [value.fget, value.fset, value.fdel]
        elif isinstance(value, functools.cached_property):
            value = value.func
        elif _made_by_dataclass(cls, value):
            value = function_parts(inspect.unwrap(value))
        elif (name.startswith("__") and not callable(value)) or name == "_abc_impl":
            continue
        parts[name] = value
    return parts


def _made_by_dataclass(cls, value):
    """Whether `dataclass` wrote a method of a class: without source text, but its bytecode tells all."""
    if not (isinstance(value, types.FunctionType) and "__dataclass_fields__" in vars(cls)):
        return False
    return inspect.unwrap(value).__code__.co_filename == "<string>"


def _bytecode(code):
    """Instructions of a code object and of those inside it, without line numbers and file names.

    Source text alone would not do: after an edit it is the text of the new file, while the old code runs
    until the module is imported again.
    """
    constants = [_bytecode(c) if isinstance(c, types.CodeType) else c for c in code.co_consts]
    return [code.co_code, code.co_names, code.co_varnames, code.co_freevars, constants]


def _globals(function):
    """Global things that a function's code loads, by name."""
    found = {}
    for code in _codes(function.__code__):
        for step in dis.get_instructions(code):
            if step.opname in ("LOAD_GLOBAL", "LOAD_NAME") and step.argval in function.__globals__:
                value = function.__globals__[step.argval]
                found |= dict(_followed(step.argval, value, code.co_names))
    return found


def _codes(code):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _followed(name, value, attributes):
    """(name, thing): a thing itself; of a module of the user's own, what the code may take from it."""
    if isinstance(value, logging.Logger):
        return
    if not isinstance(value, types.ModuleType):
        yield name, value
    elif release(value.__name__) is None:
        for attribute in set(attributes) & vars(value).keys():
            yield from _followed(f"{name}.{attribute}", vars(value)[attribute], set(attributes) - {attribute})
