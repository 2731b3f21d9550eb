"""One client's relabeler beside that of another commit: ``python -m benchmarks.run one_client REVISION``.

`fit`, `relabel` and `transform` of `FedReLaRelabeler` on made posteriors, in this working tree and in a clone of
REVISION, in turn, each time in a process of its own on one thread. The page is
``benchmarks/results/one_client.md``.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
# rows, classes, calls of each method
SIZES = ((10, 2, 500), (1_000, 100, 40))
SETTINGS = {"unweighted": {}, "order statistic": {"threshold": "order_statistic"}, "weighted": {}}


def main(arguments=None):
    from benchmarks.same_bits import clone_of

    parser = argparse.ArgumentParser(prog="python -m benchmarks.run one_client", description=__doc__)
    parser.add_argument("revision", help="commit, branch or tag to compare with")
    parser.add_argument("--times", type=int, default=9, help="processes of either tree")
    known = parser.parse_args(arguments)
    with clone_of(known.revision) as (clone, commit):
        pairs = [(_measured(clone), _measured(ROOT)) for _ in range(known.times)]
    _write([_line(name, pairs) for name in pairs[0][1]], commit)


def _measured(tree):
    """Name of what was timed to microseconds a call, from a process that runs this very file."""
    others = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    path = os.pathsep.join([str(tree), *(other for other in others if other and Path(other) != ROOT)])
    ran = subprocess.run(
        [sys.executable, str(Path(__file__).resolve())],
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        cwd=tree, stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    return json.loads(ran.stdout)


def _line(name, pairs):
    """The cells of one row: the median of each tree, and of the ratios of neighboring runs."""
    old, new = np.array([[theirs[name], ours[name]] for theirs, ours in pairs]).T
    return [name, f"{np.median(old):.0f}", f"{np.median(new):.0f}", f"{np.median(new / old):.2f}"]


def _write(rows, commit):
    from benchmarks.suites._machine import facts_of_run
    from benchmarks.suites._markdown import table

    facts = ", ".join(f"{name} {value}" for name, value in facts_of_run().items())
    page = (
        "# One client's relabeler, beside another commit\n\n"
        f"Microseconds a call, medians; the ratio is that of new to old, {commit} being old.\n\n"
        + table(["rows x classes", "old", "new", "ratio"], rows)
        + f"\nMeasured on: {facts}.\n"
    )
    (ROOT / "benchmarks" / "results" / "one_client.md").write_text(page, encoding="utf-8")
    print(page)


def _child():
    """Print what this process measures of the package that it finds."""
    from fedrela_sk import FedReLaRelabeler

    found = {}
    for n_rows, n_classes, times in SIZES:
        Q, y, draws = _rows(n_rows, n_classes)
        for setting, params in SETTINGS.items():
            relabeler = FedReLaRelabeler(0.2, classes=np.arange(n_classes), random_state=0, **params)
            weights = np.full(n_rows, 1.5) if setting == "weighted" else None
            calls = {
                "fit": lambda r=relabeler, w=weights, Q=Q, y=y: r.fit(Q, y, sample_weight=w),
                "relabel": lambda r=relabeler, Q=Q, y=y, u=draws: r.relabel(Q, y, uniforms=u),
                "transform": lambda r=relabeler, Q=Q: r.transform(Q),
            }
            for name, call in calls.items():
                found[f"{n_rows:,} x {n_classes}, {setting}: {name}"] = _microseconds(call, times)
    print(json.dumps(found))


def _rows(n_rows, n_classes):
    """Posteriors that lean to the right class, their labels and uniforms; the last class is rare."""
    stream = np.random.default_rng(0)
    share = 0.01 ** (np.arange(n_classes) / (n_classes - 1))
    y = stream.choice(n_classes, n_rows, p=share / share.sum())
    y[-1] = n_classes - 1
    Q = stream.dirichlet(np.full(n_classes, 0.3), n_rows)
    Q[np.arange(n_rows), y] += 1
    return Q / Q.sum(1, keepdims=True), y, stream.random(Q.shape)


def _microseconds(call, times):
    """Median over calls after one that warms up."""
    call()
    took = []
    for _ in range(times):
        began = time.perf_counter()
        call()
        took.append(time.perf_counter() - began)
    return 1e6 * float(np.median(took))


if __name__ == "__main__":
    _child()
