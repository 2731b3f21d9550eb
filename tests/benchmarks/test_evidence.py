"""The figures of ``docs/evidence.md`` are those of the committed runs."""

import re
from pathlib import Path

import pytest

from benchmarks.suites import paper
from benchmarks.suites.paper._report import GROUPS, arm_figures, gains
from benchmarks.suites.paper._settings import read_table

PAGE = (Path(__file__).parents[2] / "docs" / "evidence.md").read_text(encoding="utf-8")
SCREEN = {
    "step-wise Fashion-MNIST, FedAvg, alpha 0.1": ("table_14", "fedavg, alpha 0.1", "+ FedReLa"),
    "the same, alpha 0.3": ("table_14", "fedavg, alpha 0.3", "+ FedReLa"),
    "the same, alpha 10": ("table_14", "fedavg, alpha 10", "+ FedReLa"),
    "long-tailed Fashion-MNIST, FedAvg, alpha 0.3": ("ablations", "fedavg, alpha 0.3", "tau 5 %"),
    "the same, FedETF": ("ablations", "fedetf, alpha 0.3", "tau 5 %"),
    "the same, FedLoGe by its fixed head": ("table_02", "fedloge, alpha 0.3, heads sparse", "+ FedReLa"),
}


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


def test_the_fair_ablation_shows_what_was_run():
    cell = "fedavg, alpha 0.3, cut tail, amount 100"
    section = PAGE[PAGE.index("## The fair ablation") : PAGE.index("## Which images")]
    arms = re.findall(r"^\| ([^|]+) \| [\d.]+ \|", section, flags=re.MULTILINE)
    assert len(arms) == 8
    for name in arms:
        base, arm, _ = figures("fair_ablation", cell, name)
        change = [
            spread(gains(arm, base, group)) if name != "baseline" else "" for group in ("overall", "tail")
        ]
        overall, tail = (f"{100 * arm[group].mean():.1f}" for group in ("overall", "tail"))
        assert row_of(f"{name} ", section) == [overall, change[0], tail, change[1]], name


def test_adjusted_posteriors_are_better_in_every_cell_of_table_14():
    cells = {cell for cell, _ in paper.read("table_14", "cpu")}
    better = 0
    for cell in cells:
        base, arm, _ = figures("table_14", cell, "+ FedReLa")
        better += base["adjusted"].mean() > arm["overall"].mean()
    assert f"It was better in {better} of {len(cells)} cells" in " ".join(PAGE.split())
