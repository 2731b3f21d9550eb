"""The Markdown page of one table: paper | ours | difference for every arm, with the spread over seeds."""

import csv
from functools import cache
from pathlib import Path

import numpy as np

from benchmarks.suites._markdown import table as markdown
from benchmarks.suites.paper._settings import cells, read_table
from fedrela_sk.metrics import majority_minority_split, shot_split

NUMBERS = Path(__file__).parents[2] / "paper"
SHOTS = ("head", "medium", "tail")
GROUPS = {"step": ("majority", "minority"), "tail": SHOTS, "none": SHOTS}
SETS = {"fashion_mnist": ("Fashion-MNIST", 10), "cifar10": ("CIFAR-10", 10), "cifar100": ("CIFAR-100", 100)}
LAST_ROUNDS = 10
LAST_MEAN = 5  # rounds, since one alone is noisy
STILL_MOVING = 0.5  # points over the last rounds

LEGEND = f"""Per cent of a balanced test set at the **last** round, mean ± standard deviation over seeds. Gains are
paired by seed, over the seeds with which neither diverged: both arms share all rounds up to the relabel round. The
gap is the recall of the largest classes less that of the smallest. *Last five* is the mean accuracy of the last
{LAST_MEAN} rounds, since a single round is noisy. *Adjusted* is the overall accuracy of the same model when its
posteriors are divided by the class shares of all training rows before the largest is taken: no training, but the
global counts. *Best round* is the largest accuracy of any round on the test set, the released code's rule, for
comparison with printed numbers only. **Not converged**: the baseline still moved, up or down, by more than
{STILL_MOVING} points over its last {LAST_ROUNDS} rounds (the mean over seeds is printed). *Paper* is the printed
overall accuracy where we could read it (`benchmarks/paper`; "?": doubtful), *difference* is ours less the paper's."""


def write_report(path, name, preset, done):
    """Write the page of a table.

    Parameters
    ----------
    path : Path
    name, preset : str
    done : dict
        (cell, seed) to its line.
    """
    settings = read_table(name, preset)
    shown = [cell for cell in cells(name, preset) if any(key == cell.key for key, _ in done)]
    parts = [
        f"# {settings['title']}\n",
        f"Made by `python -m benchmarks.run paper --table {name} --preset {preset}`. {_facts(done)}\n",
        f"{_setting(settings)}\n",
        f"{LEGEND}\n",
    ]
    cut = settings["data"]["cut"]
    columns = [
        "cell",
        "arm",
        "overall",
        "gain",
        *GROUPS[cut],
        "gain, smallest",
        "gap",
        "relabelled",
        "left out",
    ]
    columns += ["last five", "gain, last five", "adjusted", "best round", "paper", "difference"]
    rows = [row for cell in shown for row in _rows(cell, done, cut, settings["numbers"])]
    parts.append(markdown(columns, rows))
    path.write_text("\n".join(parts), encoding="utf-8")


def _facts(done):
    machines = {tuple(line["machine"].items()) for line in done.values()}
    seeds = sorted({seed for _, seed in done})
    facts = "; ".join(", ".join(f"{name} {value}" for name, value in machine) for machine in sorted(machines))
    minutes = sum(line["minutes"] for line in done.values())
    spent = f"{minutes:.0f} minutes of one core in all, which others used as well"
    return f"Seeds {', '.join(map(str, seeds))}; {spent}; {facts}."


def _setting(settings):
    """The settings in one paragraph."""
    sections = ("data", "federation", "net", "relabel")
    return ". ".join(
        f"**{section}**: " + ", ".join(f"{key} {value}" for key, value in settings[section].items())
        for section in sections
    )


def _rows(cell, done, cut, numbers):
    """The rows of one cell, its baseline first."""
    lines = [done[key] for key in sorted(done) if key[0] == cell.key]
    base = arm_figures(lines, "baseline", cut)
    if base is None:
        return [[f"{cell.key}, **diverged** with every seed", *[""] * (len(GROUPS[cut]) + 13)]]
    found = []
    for arm in cell.arms:
        figures = arm_figures(lines, arm["name"], cut)
        if figures is None:
            continue
        first = [_title(cell, base, len(lines))] if arm["name"] == "baseline" else [""]
        found.append(
            [
                *first,
                arm["name"],
                *_cells(figures, base, arm["name"], cut),
                *_paper(cell, arm, figures, numbers),
            ]
        )
    return found


def _title(cell, base, n_seeds):
    moved = 100 * float(np.mean(np.abs(base["moved"])))  # up with one seed and down with another is no rest
    mark = f", **not converged** ({moved:.1f})" if moved > STILL_MOVING else ""
    return f"{cell.key}{mark}" + (f", {n_seeds} seed{'s' if n_seeds > 1 else ''}" if n_seeds != 3 else "")


