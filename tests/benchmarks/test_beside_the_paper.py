"""Printed numbers stand beside the one cell of ours that they are of."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.suites.claims import printed_gain
from benchmarks.suites.paper._beside import FIGURES, beside_the_paper
from benchmarks.suites.paper._printed import Place, index, place_of_arm, printed, printed_cells
from benchmarks.suites.paper._settings import PRESETS, cells, read_table, tables

WITH_CELLS = [1, 2, 3, 4, 6, 7, 8, 10, 11, 12, 13, 14]  # 5 is the notation, 9 sums of gains of 2


def arms_of(table, preset="full"):
    """{(key of the cell, name of the arm): (cell, arm)}."""
    return {(cell.key, arm["name"]): (cell, arm) for cell in cells(table, preset) for arm in cell.arms}


def printed_mean(table, key, arm, metric, preset="full"):
    found = printed_cells(*arms_of(table, preset)[key, arm])
    return found[metric]["mean"] if metric in found else None


@pytest.mark.parametrize("number", WITH_CELLS)
def test_every_printed_place_is_that_of_an_arm_of_its_settings_file(number):
    places = {place_of_arm(cell, arm) for cell, arm in arms_of(f"table_{number:02d}").values()}
    assert set(printed(number)) == places - {None}


@pytest.mark.parametrize("number", WITH_CELLS)
def test_no_two_printed_cells_match(number):
    assert sum(len(own) for own in printed(number).values()) > 0


@pytest.mark.parametrize(
    ("table", "key", "arm", "metric", "expected"),
    [
        ("table_14", "climb, alpha 0.3", "baseline", "overall", "81.42"),
        ("table_14", "fedavg, alpha 0.3", "+ FedReLa", "minority", "75.70"),
        (
            "table_01",
            "climb, alpha 0.3, name fashion_mnist, minority 0.3, amount 20",
            "baseline",
            "overall",
            "82.02",
        ),
        ("table_02", "fedetf, alpha 0.3, amount 50", "baseline", "overall", "65.15"),
        ("table_02", "fedetf, alpha 0.1", "+ FedReLa", "overall", "45.42"),
        ("table_04", "fedetf, alpha 10", "min-max", "tail", "21.46"),
        ("table_06", "fedloge, alpha 0.3, amount 20", "+ FedReLa", "overall", "81.90"),
        ("table_08", "fedlc, alpha 0.1", "baseline", "overall", "32.81"),
        ("table_10", "fedetf, alpha 0.1", "tau 5 %", "tail", "29.2"),
        ("table_11", "fedetf, alpha 1, name cifar10", "relabel at 60 %", "overall", "76.52"),
        ("table_12", "fedloge, alpha 0.1, heads sparse", "none", "tail", "17.4"),
        ("table_13", "fedetf, alpha 0.3, name cifar10", "refresh 1", "overall_best", "48.53"),
        ("table_13", "fedetf, alpha 0.3, name cifar10", "+ FedReLa", "overall", "46.00"),
        ("table_13", "fedetf, alpha 0.3, name cifar10", "refresh 1", "overall", None),
    ],
)
def test_arms_find_their_number(table, key, arm, metric, expected):
    assert printed_mean(table, key, arm, metric) == expected


def test_each_number_of_clients_of_table_8_has_its_own():
    means = {
        cell.settings["federation"]["n_clients"]: printed_cells(cell, arm)["overall"]["mean"]
        for cell, arm in arms_of("table_08").values()
        if cell.values["method"] == "fedlc" and arm["name"] == "baseline"
    }
    assert set(means) == {50, 100}
    assert means[50] == "32.81" != means[100]


@pytest.mark.parametrize("name", Place._fields)
def test_every_entry_of_a_place_counts(name):
    place = next(iter(printed(14)))
    assert place in printed(14)
    assert place._replace(**{name: "another"}) not in printed(14)


@pytest.mark.parametrize("change", [{}, {"mean": "1.0"}])
def test_two_matches_are_refused(change):
    row = next(iter(printed(14).values()))["overall"]
    with pytest.raises(ValueError, match=r"Two printed cells match .*A match must be the only one"):
        index([row, row | change])


def test_another_set_in_the_reduced_form_has_no_number():
    """Table 8 in miniature trains on CIFAR-10-LT, which the paper's table has not."""
    assert not any(printed_cells(cell, arm) for cell, arm in arms_of("table_08", "cpu").values())
    assert not any(printed_cells(cell, arm) for cell, arm in arms_of("ablations", "cpu").values())
    assert printed_cells(*arms_of("table_14", "cpu")["fedavg, alpha 0.3", "baseline"])


@pytest.mark.parametrize("table", tables())
@pytest.mark.parametrize("preset", PRESETS)
def test_arms_say_what_the_paper_calls_them_only_where_a_table_is_named(table, preset):
    named = "printed" in read_table(table, preset)
    for _, arm in arms_of(table, preset).values():
        assert named or "printed" not in arm


def figures(level):
    return {name: np.array([level, level + 0.02]) for name in FIGURES.values()} | {"seeds": [0, 1]}


def test_levels_and_gains_stand_side_by_side():
    cell = next(cell for cell in cells("table_14", "cpu") if cell.key == "climb, alpha 0.3")
    page = beside_the_paper(14, [(cell, {"baseline": figures(0.6), "+ FedReLa": figures(0.65)})])
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| climb")]
    cells_of = {(row[1], row[2]): [part.strip(" |") for part in row[3:]] for row in rows}
    assert cells_of["baseline", "overall"][:3] == ["81.42?", "61.0", "-20.4"]
    # 84.56 - 81.42 printed, 0.05 here
    assert cells_of["+ FedReLa", "overall"] == ["84.56?", "66.0", "-18.6", "+3.14", "+5.0", "+1.9"]
    assert "Table 1 prints 82.02 for this cell" in page
    arm = next(arm for arm in cell.arms if arm["name"] == "+ FedReLa")
    assert printed_gain(cell, arm, "overall") == "+3.14?"
    assert printed_gain(replace(cell, settings={}), arm, "overall") == ""


def test_the_best_round_of_a_run_is_compared_with_the_best_round():
    cell = next(
        cell for cell in cells("table_13", "full") if "cifar10," not in cell.key and "cifar10" in cell.key
    )
    arms = {"baseline": figures(0.4), "refresh 1": figures(0.5) | {"best": np.array([0.6, 0.62])}}
    page = beside_the_paper(13, [(cell, arms)])
    row = next(line for line in page.splitlines() if "refresh 1" in line)
    assert "overall, best | 48.53 | 61.0 | +12.5 | +5.65 | +20.0" in row
