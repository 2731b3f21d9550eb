"""What a function or a class does, in parts that can be described: source, bytecode, what it refers to."""

import functools
import inspect
import platform
import sys
import sysconfig
import threading
import types
from pathlib import Path

from fedrela_sk.federation.cache._names import codes, names_in
from fedrela_sk.federation.cache._not_keyable import NotKeyable
from fedrela_sk.federation.cache._package import edition

__all__ = ["NotKeyable", "class_parts", "function_parts", "is_global", "release", "source_text"]

# Described by name and version, wherever they are installed.
_KNOWN = {"numpy", "scipy", "sklearn", "skorch", "torch"}
# What Python itself puts into a class, beside what the class body says; the last one is torch's running number.
_MADE_BY_PYTHON = {
    "__module__", "__qualname__", "__doc__", "__dict__", "__weakref__", "__annotations__", "__annotate__",
    "__annotate_func__", "__annotations_cache__", "__firstlineno__", "__static_attributes__", "__slots__",
    "__match_args__", "__dataclass_fields__", "__dataclass_params__", "__abstractmethods__", "__orig_bases__",
    "__parameters__", "__classdictcell__", "_abc_impl", "_autograd_function_id",
}  # fmt: skip
# Python's parser, which finds the text of a class, is not safe under threads before 3.13.
_reading = threading.Lock()
_STANDARD_LIBRARY = Path(sysconfig.get_path("stdlib"))


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
        return edition()
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


def is_global(thing):
    """Whether a function or class is what its module holds under its name; nothing that was made on the way is.

    A closure that a package made, or a function that `functools.wraps` gave another's name, does what its parts
    say, not what the name says.
    """
    place = sys.modules.get(thing.__module__ or "builtins")
    for name in thing.__qualname__.split("."):
        place = getattr(place, name, None)
    return place is thing


def source_text(thing):
    """Source of a function or a class, None where there is none: typed in by hand, or made by `exec`.

    Raises
    ------
    NotKeyable
        If it is a lambda: its text is that of the whole line.
    """
    if thing.__name__ == "<lambda>":
        raise NotKeyable("a lambda has no stable description: define a named function at module level")
    try:
        with _reading:
            return inspect.getsource(thing)
    except (OSError, TypeError, IndexError):
        return None


def function_parts(function):
    """What a function computes with: its code, defaults, closure, attributes and the global things it names."""
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
        "attributes": {name: value for name, value in vars(function).items() if name != "__wrapped__"},
        "names": names_in(function, release),
    }


def class_parts(cls):
    """Bases, functions and settings of a class; what Python itself puts there is left out."""
    parts = {"bases": [*cls.__bases__, type(cls)]}
    for name, value in vars(cls).items():
        if isinstance(value, staticmethod | classmethod):
            value = [type(value).__name__, value.__func__]
        elif isinstance(value, property):
            value = ["property", value.fget, value.fset, value.fdel]
        elif isinstance(value, functools.cached_property):
            value = ["cached property", value.func]
        elif isinstance(value, types.MemberDescriptorType | types.GetSetDescriptorType):
            continue  # a slot
        elif _made_by_dataclass(cls, value):
            value = function_parts(inspect.unwrap(value))
        elif name in _MADE_BY_PYTHON:
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
    return [
        [
            [part.co_name, part.co_code, part.co_flags, getattr(part, "co_exceptiontable", b"")],
            [part.co_argcount, part.co_posonlyargcount, part.co_kwonlyargcount],
            [part.co_names, part.co_varnames, part.co_freevars, part.co_cellvars],
            [c for c in part.co_consts if not isinstance(c, types.CodeType)],
        ]
        for part in codes(code)
    ]
