"""A room imports only from rooms above it, read from the imports of every file; what must not be loaded is not."""

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import fedrela_sk

ROOT = Path(fedrela_sk.__file__).parent

# From top to bottom; `_main` holds the parts of `__main__` and is below all others.
ORDER = [
    "_version", "_typing", "exceptions", "_warnings", "_deprecation", "_sklearn", "_containers", "_labels", "_checks",
    "_optional", "_philox", "_random", "_apportion", "_tree", "_update",
    "datasets", "imbalance", "splitters", "nets", "losses", "relabel", "aggregation", "participation",
    "local_data", "algorithms", "training", "metrics", "report", "federation", "plots", "flower", "testing", "_main",
]  # fmt: skip
FREE = {"__init__", "__main__"}
FILES = sorted(ROOT.rglob("*.py"))


def room_of(path):
    """The room of a file, or the name of a file at the top."""
    return path.relative_to(ROOT).with_suffix("").parts[0]


def run_nodes(tree):
    """All nodes of a module but those that only type checkers read, under ``if TYPE_CHECKING:``."""
    left = [tree]
    while left:
        node = left.pop()
        yield node
        for_types = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        left.extend(node.orelse if for_types else ast.iter_child_nodes(node))


def imported(path):
    """(line, room or public name) of everything that a file imports from the package, functions included."""
    package = ["fedrela_sk", *path.relative_to(ROOT).parts[:-1]]
    for node in run_nodes(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            modules = [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = base + (node.module.split(".") if node.module else [])
            modules = [[*module, alias.name] for alias in node.names]
        else:
            continue
        for module in modules:
            if module[0] == "fedrela_sk" and len(module) > 1:
                yield node.lineno, fedrela_sk._NAMES.get(module[1], module[1])


def test_every_file_is_in_a_room_of_the_list():
    rooms = {room_of(path) for path in FILES}
    assert rooms - FREE <= set(ORDER)
    assert {"federation", "training", "relabel", "_random"} <= rooms  # the files were found


def test_imports_were_found():
    found = {name for path in FILES for _, name in imported(path)}
    assert {"exceptions", "_random", "training", "algorithms", "aggregation"} <= found
    assert "relabel" in {name for _, name in imported(ROOT / "plots" / "_steps.py")}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_room_imports_only_from_rooms_above_it(path):
    own = room_of(path)
    if own in FREE:
        return
    for line, name in imported(path):
        if name == "__version__":
            name = "_version"
        assert name in ORDER, f"{path.name}, line {line}: {name} is in no room of the list"
        assert name == own or ORDER.index(name) < ORDER.index(own), (
            f"{path.relative_to(ROOT)}, line {line}: {own} must not import from {name}, which is below it"
        )


@pytest.mark.parametrize(
    "room", ["", ".relabel", ".splitters", ".imbalance", ".metrics", ".datasets", ".participation"]
)
def test_what_works_without_nets_does_not_load_them(room):
    """Nor does it need what is optional: pandas, matplotlib and rich cannot be imported here."""
    code = (
        "import sys; sys.modules.update(dict.fromkeys(['pandas', 'matplotlib', 'rich']));"
        f"import fedrela_sk{room}; print([name for name in ['torch', 'skorch'] if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def parts_of_rooms():
    """For each room, what imports what among its files and folders."""
    graphs = {}
    for path in FILES:
        own = path.relative_to(ROOT).with_suffix("").parts
        if len(own) < 2 or own[-1] == "__init__":
            continue
        graph = graphs.setdefault(own[0], {})
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"fedrela_sk.{own[0]}."):
                other = node.module.split(".")[2]
                if other != own[1]:
                    graph.setdefault(own[1], set()).add(other)
    return graphs


@pytest.mark.parametrize("room", sorted(parts_of_rooms()))
def test_inside_a_room_imports_go_one_way(room):
    """Files and folders of a room can be put in an order in which each imports only from those before it."""
    graph = parts_of_rooms()[room]
    assert set(TopologicalSorter(graph).static_order()) >= set(graph)  # CycleError names a circle


def test_imports_inside_rooms_were_found():
    assert parts_of_rooms()["training"]["_engine"] >= {"loop", "stacked", "_workers"}
    assert "clients" in parts_of_rooms()["federation"]["_round"]


@pytest.mark.parametrize("folder", sorted({path.parent for path in FILES}), ids=lambda p: p.name)
def test_no_folder_is_a_crowd(folder):
    """At most 16 files beside `__init__` and `__main__`; a folder of methods, one a file, is excepted."""
    files = [path for path in folder.glob("*.py") if path.stem not in FREE]
    assert len(files) <= 16 or folder.name == "algorithms"
