"""One file of constraints serves every extra, and tests of an extra are left out where it is not installed."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests import conftest
from tests.conftest import EXTRAS

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PINS = dict(re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(), flags=re.MULTILINE))


@pytest.mark.index
@pytest.mark.slow
@pytest.mark.parametrize("extra", sorted(PYPROJECT["project"]["optional-dependencies"]))
def test_every_extra_resolves(extra):
    asked = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--dry-run",
        "--quiet",
        "-c",
        "constraints.txt",
        f".[{extra}]",
    ]
    done = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_flowers_upper_bounds_are_kept():
    assert int(PINS["rich"].split(".")[0]) < 15
    assert int(PINS["packaging"].split(".")[0]) < 26


def test_the_markers_of_extras_are_registered_and_left_out_by_default():
    options = PYPROJECT["tool"]["pytest"]["ini_options"]
    registered = {line.partition(":")[0] for line in options["markers"]}
    left_out = set(re.search(r"-m 'not \((.*)\)'", options["addopts"]).group(1).split(" or "))
    assert left_out == {"index", *EXTRAS}
    assert left_out | {"slow", "processes"} == registered


class Item:
    """As much of a collected test as the hook looks at."""

    def __init__(self, name, *markers):
        self.name = name
        self.nodeid = f"tests/test_that_is_not_there.py::{name}"
        self.markers = markers

    def get_closest_marker(self, name):
        return name in self.markers


def test_tests_of_an_absent_extra_are_deselected_not_skipped(monkeypatch):
    monkeypatch.setattr(conftest, "EXTRAS", {"flower": "no_module_of_this_name", "dask": "json"})
    kept = [Item("test_base"), Item("test_with_dask", "dask")]
    left_out = [Item("test_with_flower", "flower"), Item("check_array_api_input[x]")]
    items, told = [left_out[0], kept[0], left_out[1], kept[1]], []
    hook = SimpleNamespace(pytest_deselected=lambda items: told.extend(items))
    conftest.pytest_collection_modifyitems(SimpleNamespace(hook=hook), items)
    assert items == kept
    assert told == left_out
