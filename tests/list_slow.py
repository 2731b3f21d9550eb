"""The tests that the inner loop leaves out: ``python -m tests.list_slow junit.xml`` writes `tests/slow.txt`.

The report is that of a whole run: ``python -m pytest --junitxml=junit.xml``. `conftest.py` gives the functions
that the list names their markers, so that ``python -m pytest -m "not slow and not processes"`` takes under a minute:

slow
    The functions that take longest, over all their parameters, until the rest fits into `SECONDS`.
processes
    The functions that start processes.
"""

import sys
from collections import defaultdict
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

LIST = Path(__file__).with_name("slow.txt")
ROOT = LIST.parents[1]
SECONDS = 30  # of one process on a busy machine, for all tests of the inner loop together
HEADER = (
    "# Written by `python -m tests.list_slow junit.xml`: marker and function, as conftest.py reads them.\n"
)

_started = 0


def watch_processes():
    """Count every process that Python code starts from now on, however it does."""
    import _posixsubprocess
    import subprocess

    def counted(start):
        def start_and_count(*args, **kwargs):
            global _started
            _started += 1
            return start(*args, **kwargs)

        return start_and_count

    subprocess._fork_exec = _posixsubprocess.fork_exec = counted(_posixsubprocess.fork_exec)


def processes_started():
    """Number of processes since `watch_processes`."""
    return _started


@cache
def _listed():
    """Function to set of markers."""
    markers = defaultdict(set)
    for line in LIST.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            marker, function = line.split(" ", 1)
            markers[function].add(marker)
    return markers


def markers_of(nodeid):
    """Sorted names of the markers that the list gives to a test.

    Parameters
    ----------
    nodeid : str
        As pytest writes it; parameters, in brackets, are left out.
    """
    return sorted(_listed().get(nodeid.partition("[")[0], ()))


def measure(junit):
    """Seconds of every function over all its parameters, and the functions that started processes.

    Parameters
    ----------
    junit : path of the report of a run

    Returns
    -------
    seconds : dict of str to float
    starters : set of str
    """
    seconds, starters = defaultdict(float), set()
    for case in ElementTree.parse(junit).iter("testcase"):
        function = _function(case.get("classname"), case.get("name"))
        seconds[function] += float(case.get("time"))
        if any(one.get("name") == "processes" for one in case.iter("property")):
            starters.add(function)
    return dict(seconds), starters


def _function(classname, name):
    """``tests/room/test_file.py::Class::test_name`` of a dotted class name and a test's name."""
    parts = classname.split(".")
    depth = max((n for n in range(1, len(parts) + 1) if _file(parts[:n]).exists()), default=len(parts))
    place = _file(parts[:depth]).relative_to(ROOT).as_posix()
    return "::".join([place, *parts[depth:], name.partition("[")[0]])


def _file(parts):
    return ROOT.joinpath(*parts).with_suffix(".py")


def choose(seconds, starters, budget):
    """Lines of the list: the starters, and as few of the other functions as the budget asks for.

    Parameters
    ----------
    seconds : dict of str to float
    starters : set of str
    budget : float
        Seconds that the functions left unmarked may take together.
    """
    left = sorted((one for one in seconds if one not in starters), key=seconds.get)
    total, slow = sum(seconds[one] for one in left), []
    while left and total > budget:
        slow.append(left.pop())
        total -= seconds[slow[-1]]
    return [f"processes {one}" for one in sorted(starters)] + [f"slow {one}" for one in sorted(slow)]


def main(junit):
    lines = choose(*measure(junit), SECONDS)
    LIST.write_text(HEADER + "".join(f"{line}\n" for line in lines), encoding="utf-8")
    sys.stdout.write(f"{len(lines)} functions in {LIST.name}\n")


if __name__ == "__main__":
    main(sys.argv[1])
