"""docs/algorithms.md: a line for every method, with its class, engines and traffic as they are."""

import re
from pathlib import Path

import pytest

from fedrela_sk.algorithms import ALGORITHMS
from tests.algorithms.helpers import TwoLayers, engines_of, fit, three_classes

PAGE = Path(__file__).parents[2] / "docs" / "algorithms.md"
pytestmark = pytest.mark.skipif(not PAGE.exists(), reason="docs are not beside the tests")
DATA = three_classes(n_clients=4)
M, C = (3 * 4 + 4 + 4 * 3 + 3) * 8, 3 * 8  # bytes of `TwoLayers` and of one number per class
# a head of the method's own instead of the net's
HEADS = {
    "fedetf": 8 + (4 * 3 + 3) * 8 - (4 * 3 + 3) * 8,
    "moon": ((4 * 4 + 4) + (256 * 4 + 256) + 257 * 3 - 15) * 8,
}


def lines():
    found = re.findall(r"^\| `(\w+)` \|(.*)\|$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {name: [cell.strip() for cell in cells.split("|")] for name, cells in found}


def test_every_method_has_one_line_in_alphabetical_order():
    assert list(lines()) == sorted(ALGORITHMS)


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_class_and_engines(name):
    cells = lines()[name]
    assert cells[0] == f"`{ALGORITHMS[name].__name__}`"
    assert cells[4] == ("loop" if engines_of(name) == ["loop"] else "both")


@pytest.mark.parametrize("name", sorted(set(ALGORITHMS) - {"creff"}))
def test_traffic_of_a_later_round(name):
    up, down = (eval(cell, {"M": M + HEADS.get(name, 0), "C": C}) for cell in lines()[name][3].split(" / "))
    record = fit(name, TwoLayers, DATA, n_rounds=2, epochs=1).history_[1]
    assert record.bytes_up == 4 * (up + 8 * (up > 0))
    assert record.bytes_down == 4 * down


def named(start, end):
    """Methods that the page names between two phrases."""
    text = " ".join(PAGE.read_text(encoding="utf-8").split()).split(start)[1].split(end)[0]
    return sorted(re.findall(r"`(\w+)`", text))


def test_methods_that_special_rules_do_not_go_with():
    no_model = [name for name, kind in ALGORITHMS.items() if not (kind.averages and kind.sends_model)]
    assert named("clients that send their model, so not", ". - ") == sorted(no_model)
    own = [name for name, kind in ALGORITHMS.items() if kind().uses("client_loss")]
    assert named("that make theirs from features:", ". These") == sorted(own)
