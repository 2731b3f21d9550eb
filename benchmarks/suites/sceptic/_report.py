"""The page of tables, from the lines of JSON."""

import numpy as np

from benchmarks.suites._commits import made_by
from benchmarks.suites._markdown import table
from benchmarks.suites._stability import refused
from benchmarks.suites.sceptic._competitors import COMPETITORS, REFERENCE
from benchmarks.suites.sceptic._curves import knob_table
from benchmarks.suites.sceptic._intervals import paired_interval
from benchmarks.suites.sceptic._pairs import pair_tables
from benchmarks.suites.sceptic._settings import ALERT_COST, ALERTS, SAID

# figure -> title of its column, and by what it is multiplied
SCORES = {
    "balanced_accuracy": ("balanced accuracy", 100),
    "macro_f1": ("macro-F1", 100),
    "average_precision": ("average precision", 100),
    "brier": ("Brier", 1000),
    "brier_corrected": ("corrected", 1000),
}
MONEY = {
    "recall_at_alerts": (f"recall at {ALERTS} alerts a day", 100),
    "cost": ("cost", 100),
    "alerts_a_day": ("alerts a day", 1),
}
PAIRED = ("balanced_accuracy", "average_precision")
TITLES = {
    "loans": "Loans by state",
    "fars": "Road crashes by state",
    "payments": "Simulated payments by bank",
    "fraud": "Card fraud by region",
    "shuttle": "Shuttle",
    "page_blocks": "Page blocks",
    "kddcup": "KDD Cup 1999",
    "fraud_third": "Card fraud by region, a third of the frauds",
}


def write_report(path, head, facts, done):
    """Write ``sceptic.md``.

    Parameters
    ----------
    path : Path
    head : dict
        Versions and hardware.
    facts : dict of dict
        What is said of each set.
    done : dict
        (set, competitor, seed) to a line of results.
    """
    n_seeds = {len({key[2] for key in done if key[0] == set_}) for set_ in facts}
    parts = [
        "# FedReLa beside what a sceptic would try first\n",
        "Made by `python -m benchmarks.run sceptic`: "
        + ", ".join(f"{name} {value}" for name, value in head.items())
        + f". {made_by(done.values())} What it says is in [docs/sceptic.md](../../docs/sceptic.md).\n",
        _how_to_read(n_seeds),
        SAID + "\n",
        "## Pairs of rows\n",
        pair_tables(facts, done),
    ]
    for set_ in facts:
        parts += [f"## {TITLES[set_]}\n", _about(facts[set_]), _scores(set_, facts[set_], done)]
        parts += [_recalls(set_, facts[set_], done), knob_table(set_, done)]
    path.write_text("\n".join(part for part in parts if part), encoding="utf-8")


def _how_to_read(n_seeds):
    seeds = " to ".join(str(n) for n in sorted({min(n_seeds), max(n_seeds)}))
    return (
        f"Means over {seeds} seeds, per cent; Brier scores times 1000 (smaller is better; `corrected` is the Brier "
        "score of posteriors put back to the original classes: by class shares after balanced training, by "
        "`calibrate=True` for RelabelingClassifier, unchanged where training was plain, `–` where no correction is "
        "known). Average precision is that of the rare class, for more than two classes the macro mean, one "
        f'against the rest. "vs reference" is the difference to {COMPETITORS[REFERENCE].title} in points, with a '
        "paired 95 % interval over the seeds: above 0 means better than FedReLa. Where seeds cut the same rows "
        "anew its variance is that of Nadeau and Bengio (2003). Classes are as common in the test rows as in the "
        "data, but for the last set. Relabelled / rare: rows relabelled over rows of all classes but the most "
        f"common one. Cost: missed frauds plus {ALERT_COST:g} for each alert, per cent of the cost without any "
        "alert.\n"
    )


def _about(facts):
    classes = ", ".join(
        f"{name} {train:,} / {test:,}"
        for name, train, test in zip(facts["class_names"], facts["train"], facts["test"], strict=True)
    )
    sizes = f"{facts['clients']} clients, {facts['features']} columns"
    return f"{facts['said'][0].upper()}{facts['said'][1:]} ({sizes} with seed 0). Rows, train / test: {classes}.\n"


def figures(set_, name, done, key):
    """Seed to figure, for the seeds that have one."""
    lines = {seed: line for (at, who, seed), line in done.items() if (at, who) == (set_, name)}
    return {seed: line[key] for seed, line in sorted(lines.items()) if line.get(key) is not None}


def _mean(values, scale=1.0, digits=1):
    return f"{scale * np.mean(list(values.values())):.{digits}f}" if values else "–"


def _names(set_, done):
    return [name for name in COMPETITORS if any(key[:2] == (set_, name) for key in done)]


def _scores(set_, facts, done):
    columns = SCORES | (MONEY if figures(set_, REFERENCE, done, "cost") else {})
    titles = ["rows", "model"]
    for key, (title, _) in columns.items():
        titles += [title, "vs reference"] if key in PAIRED else [title]
    titles.append("relabelled / rare")
    rows = [_row(set_, name, columns, facts, done, len(titles)) for name in _names(set_, done)]
    return table(titles, rows)


def _row(set_, name, columns, facts, done, width):
    competitor = COMPETITORS[name]
    cells = [competitor.group, competitor.title]
    if any("not_applicable" in line for key, line in done.items() if key[:2] == (set_, name)):
        return cells + ["not applicable"] + [""] * (width - 3)
    moves = [line.get("moved") for key, line in done.items() if key[:2] == (set_, name)]
    if why := next(filter(None, map(refused, moves)), None):
        return cells + [why] + [""] * (width - 3)
    for key, (_, scale) in columns.items():
        values = figures(set_, name, done, key)
        cells.append(_mean(values, scale))
        if key in PAIRED:
            cells.append(_versus(values, figures(set_, REFERENCE, done, key), scale, facts["overlap"]))
    return [*cells, _relabeled(set_, name, done)]


def _versus(values, reference, scale, overlap):
    seeds = [seed for seed in values if seed in reference]
    if not seeds or values == reference:
        return ""
    mean, half = paired_interval(*([of[seed] for seed in seeds] for of in (values, reference)), overlap)
    return f"{scale * mean:+.1f}" + ("" if np.isnan(half) else f" ± {scale * half:.1f}")


def _relabeled(set_, name, done):
    relabeled, rare = (figures(set_, name, done, key) for key in ("relabeled", "rare"))
    dropped = figures(set_, name, done, "dropped")
    if dropped and any(dropped.values()):
        return f"{_mean(dropped, digits=0)} dropped / {_mean(rare, digits=0)}"
    return f"{_mean(relabeled, digits=0)} / {_mean(rare, digits=0)}" if relabeled else ""


def _recalls(set_, facts, done):
    order = np.argsort(facts["train"], kind="stable")
    rows = []
    for name in _names(set_, done):
        values = figures(set_, name, done, "recall")
        if values:
            mean = np.mean(list(values.values()), axis=0)
            cells = [f"{100 * mean[k]:.1f}" for k in order]
            rows.append([COMPETITORS[name].group, COMPETITORS[name].title, *cells])
    names = [facts["class_names"][k] for k in order]
    return "Recall of every class, the rarest first:\n\n" + table(["rows", "model", *names], rows)
