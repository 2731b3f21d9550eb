"""The paper's numbers, as they were typed in."""

import csv
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

PAPER = Path(__file__).parents[1] / "benchmarks" / "paper"
FILES = sorted(PAPER.glob("table_*.csv"))
COLUMNS = ["table", "row", "dataset", "setting", "method", "arm", "metric", "value", "source", "doubt"]
CELL = ("dataset", "setting", "method", "arm", "metric")
ACCURACIES = {"overall", "majority", "minority", "head", "medium", "tail"}
COUNTS = {"relabelled_per_client"}
# classes of CIFAR-10-LT in head, medium and tail
GROUPS = {"IF 50": (4, 3, 3), "IF 100": (3, 3, 4)}


def read(path):
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file, strict=True)
        return reader.fieldnames, list(reader)


CELLS = [cell for path in FILES for cell in read(path)[1]]


def printed_rows(table):
    """Cells of the printed rows of a table by metric, a row with all its cells at a time."""
    rows = defaultdict(dict)
    for cell in CELLS:
        if cell["table"] == table:
            rows[cell["row"], *(cell[name] for name in CELL[:-1])][cell["metric"]] = cell
    return rows


def values(row, *metrics):
    return [float(row[metric]["value"]) for metric in metrics]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_holds_the_cells_of_its_table(path):
    columns, cells = read(path)
    assert columns == COLUMNS
    assert cells
    for cell in cells:
        assert None not in cell
        assert path.stem == f"table_{int(cell['table']):02d}"
        assert all(cell[name] and cell[name] == cell[name].strip() for name in COLUMNS if name != "doubt")


def test_a_cell_is_typed_in_once():
    keys = [tuple(cell[name] for name in ("table", "row", *CELL)) for cell in CELLS]
    assert len(keys) > 0
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: f"{cell['table']}-{cell['value']}")
def test_a_value_is_a_percentage_or_a_count(cell):
    assert cell["metric"] in ACCURACIES | COUNTS
    assert cell["arm"] in {"baseline", "FedReLa", "unknown"}
    if cell["metric"] in COUNTS:
        assert int(cell["value"]) >= 0
    else:
        assert 0 < float(cell["value"]) < 100


def test_what_is_unknown_or_read_into_a_cell_is_marked_as_doubtful():
    for cell in CELLS:
        if "unknown" in cell.values():
            assert "not noted" in cell["doubt"]
        assert not cell["doubt"] or len(cell["doubt"].split()) > 3


def test_tables_that_differ_on_one_cell_say_so_in_each():
    printed = defaultdict(list)
    for cell in CELLS:
        printed[tuple(cell[name] for name in CELL)].append(cell)
    found = set()
    for cell in CELLS:
        same = printed[tuple(cell[name] for name in CELL)]
        others = {other["table"] for other in same if float(other["value"]) != float(cell["value"])}
        found |= {(cell["table"], other) for other in others}
        named = any(f"contradicts Table {other}" in cell["doubt"] for other in others)
        assert named == ("contradicts Table" in cell["doubt"]) == bool(others)
    assert {("1", "14"), ("2", "4"), ("2", "12")} <= found


def test_the_test_set_of_table_6_has_as_many_majority_as_minority_classes():
    rows = [row for row in printed_rows("6").values() if {"majority", "minority", "overall"} <= row.keys()]
    assert rows
    for row in rows:
        majority, minority, overall = values(row, "majority", "minority", "overall")
        is_mean = abs(overall - (majority + minority) / 2) <= 0.03
        assert is_mean != ("not the mean of Majority and Minority" in row["overall"]["doubt"])


@pytest.mark.parametrize("table", ["2", "12"])
def test_overall_is_the_mean_over_classes_of_a_long_tail(table):
    rows = {key: row for key, row in printed_rows(table).items() if key[1] == "CIFAR-10-LT" and len(row) == 4}
    assert rows
    for (_, _, setting, _, _), row in rows.items():
        sizes = GROUPS[setting.split(",")[0]]
        mean = np.average(values(row, "head", "medium", "tail"), weights=sizes)
        # the groups are rounded to 0.1, Overall to 0.1 or 0.01
        assert float(row["overall"]["value"]) == pytest.approx(mean, abs=0.1)


def test_more_labels_move_as_tau_rises_and_more_than_the_paper_says():
    cells = [cell for cell in CELLS if cell["table"] == "10" and cell["metric"] in COUNTS]
    tau = [int(cell["row"].split()[1]) for cell in cells]
    moved = [int(cell["value"]) for cell in cells]
    assert tau == [1, 3, 5, 7, 9, 15, 20]
    assert moved == sorted(set(moved))
    # CIFAR-100-LT with IF 50 has 12,608 training images, here at 10 clients
    assert moved[-1] < 1260.8
    assert moved[0] / 1260.8 == pytest.approx(0.04, abs=0.005)
    assert "contradicts the text" in cells[0]["doubt"]


def test_the_claims_name_their_place_and_source():
    columns, claims = read(PAPER / "claims.csv")
    assert columns == ["claim", "place", "source"]
    assert all(None not in claim and all(claim.values()) for claim in claims)
    assert len({claim["claim"] for claim in claims}) == len(claims) > 0


def test_every_file_is_in_the_readme():
    text = (PAPER / "README.md").read_text(encoding="utf-8")
    assert all(f"`{path.name}`" in text for path in PAPER.glob("*.csv"))
