"""What the knobs did on the training rows: one table of tau and max_ratio for each set."""

import numpy as np

from benchmarks.suites._markdown import table

KNOBS = {"fedrela-chosen": "tau", "fedrela-capped": "max_ratio"}


def knob_table(set_, done):
    """Means over seeds of what was seen while a knob was chosen; empty if nothing was chosen."""
    rows = [row for name, knob in KNOBS.items() for row in _rows(set_, name, knob, done)]
    if not rows:
        return ""
    said = (
        "While tau and max_ratio were chosen, on the merged inner folds of the training rows (relabelled per rare "
        "row, in the folds' training parts; alerts are rows not given to the most common class):\n\n"
    )
    titles = ["knob", "value", "chosen by", "balanced accuracy", "mean recall of other classes"]
    return said + table([*titles, "alerts per rare row", "relabelled per rare row"], rows)


def _rows(set_, name, knob, done):
    lines = [line for (at, who, _), line in done.items() if (at, who) == (set_, name) and "curve" in line]
    chosen = [line[knob] for line in lines]
    for points in zip(*(line["curve"] for line in lines), strict=True):
        value = points[0]["value"]
        yield [
            knob,
            f"{value:g}",
            f"{chosen.count(value)} of {len(chosen)} seeds",
            f"{100 * np.mean([point['balanced_accuracy'] for point in points]):.1f}",
            f"{100 * np.mean([_other_recall(point) for point in points]):.1f}",
            f"{np.mean([point['alerts'] / point['rare_tested'] for point in points]):.2f}",
            f"{np.mean([point['relabeled'] / point['rare'] for point in points]):.2f}",
        ]


def _other_recall(point):
    common = point["common"]
    return np.mean([recall for k, recall in enumerate(point["recall"]) if k != common])
