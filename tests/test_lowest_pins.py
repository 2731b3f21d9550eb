"""The lowest versions that pyproject allows, as the workflow installs them."""

import importlib.util
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
spec = importlib.util.spec_from_file_location("lowest_pins", ROOT / ".ci" / "lowest_pins.py")
lowest_pins = importlib.util.module_from_spec(spec)
spec.loader.exec_module(lowest_pins)

PROJECT = {
    "name": "my_package",
    "dependencies": ["numpy>=2.0", "scikit-learn>=1.9,<2"],
    "optional-dependencies": {
        "test": ["my-package[plots]", "pytest>=8", "numpy>=2.0"],
        "far": ["flwr[simulation]>=1.42"],
    },
}


def test_pins_by_hand():
    assert lowest_pins.lowest_pins(PROJECT) == ["numpy==2.0", "scikit-learn==1.9"]
    assert lowest_pins.lowest_pins(PROJECT, ["test", "far"]) == [
        "numpy==2.0", "scikit-learn==1.9", "pytest==8", "flwr==1.42",
    ]  # fmt: skip


@pytest.mark.parametrize("requirement", ["numpy", "numpy<3", "numpy==2.0"])
def test_a_requirement_without_a_floor(requirement):
    with pytest.raises(ValueError, match="names no lowest version: write it as name>=version"):
        lowest_pins.lowest_pins({**PROJECT, "dependencies": [requirement]})


def test_every_requirement_of_the_project_has_one(capsys):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = list(project["optional-dependencies"])
    lowest_pins.main(extras)
    printed = capsys.readouterr().out.splitlines()
    every = {one for extra in extras for one in project["optional-dependencies"][extra]} | {
        *project["dependencies"]
    }
    own = {one for one in every if one.startswith("fedrela_sk[")}
    assert len(printed) == len(every - own)