def arm_figures(lines, name, cut):
    """Arrays over seeds of one arm; None if it was not run or diverged with every seed."""
    runs = {
        line["seed"]: arm for line in lines for arm in line["arms"] if arm["arm"] == name and "recall" in arm
    }
    if not runs:
        return None
    groups = {seed: group_recalls(run, cut) for seed, run in runs.items()}
    accuracy = {seed: np.array(run["accuracy"]) for seed, run in runs.items()}
    return {
        "seeds": list(runs),
        "overall": np.array([np.mean(run["recall"]) for run in runs.values()]),
        "adjusted": np.array([np.mean(run["recall_adjusted"]) for run in runs.values()]),
        "last": np.array([scores[-LAST_MEAN:].mean() for scores in accuracy.values()]),
        "best": np.array([scores.max() for scores in accuracy.values()]),
        "moved": np.array([scores[-1] - scores[-1 - LAST_ROUNDS] for scores in accuracy.values()]),
        "relabeled": np.array([run["relabeled"] / sum(run["counts"]) for run in runs.values()]),
        "dropped": np.array([run["dropped"] / sum(run["counts"]) for run in runs.values()]),
        "diverged": sum(arm["arm"] == name and "diverged" in arm for line in lines for arm in line["arms"]),
    } | {group: np.array([own[group] for own in groups.values()]) for group in GROUPS[cut]}


def group_recalls(run, cut):
    """Mean recall of each group of classes, by the true training counts."""
    split = majority_minority_split if cut == "step" else shot_split
    names = split(run["counts"])
    recall = np.array(run["recall"])
    members = {group: recall[names == group] for group in GROUPS[cut]}
    return {group: float(own.mean()) if len(own) else float("nan") for group, own in members.items()}


def gains(figures, base, name):
    """Differences to the baseline over the seeds that both have."""
    both = [seed for seed in figures["seeds"] if seed in base["seeds"]]
    pick = lambda arm: np.array([arm[name][arm["seeds"].index(seed)] for seed in both])  # noqa: E731
    return pick(figures) - pick(base)


def _cells(figures, base, name, cut):
    groups = GROUPS[cut]
    gap = figures[groups[0]] - figures[groups[-1]]
    is_base = name == "baseline"
    mark = f" (diverged with {figures['diverged']})" if figures["diverged"] else ""
    return [
        _spread(figures["overall"]) + mark,
        "" if is_base else _spread(gains(figures, base, "overall"), "+"),
        *(_mean(figures[group]) for group in groups),
        "" if is_base else _spread(gains(figures, base, groups[-1]), "+"),
        _mean(gap),
        _mean(figures["relabeled"]) + " %",
        _mean(figures["dropped"]) + " %",
        _mean(figures["last"]),
        "" if is_base else _spread(gains(figures, base, "last"), "+"),
        _spread(figures["adjusted"]),
        _mean(figures["best"]),
    ]


def _mean(values, sign=""):
    return f"{100 * np.mean(values):{sign}.1f}"


def _spread(values, sign=""):
    spread = f" ± {100 * np.std(values, ddof=1):.1f}" if len(values) > 1 else ""
    return _mean(values, sign) + spread


def _paper(cell, arm, figures, numbers):
    """The printed overall accuracy and our distance, empty where we could not read it."""
    wanted = {"baseline": "baseline", "+ FedReLa": "FedReLa"}.get(arm["name"])
    for row in (row for name in numbers for row in paper_rows(name)):
        same = (
            row["method"].lower() == cell.values["method"]
            and row["arm"] == wanted
            and row["metric"] == "overall"
        )
        place = row["setting"] + ","
        if same and f"alpha {cell.values['alpha']}," in place and _same_cut(cell, row):
            ours, value = 100 * figures["overall"].mean(), float(row["value"])
            return [f"{value:.2f}" + ("?" if row["doubt"] else ""), f"{ours - value:+.1f}"]
    return ["", ""]


def _same_cut(cell, row):
    """Whether a printed row is of the data set and the cut of a cell."""
    data, place = cell.settings["data"], f"{row['setting']},"
    name, n_classes = SETS.get(data["name"], ("", 1))
    if data["cut"] == "tail":
        return row["dataset"] == f"{name}-LT" and f"IF {data['amount']}," in place
    if data["cut"] != "step":
        return False
    minority = data["minority"]
    share = minority if isinstance(minority, float) else len(minority) / n_classes
    return row["dataset"] == name and f"step {share:.0%}, IR {data['amount']}," in place.replace(" %", "%")


@cache
def paper_rows(name):
    """The rows of one file of printed numbers; none where there is no file."""
    path = NUMBERS / f"{name}.csv"
    if not path.exists():
        return []
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))
