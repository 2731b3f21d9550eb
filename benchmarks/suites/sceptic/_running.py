"""What is left to do, done in an order that leaves complete tables behind, one line of JSON after another."""

import time
from tempfile import TemporaryDirectory

from benchmarks.suites._commits import commit
from benchmarks.suites._jsonl import append_line, read_lines, write_lines
from benchmarks.suites.sceptic._competitors import COMPETITORS
from benchmarks.suites.sceptic._data import SETS
from benchmarks.suites.sceptic._metrics import measure
from benchmarks.suites.sceptic._settings import moved_start


def read(path):
    """(facts of the head line or None, {(set, competitor, seed): line}) of a file of results.

    Parameters
    ----------
    path : Path
        May not exist. A line that was cut off is left out.
    """
    lines = read_lines(path)
    head = next((line["head"] for line in lines if "head" in line), None)
    return head, {(line["set"], line["competitor"], line["seed"]): line for line in lines if "set" in line}


def append(path, line):
    """Add one line of JSON, with the commit that made it."""
    append_line(path, line | {"commit": commit()})


def rewrite(path, head, done):
    """Write the file anew, whole or not at all: after a line that was cut off, or one that was run again."""
    write_lines(path, [{"head": head}, *done.values()])


def left(sets, names, n_seeds, done):
    """{(set, seed): [competitors that are missing]}, seeds outermost."""
    cells = {}
    for seed in range(n_seeds):
        for set_ in sets:
            missing = [name for name in names if (set_, name, seed) not in done]
            if missing:
                cells[set_, seed] = missing
    return cells


def run_cell(set_, seed, names):
    """Yield the line of every competitor on one set and seed; federations share their first rounds."""
    job = SETS[set_](seed)
    with TemporaryDirectory() as memory:
        for name in names:
            competitor, began = COMPETITORS[name], time.perf_counter()
            line = {"set": set_, "competitor": name, "seed": seed}
            if competitor.binary_only and not job.binary:
                yield line | {"not_applicable": "more than two classes"}
                continue
            line |= measure(competitor.run(job, seed, memory), job)
            line |= {"seconds": round(time.perf_counter() - began, 2), "commit": commit()}
            if competitor.group == "federated" and seed == 0:
                with moved_start():
                    beside = measure(competitor.run(job, seed, None), job)
                line["moved"] = abs(beside["balanced_accuracy"] - line["balanced_accuracy"])
            yield line


def facts_of(job):
    """What a report says of a set, JSON-ready."""
    return {
        "said": job.said,
        "class_names": job.class_names,
        "train": job.counts.tolist(),
        "test": [int((job.y_test == k).sum()) for k in range(len(job.class_names))],
        "clients": len(set(job.groups.tolist())),
        "features": job.X.shape[1],
        "overlap": job.overlap,
    }
