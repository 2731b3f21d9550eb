"""Would the tests notice a wrong line? ``python -m benchmarks.mutants --n 40 --seed 0``.

Small mistakes are planted one at a time into files of `relabel`, `aggregation` and `algorithms`: a
comparison flipped, a sign, a constant, a dropped `not`, arguments swapped. Places are a seeded sample,
equally many in each room. In a copy of the tree each mutant runs the test file that mirrors its own, then
its room's tests of the inner loop, until one fails or the time is up. What all tests pass is a survivor: a
test is missing there, or is a slow one, or the mistake changes nothing that can be seen. Where the time is
up nothing is known, and nothing is claimed.

Writes ``benchmarks/results/mutants.json`` and ``mutants.md``.
"""

import argparse
import ast
import copy
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from random import Random

from benchmarks.suites._machine import facts_of_run

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
ROOMS = ("relabel", "aggregation", "algorithms")
TREES = ("fedrela_sk", "tests", "benchmarks", "docs")
FILES = ("pyproject.toml", "README.md", "CONTRIBUTING.md", "constraints.txt")
COMPARISONS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
OPERATORS = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd, ast.Pow: ast.Mult,
}  # fmt: skip


def compare(node):
    """``a < b`` becomes ``a <= b``, ``is`` becomes ``is not``."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARISONS:
        node.ops[0] = COMPARISONS[type(node.ops[0])]()
        return node
    return None


def operate(node):
    """``a + b`` becomes ``a - b``; strings, which are joined with ``+``, are left alone."""
    strings = (ast.JoinedStr,)
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        if any(isinstance(side, strings) or _is_text(side) for side in (node.left, node.right)):
            return None
        node.op = OPERATORS[type(node.op)]()
        return node
    return None


def change_constant(node):
    """A number becomes the next one, True becomes False."""
    if isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float):
        node.value = (not node.value) if isinstance(node.value, bool) else node.value + 1
        return node
    return None


def drop_not(node):
    """``not a`` becomes ``a``."""
    return node.operand if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not) else None


def drop_minus(node):
    """``-a`` becomes ``a``."""
    return node.operand if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) else None


def other_connective(node):
    """``a and b`` becomes ``a or b``."""
    if isinstance(node, ast.BoolOp):
        node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        return node
    return None


def swap_arguments(node):
    """``f(a, b)`` becomes ``f(b, a)``."""
    if (
        isinstance(node, ast.Call)
        and len(node.args) >= 2
        and ast.dump(node.args[0]) != ast.dump(node.args[1])
    ):
        if any(isinstance(one, ast.Starred) for one in node.args[:2]):
            return None
        node.args[:2] = node.args[1::-1]
        return node
    return None


def swap_branches(node):
    """``a if c else b`` becomes ``b if c else a``."""
    if isinstance(node, ast.IfExp):
        node.body, node.orelse = node.orelse, node.body
        return node
    return None


MISTAKES = (
    compare, operate, change_constant, drop_not, drop_minus, other_connective, swap_arguments, swap_branches,
)  # fmt: skip


def _is_text(node):
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def sites_of(source):
    """Every (line, number of the node in a walk, mistake) of one file where a mistake can be planted.

    Messages of errors, decorators and defaults of arguments are left out, and so is what is outside functions.

    Parameters
    ----------
    source : str
    """
    tree = ast.parse(source)
    inside = _places(tree)
    return sorted(
        (node.lineno, number, mistake.__name__)
        for number, node in enumerate(ast.walk(tree))
        if id(node) in inside and hasattr(node, "lineno")
        for mistake in MISTAKES
        if mistake(copy.deepcopy(node)) is not None
    )


def mutate(source, number, mistake):
    """The source of a file with one mistake.

    Parameters
    ----------
    source : str
    number, mistake : int and str
        As in `sites_of`.
    """
    tree = ast.parse(source)
    node = list(ast.walk(tree))[number]
    new = {one.__name__: one for one in MISTAKES}[mistake](node)
    if new is not node:
        tree = _Replace(node, new).visit(tree)
    return ast.unparse(tree) + "\n"


def _places(tree):
    """ids of the expressions inside bodies of functions, without those that only word an error."""
    inside, left_out = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            for statement in node.body:
                inside |= {id(one) for one in ast.walk(statement)}
            left_out |= {id(one) for part in (node.args, *node.decorator_list) for one in ast.walk(part)}
        elif isinstance(node, ast.Raise | ast.JoinedStr) or _warns(node):
            left_out |= {id(one) for one in ast.walk(node)}
    return inside - left_out


def _warns(node):
    name = getattr(getattr(node, "func", None), "id", "")
    return isinstance(node, ast.Call) and name.startswith(("warn", "import_extra"))


class _Replace(ast.NodeTransformer):
    def __init__(self, old, new):
        self.old, self.new = old, new

    def visit(self, node):
        return self.new if node is self.old else self.generic_visit(node)


def sample(n, seed, root=ROOT, rooms=ROOMS):
    """Places of `n` mutants, as many of each room: list of (file, index into `sites_of` the file).

    Parameters
    ----------
    n : int
    seed : int
    root : Path
    rooms : tuple of str
    """
    chosen = []
    for position, room in enumerate(rooms):
        random = Random(f"{seed} {room}")
        files = sorted((root / "fedrela_sk" / room).rglob("*.py"))
        every = [
            (file.relative_to(root).as_posix(), index)
            for file in files
            for index in range(len(sites_of(file.read_text(encoding="utf-8"))))
        ]
        share = n // len(rooms) + (position < n % len(rooms))
        chosen += random.sample(every, min(share, len(every)))
    return chosen


def judge(file, index, tree, limit):
    """What the tests make of one mutant.

    Parameters
    ----------
    file : str
        Below `tree`, as in `sample`.
    index : int
    tree : Path
        A copy of the project; the file is put back at the end.
    limit : float
        Seconds for each of the two runs of tests.

    Returns
    -------
    row : dict
        `file`, `line`, `mistake`, `was`, `is`, `seconds` and `verdict`: "killed", "survived", or "timeout",
        which counts as not noticed.
    """
    path = tree / file
    before = path.read_text(encoding="utf-8")
    line, number, mistake = sites_of(before)[index]
    after = mutate(before, number, mistake)
    start = time.perf_counter()
    try:
        path.write_text(after, encoding="utf-8")
        verdict = _verdict(file, tree, limit)
    finally:
        path.write_text(before, encoding="utf-8")
    return {
        "file": file, "line": line, "mistake": mistake, **_difference(before, after),
        "seconds": round(time.perf_counter() - start, 1), "verdict": verdict,
    }  # fmt: skip


def _difference(before, after):
    """The first line that differs, both as `ast.unparse` writes them."""
    plain = ast.unparse(ast.parse(before)).splitlines()
    pairs = zip(plain, after.splitlines(), strict=False)
    was, now = next((was, now) for was, now in pairs if was != now)
    return {"was": was.strip(), "is": now.strip()}


def _verdict(file, tree, limit):
    room, name = Path(file).parent.relative_to("fedrela_sk").as_posix(), Path(file).stem.lstrip("_")
    mirror = tree / "tests" / room / f"test_{name}.py"
    runs = [[f"tests/{room}", "-m", "not slow and not processes"]]
    if mirror.exists():
        runs.insert(0, [mirror.relative_to(tree).as_posix()])
    for arguments in runs:
        passed = _passes(arguments, tree, limit)
        if passed is not True:
            return "killed" if passed is False else "timeout"
    return "survived"


def _passes(arguments, tree, limit):
    """Whether tests pass; None where they took too long."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *arguments]
    environment = {
        **os.environ,
        "PYTHONPATH": str(tree),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
    }
    try:
        done = subprocess.run(
            command, cwd=tree, env=environment, capture_output=True, timeout=limit, check=False
        )
    except subprocess.TimeoutExpired:
        return None
    return done.returncode in (0, 5)  # 5: all tests of the file are left out


