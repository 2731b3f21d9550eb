"""What the knobs did on the training rows: one table of tau and max_ratio for each set."""

import numpy as np

from benchmarks.suites._markdown import table

KNOBS = {"fedrela-chosen": "tau", "fedrela-capped": "max_ratio"}
TITLES = [
    *["knob", "value", "chosen by", "balanced accuracy", "recall", "precision", "F1"],
    *["alerts per rare row", "relabelled per rare row"],
]


def knob_table(set_, done):
    """Means over seeds of what was seen while a knob was chosen; empty if nothing was chosen."""
    rows = [row for name, knob in KNOBS.items() for row in _rows(set_, name, knob, done)]
    if not rows:
        return ""
    said = (
        "While tau and max_ratio were chosen, on the merged inner folds of the training rows. Alerts are rows that "
        "are not given to the most common class; recall is the mean over the other classes, precision and F1 are "
        "those of the alerts (two classes only). Rows relabelled are counted where they happen, in the folds' "
        "training parts.\n\n"
    )
    return said + table(TITLES, rows)


def _rows(set_, name, knob, done):
    lines = [line for (at, who, _), line in done.items() if (at, who) == (set_, name) and "curve" in line]
    chosen = [line[knob] for line in lines]
    for points in zip(*(line["curve"] for line in lines), strict=True):
        value = points[0]["value"]
        facts = np.array([_facts(point) for point in points])
        yield [
            *[knob, f"{value:g}", f"{chosen.count(value)} of {len(chosen)} seeds"],
            *[_percent(facts[:, column]) for column in range(4)],
            *[f"{facts[:, column].mean():.2f}" for column in (4, 5)],
        ]


def _facts(point):
    """Balanced accuracy, recall, precision, F1, alerts and relabelled rows per rare row."""
    n_rare, n_alerts, recalls = point["rare_tested"], point["alerts"], point["recall"]
    recall = np.mean([of for k, of in enumerate(recalls) if k != point["common"]])
    precision = f1 = np.nan
    if len(recalls) == 2:
        found = recall * n_rare
        precision = found / n_alerts if n_alerts else np.nan
        f1 = 2 * found / (n_alerts + n_rare)
    relabeled = point["relabeled"] / point["rare"]
    return point["balanced_accuracy"], recall, precision, f1, n_alerts / n_rare, relabeled


def _percent(values):
    known = values[~np.isnan(values)]
    return f"{100 * known.mean():.1f}" if len(known) else "–"
