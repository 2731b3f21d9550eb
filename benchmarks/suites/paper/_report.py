"""The Markdown page of one table: every arm with the spread over seeds, and paper | here | difference."""

import numpy as np

from benchmarks.suites._commits import made_by
from benchmarks.suites._markdown import table as markdown
from benchmarks.suites._stability import refused
from benchmarks.suites.paper._beside import beside_the_paper, paired
from benchmarks.suites.paper._settings import cells, read_table
from fedrela_sk.metrics import majority_minority_split, shot_split

SHOTS = ("head", "medium", "tail")
GROUPS = {"step": ("majority", "minority"), "tail": SHOTS, "none": SHOTS}
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
{STILL_MOVING} points over its last {LAST_ROUNDS} rounds (the mean over seeds is printed)."""


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
        f"Made by `python -m benchmarks.run paper --table {name} --preset {preset}`. {_facts(done, shown)}\n",
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
    columns += ["last five", "gain, last five", "adjusted", "best round"]
    parts.append(markdown(columns, [row for cell in shown for row in _rows(cell, done, cut)]))
    if "printed" in settings:
        found = [(cell, _figures_of_arms(cell, done, cut)) for cell in shown]
        parts.append(beside_the_paper(settings["printed"], found))
    path.write_text("\n".join(parts), encoding="utf-8")


def _facts(done, shown):
    machines = {tuple(machine.items()) for line in done.values() for machine in line["machines"]}
    seeds = sorted({seed for _, seed in done})
    facts = "; ".join(", ".join(f"{name} {value}" for name, value in machine) for machine in sorted(machines))
    minutes = sum(line["minutes"] for line in done.values())
    spent = f"{minutes:.0f} minutes of one core in all, which others used as well"
    keys = {cell.key for cell in shown}
    arms = [arm for (key, _), line in done.items() if key in keys for arm in line["arms"]]
    return f"Seeds {', '.join(map(str, seeds))}; {spent}; {facts}. {made_by(arms)}"


def _setting(settings):
    """The settings in one paragraph."""
    sections = ("data", "federation", "net", "relabel")
    return ". ".join(
        f"**{section}**: " + ", ".join(f"{key} {value}" for key, value in settings[section].items())
        for section in sections
    )


def _figures_of_arms(cell, done, cut):
    """{arm: its figures} of a cell, without the arms that were not run or diverged with every seed."""
    lines = [done[key] for key in sorted(done) if key[0] == cell.key]
    found = {arm["name"]: arm_figures(lines, arm["name"], cut) for arm in cell.arms}
    return {name: figures for name, figures in found.items() if figures is not None}


def _rows(cell, done, cut):
    """The rows of one cell, its baseline first."""
    found = _figures_of_arms(cell, done, cut)
    if "baseline" not in found:
        return [[f"{cell.key}, **diverged** with every seed", *[""] * (len(GROUPS[cut]) + 11)]]
    why = next(
        filter(None, (refused(line.get("moved")) for key, line in done.items() if key[0] == cell.key)), None
    )
    if why:
        return [[f"{cell.key}, **{why}**", *[""] * (len(GROUPS[cut]) + 11)]]
    base = found["baseline"]
    title = _title(cell, base, sum(key == cell.key for key, _ in done))
    return [
        [title if name == "baseline" else "", name, *_cells(figures, base, name, cut)]
        for name, figures in found.items()
    ]


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
    return paired(figures, base, name)


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
