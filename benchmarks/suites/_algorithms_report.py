"""The table of the `algorithms` suite from its raw figures."""

import numpy as np

from benchmarks.suites._commits import made_by
from benchmarks.suites._markdown import table
from benchmarks.suites._stability import MOST, MOVE, refused

COLUMNS = [
    *["group", "row", "", "overall", "balanced", "±", "head", "medium", "tail", "AUC", "own"],
    *["relabelled", "bytes", "s", "engine"],
]
TITLES = {
    "digits": "Digits, long tail of 1 / 20, 20 clients at alpha 0.3, 60 rounds of 5 epochs",
    "loans": "Loans by state, 5 % bad, 50 clients, 40 rounds of 2 epochs",
}


def write_report(path, rows, done, facts):
    """Write ``algorithms.md``.

    Parameters
    ----------
    path : Path
    rows : list of Row
    done : dict
        (job, row, seed) to the figures of its two runs.
    facts : dict
        Versions and hardware.
    """
    seeds = {seed for *_, seed in done}
    tau = max(run["tau"] for line in done.values() for run in line["runs"])
    parts = [
        "# Every method, plain and with FedReLa\n",
        "Made by `python -m benchmarks.run algorithms`: "
        + ", ".join(f"{name} {value}" for name, value in facts.items() if name != "processor")
        + f". Processors: {_by(done, 'processor')}. {made_by(done.values())}\n",
        f"Mean over {len(seeds)} seeds of the last round, per cent; ± is the standard deviation of balanced "
        "accuracy. The same net (MLP 64-32; LDAM's has one hidden layer of 64 and a head of cosines), rate, batch "
        "and epochs for every row, default strengths, nothing tuned: rows that need tuning look worse than they "
        "are, or diverge (means are then over the other seeds). Plain and + FedReLa "
        f"(tau {tau:g}, at 80 % of the rounds) share the rounds before. Bytes and seconds are those of one round, "
        "both ways and all clients together; seconds on a shared machine, medians. `own` is balanced accuracy with "
        "each row predicted by its own client's model. Figures are refused where a plain run's scores part by more "
        f"than {100 * MOST:.0f} points when its start weights move by {MOVE:g} (looked at with the first seed; rows "
        "that were run before this check are not marked).\n",
    ]
    for job, title in TITLES.items():
        parts.append(f"## {title}\n")
        parts.append(_table(job, rows, done))
        parts.append(_summary(job, rows, done))
    path.write_text("\n".join(parts), encoding="utf-8")


def _by(done, fact):
    """Which processor or commit made most rows, and which rows others; float32 figures differ by processor."""
    names = [line.get(fact, "unknown") for line in done.values()]
    rows = {name: {key[1] for key, one in zip(done, names, strict=True) if one == name} for name in names}
    most = max(rows, key=lambda name: len(rows[name]))
    others = [
        f"{name} for {', '.join(f'`{row}`' for row in sorted(rows[name]))}" for name in rows if name != most
    ]
    return "; ".join([most, *others])


def _figures(job, row, done, arm):
    """Figures of one row and arm over the seeds that did not diverge, name to array; None where it was not run."""
    runs = [done[key]["runs"][arm] for key in sorted(done) if key[:2] == (job, row.name)]
    if not runs:
        return None
    kept = [run for run in runs if "diverged" not in run]
    names = [name for name, value in kept[0].items() if isinstance(value, int | float)] if kept else []
    names = [name for name in names if all(name in run for run in kept)]
    figures = {name: np.array([run[name] for run in kept], dtype=float) for name in names}
    return figures | {"engine": kept[0]["engine"] if kept else "", "n_diverged": len(runs) - len(kept)}


def _refused(job, row, done):
    """Why a row's figures are not shown, None where they are."""
    moves = [line.get("moved") for key, line in done.items() if key[:2] == (job, row.name)]
    return next(filter(None, map(refused, moves)), None)


def _table(job, rows, done):
    lines = []
    for row in rows:
        for arm, name in enumerate(("plain", "+ FedReLa")):
            found = _figures(job, row, done, arm)
            if found is not None:
                why = _refused(job, row, done)
                found = {"n_diverged": 0} if why else found
                name = f"{name}, {why}" if why else name
                first = [row.group, f"`{row.name}`"] if arm == 0 else ["", ""]
                cells = [*first, *_cells(name, found, arm)]
                lines.append(cells + [""] * (len(COLUMNS) - len(cells)))
    return table(COLUMNS, lines)


def _cells(name, found, arm):
    """The cells of one arm, from its name on; seconds and engine once, the arms have the same rounds but the last."""
    if found["n_diverged"]:
        name += f", diverged with {found['n_diverged']} of the seeds"
    if "accuracy" not in found:
        return [name]
    balanced = found["balanced_accuracy"]
    cells = [
        name,
        _percent(found["accuracy"]),
        _percent(balanced),
        f"{100 * balanced.std(ddof=1):.1f}" if len(balanced) > 1 else "",
        *(_percent(found[shot]) for shot in ("head", "medium", "tail")),
        *(_percent(found[score]) if score in found else "" for score in ("auc", "own_balanced_accuracy")),
        f"{found['relabeled'].mean():.0f}",
        f"{found['bytes'].mean():,.0f}",
    ]
    return cells if arm else [*cells, f"{np.median(found['round_seconds']):.3f}", found["engine"]]


def _percent(values):
    known = values[~np.isnan(values)]
    return f"{100 * known.mean():.1f}" if len(known) else ""


def _summary(job, rows, done):
    """How FedReLa moved the rows, in a sentence."""
    gains = []
    for row in rows:
        arms = [_figures(job, row, done, arm) for arm in (0, 1)]
        if (
            row.group != "bounds"
            and not _refused(job, row, done)
            and all(arm and not arm["n_diverged"] for arm in arms)
        ):
            plain, relabeled = (arm["balanced_accuracy"] for arm in arms)
            gains.append((float((relabeled - plain).mean()), row.name))
    if not gains:
        return ""
    changes = np.array([gain for gain, _ in gains])
    up, down = (int((way * changes > 1e-9).sum()) for way in (1, -1))  # less is rounding
    (least, lowest), (most, highest) = min(gains), max(gains)
    return (
        f"With FedReLa balanced accuracy rose in {up} and fell in {down} of {len(gains)} federated rows. The mean of "
        f"all changes is {100 * changes.mean():+.1f} points, from {100 * least:+.1f} (`{lowest}`) to "
        f"{100 * most:+.1f} (`{highest}`).\n"
    )
