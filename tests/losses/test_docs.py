"""The page about losses and the examples in docstrings are true of the code."""

import doctest
import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pytest
import torch

from fedrela_sk import losses

PAGE = (Path(__file__).parents[2] / "docs" / "losses.md").read_text(encoding="utf-8")
FILES = [module.name for module in pkgutil.iter_modules(losses.__path__)]


def rows_of_the_first_table():
    return dict(re.findall(r"^\| `(\w+)` \|(.*)", PAGE.split("\n\n")[2], flags=re.MULTILINE))


def test_every_loss_has_a_row():
    assert rows_of_the_first_table().keys() == {n for n in losses.__all__ if n.endswith("Loss")} - {
        "PriorLoss"
    }


@pytest.mark.parametrize("name", rows_of_the_first_table())
def test_defaults_are_those_of_the_signature(name):
    said = dict(re.findall(r"`(\w+)=([^`]+)`", rows_of_the_first_table()[name].split("|")[1]))
    parameters = inspect.signature(getattr(losses, name)).parameters.values()
    own = {p.name: p.default for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD}
    assert {key: eval(value) for key, value in said.items()} == own


def test_the_code_runs():
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
    names = {}
    exec(compile(code, "losses.md", "exec"), names)
    X, y = torch.zeros(6, 30), torch.tensor([0, 1, 2, 0, 1, 2])
    for net in (names["net"], names["with_cosines"]):
        net.set_params(verbose=0, max_epochs=1, train_split=None).fit(X, y)


@pytest.mark.parametrize("name", FILES)
def test_examples_run(name):
    module = importlib.import_module(f"fedrela_sk.losses.{name}")
    assert doctest.testmod(module).failed == 0


def test_examples_were_found():
    finder = doctest.DocTestFinder()
    found = {name for name in losses.__all__ if any(t.examples for t in finder.find(getattr(losses, name)))}
    assert found == set(losses.__all__) - {"PriorLoss", "Progress"}