def copy_tree(target):
    """What tests need, in a folder that may be spoilt."""
    for tree in TREES:
        shutil.copytree(ROOT / tree, target / tree, ignore=shutil.ignore_patterns("__pycache__"))
    for file in FILES:
        shutil.copy(ROOT / file, target / file)


def check_unmutated(tree, limit, rooms=ROOMS):
    """Refuse to judge anything where a room's tests fail, or take too long, as it is."""
    for room in rooms:
        verdict = _verdict(f"fedrela_sk/{room}/__init__.py", tree, limit)
        if verdict != "survived":
            raise RuntimeError(
                f"The tests of {room} end as {verdict!r} without any mistake: mend them, or raise --limit."
            )


def score(rows):
    """Share of the mutants that were noticed."""
    return sum(row["verdict"] == "killed" for row in rows) / len(rows)


def report(found):
    """The page, from what is in the JSON file."""
    rows = found["mutants"]
    lines = [
        "# Mutants",
        "",
        f"Made by `{found['command']}`: {len(rows)} mistakes planted one at a time, at most {found['limit_s']:g} s "
        f"for each run of tests. **{100 * score(rows):.0f} % were noticed.**",
        "",
        "|  |  |",
        "|---|---|",
        *(f"| {name} | {value} |" for name, value in found["machine"].items()),
        "",
        "| room | mutants | killed | timeout | survived |",
        "|---|---|---|---|---|",
    ]
    for room in ROOMS:
        own = [row["verdict"] for row in rows if row["file"].startswith(f"fedrela_sk/{room}/")]
        counts = [own.count(verdict) for verdict in ("killed", "timeout", "survived")]
        lines.append("| " + " | ".join(map(str, (room, len(own), *counts))) + " |")
    lines += ["", "## Not noticed", ""]
    survivors = [row for row in rows if row["verdict"] != "killed"]
    lines += [
        f"- {row['verdict']}, `{row['file']}:{row['line']}`, {row['mistake']}: `{row['was']}` became `{row['is']}`"
        for row in survivors
    ]
    return "\n".join(lines if survivors else [*lines, "None."]) + "\n"


def main(arguments=None):
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.mutants", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--n", type=int, default=40, help="mutants in all (default: 40)")
    parser.add_argument("--seed", type=int, default=0, help="of the sample (default: 0)")
    parser.add_argument("--limit", type=float, default=120, help="seconds for a run of tests (default: 120)")
    known = parser.parse_args(arguments)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        copy_tree(tree)
        check_unmutated(tree, known.limit)
        for file, index in sample(known.n, known.seed):
            rows.append(judge(file, index, tree, known.limit))
            row = rows[-1]
            print(
                f"{row['verdict']:8} {row['seconds']:6.1f} s  {row['file']}:{row['line']}  {row['is']}",
                flush=True,
            )
    found = {
        "command": f"python -m benchmarks.mutants --n {known.n} --seed {known.seed} --limit {known.limit:g}",
        "machine": facts_of_run() | {"pytest": version("pytest")},
        "seed": known.seed,
        "limit_s": known.limit,
        "score": round(score(rows), 4),
        "mutants": rows,
    }
    (RESULTS / "mutants.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    (RESULTS / "mutants.md").write_text(report(found), encoding="utf-8")
    return rows


if __name__ == "__main__":
    main()
