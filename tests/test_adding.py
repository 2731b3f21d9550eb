"""docs/adding.md works: its method is added to a copy of the project, which then passes its tests."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "adding.md"
needs_page = pytest.mark.skipif(not PAGE.exists(), reason="docs are not beside the tests")
TREES = ("fedrela_sk", "tests/algorithms", "docs")
FILES = (
    "tests/__init__.py", "tests/test_tables.py", "tests/conftest.py", "tests/list_slow.py", "tests/slow.txt",
    "pyproject.toml",
)  # fmt: skip


def blocks():
    """(method, lines for the table of methods, test, line for the page) as the page gives them."""
    return re.findall(r"```(?:python|markdown)\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)


def copy_project(target):
    for tree in TREES:
        shutil.copytree(ROOT / tree, target / tree, ignore=shutil.ignore_patterns("__pycache__", "images"))
    for file in FILES:
        shutil.copy(ROOT / file, target / file)


def before(text, mark, line):
    """`text` with a line in front of the one that starts with `mark`."""
    assert text.count(f"\n{mark}") == 1
    return text.replace(f"\n{mark}", f"\n{line}\n{mark}")


def add_method(target):
    """The four changes of the page."""
    method, rows, test, entry = blocks()
    the_import, row, name = rows.splitlines()
    (target / "fedrela_sk/algorithms/_clipped.py").write_text(method, encoding="utf-8")
    (target / "tests/algorithms/test_clipped.py").write_text(test, encoding="utf-8")
    table = target / "fedrela_sk/algorithms/__init__.py"
    text = before(table.read_text(encoding="utf-8"), "from fedrela_sk.algorithms._fedavg import", the_import)
    text = before(text, '    "fedavg": FedAvg,', row)
    table.write_text(before(text, '    "FedAvg",', name), encoding="utf-8")
    page = target / "docs/algorithms.md"
    page.write_text(before(page.read_text(encoding="utf-8"), "| `fedavg` |", entry.strip()), encoding="utf-8")


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


@needs_page
def test_the_example_is_a_method_like_all_others(tmp_path):
    copy_project(tmp_path)
    add_method(tmp_path)
    assert changed(tmp_path) == {
        "fedrela_sk/algorithms/_clipped.py",
        "fedrela_sk/algorithms/__init__.py",
        "tests/algorithms/test_clipped.py",
        "docs/algorithms.md",
    }
    tests = ["tests/algorithms/test_clipped.py", "tests/algorithms/test_table.py", "tests/test_tables.py"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests, "-k", "clipped or Clipped"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path), "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    passed = int(re.search(r"(\d+) passed", done.stdout).group(1))
    assert passed >= 6 + 5  # its own tests, and the promises of every row
