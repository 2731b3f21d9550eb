"""Paper, here, difference: the levels and the gains of every arm that the paper prints a number for."""

import numpy as np

from benchmarks.suites._markdown import table as markdown
from benchmarks.suites.paper._printed import BASELINE, printed_cells

# printed metric -> figure of an arm
FIGURES = {name: name for name in ("overall", "majority", "minority", "head", "medium", "tail")}
FIGURES |= {"overall_best": "best"}
SAID = """Per cent and points; *difference* is here less the paper's. Set, imbalance, number and share of clients,
alpha, method and arm are the same; what the runs here reduce, and what the paper does not say (net, rate, batch size,
local epochs), differs. A gain is that over the baseline of the same table; the paper's is the difference of two
printed cells."""


def beside_the_paper(number, found):
    """The section of a page.

    Parameters
    ----------
    number : int
        Of the paper's table.
    found : list of (Cell, dict)
        Each cell with the figures of its arms.
    """
    head = f"## Beside the paper, Table {number}\n"
    rows, doubts = [], {}
    for cell, arms in found:
        own, noted = _rows(cell, arms)
        rows += own
        doubts |= noted
    if not rows:
        return f"{head}\nThe paper prints no number for these cells.\n"
    columns = ["cell", "arm", "figure", "paper", "here", "difference"]
    columns += ["gain, paper", "gain, here", "difference of gains"]
    notes = [f'- "?" {where}: {note}\n' for where, note in doubts.items()]
    return "\n".join([head, f"{SAID}\n", markdown(columns, rows), "".join(notes)]).rstrip() + "\n"


def _rows(cell, arms):
    """The rows of one cell, and {which number: why it is doubtful}."""
    rows, doubts = [], {}
    base = _of_baseline(cell)
    for arm in cell.arms:
        if arm["name"] not in arms:
            continue
        found = printed_cells(cell, arm)
        for metric in (name for name in FIGURES if name in found):
            row = found[metric]
            mark = row["note"].startswith(("doubtful", "ambiguous"))
            if mark:
                doubts[f"{cell.key}, {arm['name']}, {metric}"] = row["note"]
            rows.append(
                [
                    *[cell.key, arm["name"], metric.replace("_", ", ")],
                    *_levels(arms[arm["name"]][FIGURES[metric]], row["mean"], "?" if mark else ""),
                    *_gains(arms, arm, metric, float(row["mean"]), base),
                ]
            )
    return rows, doubts


def _of_baseline(cell):
    """{metric: number} that the paper prints for the baseline of a cell."""
    arm = next(arm for arm in cell.arms if arm["name"] == "baseline")
    return {metric: float(row["mean"]) for metric, row in printed_cells(cell, arm).items()}


def _levels(values, printed, mark):
    here = 100 * np.mean(values)
    return [printed + mark, f"{here:.1f}", f"{here - float(printed):+.1f}"]


def _gains(arms, arm, metric, printed, base):
    """The gain printed, ours over the same seeds, and their difference; empty for a baseline."""
    name = "overall" if metric == "overall_best" else metric
    if arm["printed"] == BASELINE or name not in base or "baseline" not in arms:
        return ["", "", ""]
    paper = printed - base[name]
    ours = 100 * paired(arms[arm["name"]], arms["baseline"], FIGURES[metric], FIGURES[name]).mean()
    return [f"{paper:+.2f}", f"{ours:+.1f}", f"{ours - paper:+.1f}"]


def paired(figures, base, name, base_name=None):
    """Differences to the baseline over the seeds that both have."""
    both = [seed for seed in figures["seeds"] if seed in base["seeds"]]
    own, other = (
        np.array([arm[key][arm["seeds"].index(seed)] for seed in both])
        for arm, key in ((figures, name), (base, base_name or name))
    )
    return own - other
