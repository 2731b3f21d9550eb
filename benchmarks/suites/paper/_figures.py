"""Figure 3: accuracy and rows relabelled over tau."""

import re

import numpy as np

from benchmarks.suites.paper._report import GROUPS, arm_figures

TAU_ARM = re.compile(r"tau (\d+) %")


def draw_tau_curves(path, shown, done, cut):
    """One panel of accuracies and one of relabelled rows, a colour a cell.

    Parameters
    ----------
    path : Path
        Of the PNG file.
    shown : list of Cell
        Those without arms "tau ... %" are left out.
    done : dict
        (cell, seed) to its line.
    cut : {"step", "tail"}
    """
    import matplotlib.pyplot as plt

    figure, (scores, rows) = plt.subplots(1, 2, figsize=(11, 3.8), layout="constrained")
    for number, cell in enumerate(shown):
        curve = _curve(cell, done, cut)
        if len(curve["tau"]) < 2:
            continue
        color = f"C{number}"
        for name, style in (("overall", "-"), (GROUPS[cut][0], "--"), (GROUPS[cut][-1], ":")):
            scores.errorbar(
                curve["tau"], curve[name], curve[name + " spread"], color=color, linestyle=style, capsize=2,
                label=f"{cell.values['method']}, {name}",
            )  # fmt: skip
        rows.errorbar(curve["tau"], curve["relabeled"], curve["relabeled spread"], color=color, capsize=2)
    scores.set(xlabel="tau, %", ylabel="accuracy at the last round, %")
    rows.set(xlabel="tau, %", ylabel="rows relabelled, % of all")
    figure.legend(*scores.get_legend_handles_labels(), loc="outside right center", fontsize=8)
    figure.savefig(path, dpi=100)
    plt.close(figure)


def _curve(cell, done, cut):
    """Means and spreads over seeds for each tau, tau = 0 being the baseline; per cent."""
    lines = [done[key] for key in sorted(done) if key[0] == cell.key]
    found = {}
    for arm in cell.arms:
        match = TAU_ARM.fullmatch(arm["name"])
        figures = arm_figures(lines, arm["name"], cut) if match or arm["name"] == "baseline" else None
        if figures is not None:
            found[int(match[1]) if match else 0] = figures
    curve = {"tau": sorted(found)}
    for name in ("overall", *GROUPS[cut], "relabeled"):
        values = [100 * found[tau][name] for tau in curve["tau"]]
        curve[name] = [float(np.mean(value)) for value in values]
        curve[name + " spread"] = [
            float(np.std(value, ddof=1)) if len(value) > 1 else 0.0 for value in values
        ]
    return curve
