"""The paper's tables: ``python -m benchmarks.run paper --table table_14 --preset cpu``.

A settings file a table (``settings/*.toml``), with the presets "full" (the paper's size, for a GPU) and "cpu"
(reduced; what is reduced stands in the file). A run is one cell with one seed: its arms (baseline, + FedReLa, ...)
share their rounds up to the relabel round. Finished runs are in ``benchmarks/results/paper/<table>.<preset>.jsonl``,
one line each, and are not repeated; an arm that was added later is run alone. The page is ``<table>.<preset>.md``
beside it.
"""

import argparse
import time
from dataclasses import replace
from pathlib import Path

from joblib import Parallel, delayed

from benchmarks.suites._commits import commit
from benchmarks.suites._jsonl import append_line, read_lines
from benchmarks.suites._machine import machine
from benchmarks.suites.paper._figures import TAU_ARM, draw_tau_curves
from benchmarks.suites.paper._report import write_report
from benchmarks.suites.paper._run import points_apart, run
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
    """(cell, seed) to its line; empty where nothing was run.

    A cell whose arms were run at several times has several lines; they are put together here, and every arm has the
    commit that ran it. Of two runs of one arm the later one counts.
    """
    found = {}
    for line in read_lines(_path(table, preset)):
        found.setdefault((line["cell"], line["seed"]), []).append(line)
    return {key: put_together(lines) for key, lines in found.items()}


def put_together(lines):
    """One line of all arms of one cell and seed, with the time and the machines of all lines."""
    arms = {}
    for line in lines:
        own = {"commit": line.get("commit", "unknown")}
        arms |= {arm["arm"]: own | arm for arm in line["arms"]}
    return {
        "cell": lines[0]["cell"],
        "seed": lines[0]["seed"],
        "arms": list(arms.values()),
        "minutes": sum(line.get("minutes", 0.0) for line in lines),
        "machines": [line.get("machine", {}) for line in lines],
    }


def _todo(options):
    """(seed, cell) of the runs that are missing, a cell with its missing arms: first seeds of all tables first."""
    found = []
    for place, table in enumerate(options.table):
        done = read(table, options.preset)
        for cell in cells(table, options.preset):
            if options.method and cell.values["method"] not in options.method:
                continue
            if options.cell and options.cell not in cell.key:
                continue
            seeds = options.seeds or read_table(table, options.preset)["seeds"]
            missing = ((seed, _missing(cell, done.get((cell.key, seed)))) for seed in seeds)
            found += [(seed, place, rest) for seed, rest in missing if rest.arms]
    return [(seed, cell) for seed, _, cell in sorted(found, key=lambda item: item[:2])]


def _missing(cell, line):
    """The cell with the arms that were not run."""
    names = {arm["arm"] for arm in line["arms"]} if line else set()
    return replace(cell, arms=[arm for arm in cell.arms if arm["name"] not in names])


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
    """Run, and append a line."""
    began, made = time.perf_counter(), commit()
    arms = run(cell, seed)
    minutes = round((time.perf_counter() - began) / 60, 2)
    line = {"cell": cell.key, "seed": seed, "arms": arms, "minutes": minutes, "commit": made}
    if seed == read_table(cell.table, cell.preset)["seeds"][0] and "accuracy" in arms[0]:
        line["moved"] = points_apart(cell, seed, arms[0])
    append_line(_path(cell.table, cell.preset), line | {"machine": machine()})
    return cell, seed
