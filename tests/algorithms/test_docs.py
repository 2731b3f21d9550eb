"""docs/algorithms.md: what it lists of every method is what the methods' class attributes say."""

import importlib.util
import re
from pathlib import Path

import pytest

from fedrela_sk.algorithms import ALGORITHMS

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "algorithms.md"
pytestmark = pytest.mark.skipif(not PAGE.exists(), reason="docs are not beside the tests")


@pytest.fixture(scope="module")
def tables():
    spec = importlib.util.spec_from_file_location("make_tables", DOCS / "make_tables.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_what_the_methods_say(tables):
    text = PAGE.read_text(encoding="utf-8")
    assert tables.written(text) == text, "run python docs/make_tables.py"
    assert all(f"<!--[{name}]-->" in text for name in tables.PARTS)


def test_every_method_has_one_line_in_alphabetical_order():
    found = re.findall(r"^\| `(\w+)` \|", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert found == sorted(ALGORITHMS)


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_a_method_says_what_a_reader_of_the_table_wants_to_know(name, tables):
    kind = ALGORITHMS[name]
    assert kind.summary
    assert kind.source or not kind.averages
    assert tables.line_of(name).count(" |") == 7
