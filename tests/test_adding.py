"""docs/adding.md works: what it adds outside the package runs, and what it adds inside touches four files."""

import ast
import importlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fedrela_sk import algorithms
from fedrela_sk.algorithms import Algorithm

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "adding.md"
pytestmark = pytest.mark.skipif(not PAGE.exists(), reason="docs are not beside the tests")
TREES = ("fedrela_sk", "tests", "docs")


def page():
    return PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""


def blocks():
    """The page's blocks of code by their title."""
    return dict(re.findall(r'^```\w+ title="([^"]+)"\n(.*?)^```', page(), flags=re.MULTILINE | re.DOTALL))


OUTSIDE = {title: code for title, code in blocks().items() if "/" not in title}


def python(*command, path, cwd):
    """The output of a Python process that must end well; `path` is where it finds this package."""
    paths = os.pathsep.join([str(path), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
    done = subprocess.run(
        [sys.executable, *command],
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": paths, "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


# --- outside -------------------------------------------------------------------------------------------------


def test_every_block_of_the_page_has_a_title():
    assert page().count("\n```python") + page().count("\n```markdown") == len(blocks())
    assert {"feddecorr.py", "fedsam.py", "test_feddecorr.py", "test_fedsam.py"} <= OUTSIDE.keys()


@pytest.mark.parametrize("title", OUTSIDE)
def test_nothing_private_is_imported(title):
    for node in ast.walk(ast.parse(OUTSIDE[title])):
        if isinstance(node, ast.ImportFrom) and node.module.startswith("fedrela_sk"):
            assert not any(part.startswith("_") for part in node.module.split("."))
            assert {alias.name for alias in node.names} <= set(importlib.import_module(node.module).__all__)
        assert not (isinstance(node, ast.Attribute) and re.match(r"_[a-z]", node.attr))


def test_what_is_added_outside_keeps_the_promises(tmp_path):
    """The methods, rules and engines of the page in a folder of their own, by the page's own tests."""
    for title, code in OUTSIDE.items():
        (tmp_path / title).write_text(code, encoding="utf-8")
    said = python("-m", "pytest", "-q", "-p", "no:cacheprovider", ".", path=ROOT, cwd=tmp_path)
    n_tests = sum(code.count("\ndef test_") for code in OUTSIDE.values())
    assert f"{n_tests} passed" in said
    assert "{'algorithm__beta': " in python("use_feddecorr.py", path=ROOT, cwd=tmp_path)


def hooks_of_the_page():
    """(hook, classes) of every line of the table of ideas."""
    table = page().split("| idea | hook ")[1].split("\n\n")[0]
    lines = re.findall(r"^\| ([^|]+) \| ([^|]+) \| ([^|]*)\|$", table, flags=re.MULTILINE)
    return [(re.findall(r"`(\w+)`", hooks), re.findall(r"[A-Z]\w+", names)) for _, hooks, names in lines]


def test_an_example_of_a_hook_has_that_hook():
    named = set()
    for hooks, names in hooks_of_the_page():
        hooks = [hook for hook in hooks if hasattr(Algorithm, hook)]
        named |= set(hooks)
        for kind in [getattr(algorithms, name) for name in names if name in algorithms.__all__]:
            if hooks and issubclass(kind, Algorithm):
                assert any(getattr(kind, hook) is not getattr(Algorithm, hook) for hook in hooks), (
                    kind,
                    hooks,
                )
    hooks = {name for name, value in vars(Algorithm).items() if callable(value) and not name.startswith("_")}
    assert named == hooks - {"uses"}


# --- inside --------------------------------------------------------------------------------------------------

# a method that is unlike FedAvg in what tables and tests could have typed by hand
HARD = '''"""Noisy rows (made for a test): a loss of its own, draws, a state, extra tensors, no model to chain."""

import torch

from fedrela_sk.algorithms._base import Algorithm


class NoisyRows(Algorithm):
    """Rows with a little noise; how often a client trained is sent along."""

    summary = "noise on rows"
    keeps = "c: 1"
    source = "nobody"
    traffic = "M + 8 / M"
    bare_loss = False
    loop_only = "draws noise in its loss"
    neutral_reason = "extra tensors are sent"

    def __init__(self, noise=0.1):
        self.noise = noise

    def client_init(self, params):
        return {"n_rounds": torch.zeros((), dtype=torch.float64)}

    def client_loss(self, model, batch, local):
        draws = torch.from_numpy(local.stream.standard_normal(batch.x.shape)).to(batch.x)
        return batch.criterion_loss(model(batch.x + self.noise * draws))

    def client_finish(self, params, local, run):
        n_rounds = local.state["n_rounds"] + 1
        return params | {"number of rounds": n_rounds}, {"n_rounds": n_rounds}
'''
TEST = """from fedrela_sk.algorithms import NoisyRows
from tests.algorithms.helpers import TwoLayers, fit, three_classes


def test_it_trains():
    assert fit(NoisyRows(), TwoLayers, three_classes()).history_
"""
# tests that go over all methods, or name some
LISTING = ["table", "docs", "derived", "criteria", "engines", "purity", "privacy", "numpy_numbers"]
ADDED = {
    "clipped": (
        "Clipped",
        blocks().get("fedrela_sk/algorithms/_clipped.py"),
        blocks().get("tests/algorithms/test_clipped.py"),
    ),
    "noisy_rows": ("NoisyRows", HARD, TEST),
}


def before(text, mark, line):
    """`text` with a line in front of the one that starts with `mark`."""
    assert text.count(f"\n{mark}") == 1
    return text.replace(f"\n{mark}", f"\n{line}\n{mark}")


def rows_of(name, kind):
    """The import, the row of the table and the public name."""
    return f"from fedrela_sk.algorithms._{name} import {kind}", f'    "{name}": {kind},', f'    "{kind}",'


def add_method(target, name):
    """The four changes of the page."""
    kind, method, test = ADDED[name]
    (target / f"fedrela_sk/algorithms/_{name}.py").write_text(method, encoding="utf-8")
    (target / f"tests/algorithms/test_{name}.py").write_text(test, encoding="utf-8")
    table = target / "fedrela_sk/algorithms/__init__.py"
    the_import, row, public = rows_of(name, kind)
    text = before(table.read_text(encoding="utf-8"), "from fedrela_sk.algorithms._fedavg import", the_import)
    text = before(text, '    "fedavg": FedAvg,', row)
    table.write_text(before(text, '    "FedAvg",', public), encoding="utf-8")
    python("docs/make_tables.py", path=target, cwd=target)


def changed(target):
    """Files of the copy that are new or differ."""
    files = [
        file.relative_to(target) for tree in TREES for file in (target / tree).rglob("*") if file.is_file()
    ]
    return {
        str(file)
        for file in files
        if "__pycache__" not in file.parts
        and (not (ROOT / file).exists() or (ROOT / file).read_bytes() != (target / file).read_bytes())
    }


def test_the_rows_of_the_page():
    assert blocks()["fedrela_sk/algorithms/__init__.py"].splitlines() == list(rows_of("clipped", "Clipped"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ADDED)
def test_adding_a_method_touches_four_files(tmp_path, name):
    for tree in TREES:
        ignored = shutil.ignore_patterns("__pycache__", "images", ".pytest_cache", "benchmarks", "theory")
        shutil.copytree(ROOT / tree, tmp_path / tree, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    add_method(tmp_path, name)
    assert changed(tmp_path) == {
        f"fedrela_sk/algorithms/_{name}.py",
        "fedrela_sk/algorithms/__init__.py",
        f"tests/algorithms/test_{name}.py",
        "docs/algorithms.md",
    }
    if name == "clipped":
        line = blocks()["docs/algorithms.md"]
        assert line in (tmp_path / "docs/algorithms.md").read_text(encoding="utf-8")
    kind = ADDED[name][0]
    where = [
        "tests/test_tables.py",
        *(f"tests/algorithms/test_{part}.py" for part in (name, *LISTING)),
        "tests/federation/relabeling/test_recorded_methods.py",
    ]
    which = f"{name} or {kind} or the_page or one_line or looked_at or those_that or recorded_or or by_hand"
    said = python(
        "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *where, "-k", which, path=tmp_path, cwd=tmp_path
    )
    assert int(re.search(r"(\d+) passed", said).group(1)) >= 20
