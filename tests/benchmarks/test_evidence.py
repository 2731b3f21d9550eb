"""The figures of ``docs/evidence.md`` are those of the committed runs."""

import re
from pathlib import Path

import pytest

from benchmarks.suites import claims, paper
from benchmarks.suites.paper._printed import printed_cells
from benchmarks.suites.paper._report import GROUPS, arm_figures, gains, write_report
from benchmarks.suites.paper._settings import cells, read_table

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
PAGE = (Path(__file__).parents[2] / "docs" / "evidence.md").read_text(encoding="utf-8")
SCREEN = {
    "step-wise Fashion-MNIST, FedAvg, alpha 0.1": ("table_14", "fedavg, alpha 0.1", "+ FedReLa"),
    "the same, alpha 0.3": ("table_14", "fedavg, alpha 0.3", "+ FedReLa"),
    "the same, alpha 10": ("table_14", "fedavg, alpha 10", "+ FedReLa"),
    "long-tailed Fashion-MNIST, FedAvg, alpha 0.3": ("ablations", "fedavg, alpha 0.3", "tau 5 %"),
    "the same, FedETF": ("ablations", "fedetf, alpha 0.3", "tau 5 %"),
    "the same, FedLoGe by its fixed head": ("table_02", "fedloge, alpha 0.3, heads sparse", "+ FedReLa"),
}

ALPHAS = (0.1, 0.3, 10)
SEVERAL = {
    "the same, FedNova at alpha 0.1, 10": ("table_14", ["fednova, alpha 0.1", "fednova, alpha 10"]),
    "the same, FedProx, FedNova, MOON, CLIMB at 0.3": (
        "table_14",
        [f"{name}, alpha 0.3" for name in ("fedprox", "fednova", "moon", "climb")],
    ),
    "long-tailed CIFAR-10, FedETF": ("table_02", [f"fedetf, alpha {alpha}" for alpha in ALPHAS]),
    "long-tailed CIFAR-10, FedLoGe as its": ("table_02", [f"fedloge, alpha {alpha}" for alpha in ALPHAS]),
}
FAIR = [
    ("fair_ablation", "Long-tailed Fashion-MNIST, IF 100, 40 clients:", "The cell of Table 14:"),
    ("fair_ablation_step", "The cell of Table 14:", "Digits, 20 clients"),
    ("fair_ablation_small", "Digits, 20 clients", "- **Which rows counts"),
]


def figures(table, cell, arm):
    """(baseline, arm, name of the smallest classes) from the runs."""
    done, cut = paper.read(table, "cpu"), read_table(table, "cpu")["data"]["cut"]
    lines = [done[key] for key in sorted(done) if key[0] == cell]
    return arm_figures(lines, "baseline", cut), arm_figures(lines, arm, cut), GROUPS[cut][-1]


def row_of(start, text=PAGE):
    """The cells of the one row that begins like this."""
    (row,) = re.findall(rf"^\| {re.escape(start)}[^|]*\|(.*)\|$", text, flags=re.MULTILINE)
    return [cell.strip() for cell in row.split("|")]


def spread(values):
    return f"{100 * values.mean():+.1f} ± {100 * values.std(ddof=1):.1f}"


@pytest.mark.parametrize("title", SCREEN)
def test_the_screen_shows_what_was_run(title):
    base, arm, last = figures(*SCREEN[title])
    expected = []
    for group in ("overall", last):
        change = f"{100 * base[group].mean():.1f} → {100 * arm[group].mean():.1f}"
        expected += [change, spread(gains(arm, base, group))]
    assert row_of(title) == expected


@pytest.mark.parametrize("title", SEVERAL)
def test_rows_of_several_cells_show_what_was_run(title):
    table, keys = SEVERAL[title]
    found = [figures(table, key, "+ FedReLa") for key in keys]
    expected = []
    for group in ("overall", found[0][2]):
        expected.append(" / ".join(f"{100 * base[group].mean():.1f}" for base, _, _ in found))
        expected.append(" / ".join(spread(gains(arm, base, group)) for base, arm, _ in found))
    assert row_of(title) == expected


