"""Writes docs/api.md: all public names, each with the first line of its docstring. ``python docs/make_api.py``."""

import inspect
from importlib import import_module
from pathlib import Path

import fedrela_sk
from fedrela_sk.algorithms import ALGORITHMS

PAGE = Path(__file__).parent / "api.md"
HEAD = """# Public names

What `import fedrela_sk` and its rooms offer: their `__all__`. What is not listed here is private and may change
([stability](stability.md)). The names in the first table are those of the package itself; they load on first use.
"""


def page():
    """The whole page."""
    parts = [HEAD, table(fedrela_sk, fedrela_sk._NAMES)]
    for room in sorted(fedrela_sk._ROOMS):
        module = import_module(f"fedrela_sk.{room}")
        parts += [f"## fedrela_sk.{room}\n\n{first_line(module)}\n", table(module, names_of(module))]
        if room == "algorithms":
            parts.append(
                "And the methods of `ALGORITHMS`, each with its line on [their page](algorithms.md).\n"
            )
    return "\n".join(parts)


def names_of(module):
    """Public names of a room, without the methods of `ALGORITHMS`, which have a page of their own."""
    methods = {kind.__name__ for kind in ALGORITHMS.values()}
    return [name for name in module.__all__ if name not in methods]


def table(module, names):
    """One line for each name."""
    lines = [f"| `{name}` | {first_line(getattr(module, name))} |" for name in names]
    return "\n".join(["| name | what it is |", "| --- | --- |", *lines]) + "\n"


def first_line(thing):
    """What a thing says of itself in one line; of a table or a constant its type."""
    if not (inspect.ismodule(thing) or inspect.isclass(thing) or callable(thing)):
        return f"a {type(thing).__name__}"
    return inspect.getdoc(thing).split("\n\n")[0].replace("\n", " ").replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
