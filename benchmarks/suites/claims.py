"""Measured figures for the paper's statements: ``python -m benchmarks.run claims``.

Reads the finished runs of the `paper` suite, runs nothing but partitions of labels, and writes
``benchmarks/results/claims.md``. What follows from the figures is said in ``docs/evidence.md``.
"""

import argparse
from pathlib import Path

import numpy as np

from benchmarks.suites import paper
from benchmarks.suites._commits import made_by
from benchmarks.suites._markdown import table
from benchmarks.suites.paper._printed import printed_cells
from benchmarks.suites.paper._report import GROUPS, arm_figures, gains
from benchmarks.suites.paper._settings import cells, read_table, tables
from fedrela_sk import DirichletSplit
from fedrela_sk.imbalance import long_tailed_counts
from fedrela_sk.metrics import shot_split

RESULTS = Path(__file__).parents[1] / "results"
ARMS = ("+ FedReLa", "+ FedReLa, late clients at their next round", "tau 5 %")  # as the paper recommends


def main(arguments=None):
    argparse.ArgumentParser(prog="python -m benchmarks.run claims", description=__doc__).parse_args(arguments)
    text = "\n".join(
        [
            "# Figures for the paper's statements\n",
            "Made by `python -m benchmarks.run claims` from the runs in `benchmarks/results/paper`, preset cpu. "
            f"What follows from them: `docs/evidence.md`. {_commits()}\n",
            *(f"## {title}\n\n{make()}" for title, make in SECTIONS.items()),
        ]
    )
    (RESULTS / "claims.md").write_text(text, encoding="utf-8")
    print(text)


def _commits():
    return made_by(arm for _, lines, _ in finished() for line in lines for arm in line["arms"])


def finished():
    """(cell, its lines, its cut) of every cell that has runs."""
    for name in tables():
        done = paper.read(name, "cpu")
        cut = read_table(name, "cpu")["data"]["cut"]
        for cell in cells(name, "cpu"):
            lines = [done[key] for key in sorted(done) if key[0] == cell.key]
            if lines:
                yield cell, lines, cut


def traffic():
    """Bytes of arms that relabelled, against their baseline's."""
    same = other = 0
    for _, lines, _ in finished():
        for line in lines:
            runs = {arm["arm"]: arm for arm in line["arms"] if "bytes" in arm}
            if "baseline" not in runs:  # it diverged
                continue
            base = runs["baseline"]["bytes"]
            equal = [run["bytes"] == base for run in runs.values() if run["relabeled"]]
            same, other = same + sum(equal), other + len(equal) - sum(equal)
    return f"Runs with relabelling whose traffic is their baseline's to the byte: {same}; others: {other}.\n"


def empty_cells(n_clients=40, seeds=range(10)):
    """Share of (client, tail class) pairs without a row, CIFAR-10-LT's class sizes."""
    rows = []
    for factor in (50, 100):
        counts = long_tailed_counts(10, imbalance_factor=factor, n_max=5000)
        y, tail = np.repeat(np.arange(10), counts), shot_split(counts) == "tail"
        for alpha in (0.1, 0.3, 10):
            shares = [
                _empty_share(y, tail, DirichletSplit(n_clients, alpha, random_state=seed)) for seed in seeds
            ]
            rows.append(
                [
                    str(factor),
                    str(alpha),
                    f"{100 * np.mean(shares):.1f} %",
                    f"{100 * np.std(shares, ddof=1):.1f}",
                ]
            )
    return table(["IF", "alpha", "empty (client, tail class) pairs", "± over 10 seeds"], rows)


def _empty_share(y, tail, splitter):
    counts = [
        np.bincount(y[test], minlength=len(tail)) for _, test in splitter.split(np.zeros((len(y), 1)), y)
    ]
    counts += [np.zeros(len(tail), dtype=int)] * splitter.n_empty_
    return np.mean(np.array(counts)[:, tail] == 0)


def shares_relabelled():
    """Rows relabelled by tau: of all rows, and of the rows of single clients."""
    rows = []
    for cell, lines, _ in finished():
        for arm in cell.arms:
            runs = [
                run for line in lines for run in line["arms"] if run["arm"] == arm["name"] and "flows" in run
            ]
            if cell.table != "ablations" or not arm["name"].startswith("tau") or not runs:
                continue
            sizes = np.concatenate([run["client_sizes"] for run in runs])
            own = np.concatenate([run["relabeled_by_client"] for run in runs])
            share = own[sizes > 0] / sizes[sizes > 0]
            tau = float(arm["name"].split()[1])
            over = f"{(100 * share > tau).mean():.0%} of the clients"
            shown = [f"{100 * own.sum() / sizes.sum():.2f} %", f"{100 * share.max():.1f} %", over]
            rows.append([cell.key, arm["name"], *shown])
    return table(["cell", "arm", "of all rows", "most at one client", "clients above tau"], rows)


def recommended():
    """Gains of the arms with the paper's recommended settings, beside the paper's: overall, smallest classes, gap."""
    rows = []
    for cell, lines, cut in finished():
        base = arm_figures(lines, "baseline", cut)
        for arm in cell.arms:
            figures = arm_figures(lines, arm["name"], cut)
            if arm["name"] not in ARMS or figures is None or base is None or "fair" in cell.table:
                continue
            first, last = GROUPS[cut][0], GROUPS[cut][-1]
            gap, before = (own[first].mean() - own[last].mean() for own in (figures, base))
            row = [cell.table, cell.key]
            for name in ("overall", last):
                row += [_points(gains(figures, base, name)), printed_gain(cell, arm, name)]
            rows.append([*row, f"{100 * before:.1f} → {100 * gap:.1f}", _fall(before, gap)])
    columns = [
        "table",
        "cell",
        "overall",
        "the paper's",
        "smallest classes",
        "the paper's",
        "gap",
        "gap falls by",
    ]
    return table(columns, rows)


def printed_gain(cell, arm, metric):
    """The gain that the paper prints for a cell, as text, with "?" if it is doubtful; empty where it prints none."""
    base = next(own for own in cell.arms if own["name"] == "baseline")
    found = [printed_cells(cell, own).get(metric) for own in (arm, base)]
    if None in found:
        return ""
    after, before = (float(row["mean"]) for row in found)
    return f"{after - before:+.2f}" + (
        "?" if any(row["note"].startswith("doubtful") for row in found) else ""
    )


def _fall(before, after):
    """By how much of itself a gap becomes smaller, whichever group is ahead."""
    return f"{100 * (1 - abs(after) / abs(before)):+.0f} %"


def _points(values):
    return f"{100 * values.mean():+.1f} ({', '.join(f'{100 * value:+.1f}' for value in values)})"


SECTIONS = {
    "Traffic": traffic,
    "Empty cells": empty_cells,
    "Rows relabelled": shares_relabelled,
    "Gains at tau 5 %, mean (each seed), points, and the paper's": recommended,
}