@pytest.mark.parametrize(("table", "start", "end"), FAIR)
def test_the_fair_ablation_shows_what_was_run(table, start, end):
    (cell,) = cells(table, "cpu")
    section = PAGE[PAGE.index(start) : PAGE.index(end)]
    arms = re.findall(r"^\| ([^|]+) \| [\d.]+ \|", section, flags=re.MULTILINE)
    assert arms == [arm["name"] for arm in cell.arms]
    for name in arms:
        base, arm, last = figures(table, cell.key, name)
        change = [
            spread(gains(arm, base, group)) if name != "baseline" else "" for group in ("overall", last)
        ]
        overall, rare = (f"{100 * arm[group].mean():.1f}" for group in ("overall", last))
        assert row_of(f"{name} ", section) == [overall, change[0], rare, change[1]], name


def test_levels_and_gains_stand_beside_the_papers():
    section = PAGE[PAGE.index("**Beside the paper**") : PAGE.index("Levels are far below")]
    shown = [
        [part.strip() for part in line.strip("|").split("|")]
        for line in section.splitlines()
        if line.startswith("| ") and "---" not in line
    ]
    expected = []
    for table in ("table_14", "table_02"):
        for cell in cells(table, "cpu"):
            expected += beside(table, cell)
    assert shown[1:] == expected


def beside(table, cell):
    """The two rows of a cell: paper, here, difference, of the level and of the gain."""
    base, arm, last = figures(table, cell.key, "+ FedReLa")
    places = {own["name"]: printed_cells(cell, own) for own in cell.arms}
    rows = []
    for group in ("overall", last):
        before, after = (places[name][group] for name in ("baseline", "+ FedReLa"))
        mark = "?" if before["note"].startswith("doubtful") else ""
        level, gain = float(before["mean"]), float(after["mean"]) - float(before["mean"])
        here, gained = 100 * base[group].mean(), 100 * gains(arm, base, group).mean()
        first = f"Table {cell.settings['printed']}, {cell.key}" if group == "overall" else ""
        rows.append(
            [
                *[first, group, before["mean"] + mark, f"{here:.1f}", f"{here - level:+.1f}"],
                *[f"{gain:+.2f}{mark}", f"{gained:+.1f}", f"{gained - gain:+.1f}"],
            ]
        )
    return rows


def test_the_number_of_runs_whose_traffic_was_compared():
    same = re.search(r"to the byte: (\d+); others: 0\.", (RESULTS / "claims.md").read_text(encoding="utf-8"))[
        1
    ]
    assert f"{same} of {same} runs that relabeled moved as many bytes" in PAGE


@pytest.mark.parametrize("path", sorted(paper.RESULTS.glob("*.jsonl")), ids=lambda path: path.stem)
def test_a_page_is_what_its_lines_give(path, tmp_path):
    table, preset = path.stem.rsplit(".", 1)
    write_report(tmp_path / "page.md", table, preset, paper.read(table, preset))
    page = path.with_suffix(".md").read_text(encoding="utf-8")
    assert page.split("\n![")[0] == (tmp_path / "page.md").read_text(encoding="utf-8")


def test_the_page_of_claims_is_what_the_lines_give(tmp_path, monkeypatch):
    monkeypatch.setattr(claims, "RESULTS", tmp_path)
    claims.main([])
    assert (tmp_path / "claims.md").read_text() == (RESULTS / "claims.md").read_text()


PAGES = sorted(RESULTS.rglob("*.md"))


@pytest.mark.parametrize("path", [*PAGES, RESULTS / "auto_table.csv"], ids=lambda path: path.name)
def test_a_page_names_the_commits_of_its_figures(path):
    head = path.read_text(encoding="utf-8")[:3000]
    assert re.search(r"\bcommits?\b.{0,3} [0-9a-f]{7,10}\b", head)
    assert "unknown" not in head


def test_adjusted_posteriors_are_better_in_every_cell_of_table_14():
    cells = {cell for cell, _ in paper.read("table_14", "cpu")}
    better = 0
    for cell in cells:
        base, arm, _ = figures("table_14", cell, "+ FedReLa")
        better += base["adjusted"].mean() > arm["overall"].mean()
    assert f"It was better in {better} of {len(cells)} cells" in " ".join(PAGE.split())
