"""The paper's tables: ``python -m benchmarks.run paper --table table_14 --preset cpu``.

A settings file a table (``settings/*.toml``), with the presets "full" (the paper's size, for a GPU) and "cpu"
(reduced; what is reduced stands in the file). A run is one cell with one seed: its arms (baseline, + FedReLa, ...)
share their rounds up to the relabel round. Finished runs are in ``benchmarks/results/paper/<table>.<preset>.jsonl``,
one line each, and are not repeated; the page is ``<table>.<preset>.md`` beside it.
"""

import argparse
import fcntl
import json
import time
from pathlib import Path

from joblib import Parallel, delayed

from benchmarks.suites._machine import machine
from benchmarks.suites.paper._figures import TAU_ARM, draw_tau_curves
from benchmarks.suites.paper._report import write_report
from benchmarks.suites.paper._run import run
from benchmarks.suites.paper._settings import PRESETS, cells, read_table, tables
from fedrela_sk.algorithms import ALGORITHMS

RESULTS = Path(__file__).parents[2] / "results" / "paper"


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run paper", description=__doc__)
    parser.add_argument("--table", nargs="+", required=True, choices=tables())
    parser.add_argument("--preset", default="cpu", choices=PRESETS)
    parser.add_argument("--method", nargs="+", choices=ALGORITHMS, help="only these methods")
    parser.add_argument("--cell", help="only cells whose key, as the page shows it, contains this")
    parser.add_argument(
        "--seeds", type=int, nargs="+", help="these seeds (default: those of the settings file)"
    )
    parser.add_argument("--jobs", type=int, default=1, help="runs side by side")
    parser.add_argument(
        "--report", action="store_true", help="write the pages from what is there, run nothing"
    )
    options = parser.parse_args(arguments)
    if not options.report:
        _work(_todo(options), options)
    for table in options.table:
        if _path(table, options.preset).exists():
            _write_pages(table, options.preset)


def _write_pages(table, preset):
    """The page of a table; with several taus also their curve, Figure 3."""
    done, page = read(table, preset), RESULTS / f"{table}.{preset}.md"
    write_report(page, table, preset, done)
    print(f"The page is {page.parent.name}/{page.name}")
    shown = [cell for cell in cells(table, preset) if any(key == cell.key for key, _ in done)]
    if any(TAU_ARM.fullmatch(arm["name"]) for cell in shown for arm in cell.arms):
        cut = read_table(table, preset)["data"]["cut"]
        draw_tau_curves(page.with_suffix(".png"), shown, done, cut)
        with open(page, "a", encoding="utf-8") as file:
            file.write(f"\n![Accuracy and rows relabelled over tau]({page.with_suffix('.png').name})\n")


def _path(table, preset):
    return RESULTS / f"{table}.{preset}.jsonl"


def read(table, preset):
    """(cell, seed) to its line; empty where nothing was run."""
    path = _path(table, preset)
    if not path.exists():
        return {}
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return {(line["cell"], line["seed"]): line for line in lines}


def _todo(options):
    """(seed, cell) of the runs that are missing: first seeds of all tables first."""
    found = []
    for place, table in enumerate(options.table):
        done = read(table, options.preset)
        for cell in cells(table, options.preset):
            if options.method and cell.values["method"] not in options.method:
                continue
            if options.cell and options.cell not in cell.key:
                continue
            seeds = options.seeds or read_table(table, options.preset)["seeds"]
            found += [(seed, place, cell) for seed in seeds if (cell.key, seed) not in done]
    return [(seed, cell) for seed, _, cell in sorted(found, key=lambda item: item[:2])]


def _work(todo, options):
    began = time.perf_counter()
    parallel = Parallel(n_jobs=options.jobs, return_as="generator_unordered")
    for i, (cell, seed) in enumerate(parallel(delayed(_one)(cell, seed) for seed, cell in todo)):
        left = (time.perf_counter() - began) / (i + 1) * (len(todo) - i - 1)
        print(
            f"{i + 1}/{len(todo)} {cell.table} {cell.key} seed {seed}: about {left / 60:.0f} min left",
            flush=True,
        )


def _one(cell, seed):
    """Run, and append a line; a lock keeps lines of several processes apart."""
    began = time.perf_counter()
    arms = run(cell, seed)
    line = {
        "cell": cell.key,
        "seed": seed,
        "arms": arms,
        "minutes": round((time.perf_counter() - began) / 60, 2),
    }
    path = _path(cell.table, cell.preset)
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(json.dumps(line | {"machine": machine()}) + "\n")
    return cell, seed
