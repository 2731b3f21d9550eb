"""What the package imports is what pyproject.toml declares: no more, no less."""

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

import fedrela_sk

ROOT = Path(fedrela_sk.__file__).parent
PROJECT = tomllib.loads((ROOT.parent / "pyproject.toml").read_text())["project"]
CONSTRAINTS = (ROOT.parent / "constraints.txt").read_text()
DISTRIBUTIONS = packages_distributions()
# the command, which says by itself what it needs
MAY_NEED_EXTRAS = {"_main", "__main__.py"}


def names(requirements):
    """Names of distributions, as package indices compare them."""
    found = {re.match(r"[A-Za-z0-9._-]+", requirement).group() for requirement in requirements}
    return {re.sub(r"[-_.]+", "-", name).lower() for name in found}


NEEDED, OPTIONAL = names(PROJECT["dependencies"]), names(PROJECT["optional-dependencies"]["plots"])


def imported(text):
    """(module, whether it is loaded when the file is, alternatives left out) of every import of a file."""
    tree = ast.parse(text)
    at_once = {id(node) for node in tree.body}
    fallback = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.ExceptHandler)
        for inner in ast.walk(node)
    }
    tried = {id(inner) for node in tree.body if isinstance(node, ast.Try) for inner in node.body}
    for node in ast.walk(tree):
        if id(node) in fallback:
            continue
        modules = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            modules = [node.module]
        elif isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) in (
            "import_extra", "import_module", "__import__",
        ):  # fmt: skip
            modules = [node.args[0].value] if isinstance(node.args[0], ast.Constant) else []
        for module in modules:
            yield module.split(".")[0], id(node) in at_once or id(node) in tried


FOUND = {
    (path.relative_to(ROOT), module, at_once)
    for path in ROOT.rglob("*.py")
    for module, at_once in imported(path.read_text(encoding="utf-8"))
    if module not in sys.stdlib_module_names and module != "fedrela_sk"
}


def distribution(module):
    (name,) = set(DISTRIBUTIONS[module])
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize("module", sorted({module for _, module, _ in FOUND}))
def test_every_import_is_declared(module):
    for path, _, at_once in sorted(entry for entry in FOUND if entry[1] == module):
        free = not at_once or path.parts[0] in MAY_NEED_EXTRAS
        declared = NEEDED | OPTIONAL if free else NEEDED
        assert distribution(module) in declared, f"{path} imports {module}"


def test_every_dependency_is_imported():
    used = {distribution(module) for _, module, _ in FOUND}
    assert used >= NEEDED
    assert used >= OPTIONAL


def test_every_dependency_is_in_the_constraints():
    every = names(PROJECT["dependencies"]).union(*map(names, PROJECT["optional-dependencies"].values()))
    left_out = {"fedrela-sk", "pfl", "flwr"}  # frameworks to compare with have environments of their own
    assert every - left_out <= names(CONSTRAINTS.splitlines()[1:])


def test_the_walk_sees_every_way_to_import():
    text = """
import joblib.parallel, numpy as np
from filelock import FileLock
from . import own
try:
    import cloudpickle
except ImportError:
    from joblib.externals import cloudpickle
def later():
    from PIL import Image
    return import_extra("pandas.io", "caller"), importlib.import_module("rich"), __import__("scipy")
"""
    assert sorted(imported(text)) == [
        ("PIL", False), ("cloudpickle", True), ("filelock", True), ("joblib", True), ("numpy", True),
        ("pandas", False), ("rich", False), ("scipy", False),
    ]  # fmt: skip
