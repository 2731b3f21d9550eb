"""What a practitioner would try first, beside FedReLa, on eight tables: ``python -m benchmarks.run sceptic``.

Runs that are in ``benchmarks/results/sceptic.jsonl`` are not repeated; the tables are ``sceptic.md``, what they
say is ``docs/sceptic.md``. Five sets are read from the folder named by ``FEDRELA_SK_DATA``.
"""

import argparse
import time
from importlib.metadata import version
from pathlib import Path

import torch

from benchmarks.suites._machine import machine
from benchmarks.suites.sceptic._competitors import COMPETITORS
from benchmarks.suites.sceptic._data import SETS
from benchmarks.suites.sceptic._report import write_report
from benchmarks.suites.sceptic._running import append, facts_of, left, read, rewrite, run_cell

RESULTS = Path(__file__).parents[2] / "results"


def main(arguments=None):
    options = _options(arguments)
    torch.set_num_threads(1)
    options.results.mkdir(parents=True, exist_ok=True)
    path = options.results / "sceptic.jsonl"
    head, done = read(path)
    rewrite(path, head or machine() | {"imbalanced-learn": version("imbalanced-learn")}, done)
    sets = [options.only] if options.only else list(SETS)
    names = [options.competitor] if options.competitor else list(COMPETITORS)
    _run(path, left(sets, names, options.seeds, done))
    head, done = read(path)
    shown = [set_ for set_ in SETS if any(key[0] == set_ for key in done)]
    try:
        facts = {set_: facts_of(SETS[set_](0)) for set_ in shown}
    except FileNotFoundError:
        print("No page is written: it describes sets of the data folder, and FEDRELA_SK_DATA is not set.")
        return
    write_report(options.results / "sceptic.md", head, facts, done)


def _options(arguments):
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run sceptic", description=__doc__)
    parser.add_argument("--only", choices=SETS, help="this set alone")
    parser.add_argument("--competitor", choices=COMPETITORS, help="this row alone")
    parser.add_argument("--seeds", type=int, default=5, help="seeds 0 to N - 1 (default 5)")
    parser.add_argument(
        "--results", type=Path, default=RESULTS, help="folder of sceptic.jsonl and sceptic.md"
    )
    return parser.parse_args(arguments)


def _run(path, cells):
    """All cells; time left is guessed from the runs so far, which differ much from set to set."""
    n_runs, n_done, began = sum(map(len, cells.values())), 0, time.perf_counter()
    for (set_, seed), names in cells.items():
        for line in run_cell(set_, seed, names):
            append(path, line)
            n_done += 1
            minutes = (time.perf_counter() - began) / n_done * (n_runs - n_done) / 60
            said = f"{n_done}/{n_runs} {set_} seed {seed} {line['competitor']}"
            print(f"{said}: {line.get('seconds', 0):.1f} s, about {minutes:.0f} min left", flush=True)
