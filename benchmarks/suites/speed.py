"""How fast the simulator is, beside its peers, in one run: ``python -m benchmarks.run speed``.

Every part runs in a process of its own, one after the other, on the same machine; medians of at least five
rounds. The peers need the extra ``bench`` (pfl, flwr, ray) in the environment given by ``--peers``. Results:
``benchmarks/results/speed.json`` and ``speed.md``.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from benchmarks.suites import _speed_report
from benchmarks.suites._machine import facts_of_run

RESULTS = Path(__file__).parents[1] / "results"
PARTS = ("peers", "gemm", "grid", "relabel", "clients", "scale", "flat", "fixed")


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run speed", description=__doc__)
    parser.add_argument("--peers", default=sys.executable, help="a Python that has pfl and flwr")
    parser.add_argument("--rounds", type=int, default=7, help="rounds of each engine; the first is left out")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--jobs", nargs="+", default=["tab", "even", "cnn"])
    a = parser.parse_args(arguments)
    path = RESULTS / "speed.json"
    found = json.loads(path.read_text()) if path.exists() else {}
    found["machine"] = facts_of_run()
    for part in a.parts:
        print(f"== {part}", flush=True)
        if part == "peers":  # jobs that are not measured now keep their lines
            kept = [line for line in found.get("peers", []) if line["job"] not in a.jobs]
            found["peers"] = kept + _peers(a)
        else:
            found[part] = _own_process(part)
        path.write_text(json.dumps(found, indent=1) + "\n")
        (RESULTS / "speed.md").write_text(_speed_report.markdown(found))
        if part == "scale":
            _speed_report.draw_scale(found["scale"], RESULTS / "speed_scale.png")
    print((RESULTS / "speed.md").read_text())


def _peers(a):
    """One line per engine and job."""
    lines = []
    for job in a.jobs:
        rounds = ["--rounds", str(a.rounds)]
        runs = [
            [sys.executable, "-m", "benchmarks.peers.plain_loop", job, *rounds],
            [sys.executable, "-m", "benchmarks.peers.skorch_loop", job, *rounds],
            [a.peers, "-m", "benchmarks.peers.pfl_backend", job, *rounds],
            [
                *[a.peers, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"],
                *["-m", "benchmarks.peers.pfl_backend", job, *rounds],
            ],
            [a.peers, "-m", "benchmarks.peers.flower_simulation", job, *rounds],
            [sys.executable, "-m", "benchmarks.peers.ours", job, *rounds],
            [sys.executable, "-m", "benchmarks.peers.ours", job, *rounds, "--jobs", "2"],
        ]
        lines += [_run(command) for command in runs]
    return lines


def _run(command):
    """The RESULT line of a process, or what went wrong."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=1200, check=False)
    for line in done.stdout.splitlines():
        if line.startswith("RESULT "):
            print(line, flush=True)
            return json.loads(line.removeprefix("RESULT "))
    raise RuntimeError(f"{' '.join(command)} gave no result:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")


def _own_process(part):
    return _run([sys.executable, "-m", "benchmarks.suites._speed_parts", part])


if __name__ == "__main__":
    main()
