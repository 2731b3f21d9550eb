"""Types: every public signature states them, and a checker finds all public names."""

import importlib
import inspect
import pkgutil
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

import fedrela_sk

ROOMS = [
    f"fedrela_sk.{m.name}" for m in pkgutil.iter_modules(fedrela_sk.__path__) if m.ispkg and m.name[0] != "_"
]


def functions_of(thing):
    """The public functions of a class that are its own, or a function itself."""
    if not inspect.isclass(thing):
        return [thing]
    found = [value.fget if isinstance(value, property) else getattr(value, "__func__", value)
             for name, value in vars(thing).items() if name == "__init__" or not name.startswith("_")]  # fmt: skip
    return [one for one in found if inspect.isfunction(one) and one.__code__.co_filename != "<string>"]


def public():
    """Every public function and method of the package with its name."""
    for room in ROOMS:
        for name in importlib.import_module(room).__all__:
            thing = getattr(importlib.import_module(room), name)
            if inspect.isclass(thing) or inspect.isfunction(thing):
                for function in functions_of(thing):
                    if (own := inspect.unwrap(function)).__module__.startswith("fedrela_sk."):
                        yield f"{room}.{name}: {function.__name__}", own


PUBLIC = dict(public())


def test_there_are_public_functions():
    assert len(PUBLIC) > 300
    assert "fedrela_sk.algorithms.FedProx: client_penalty" in PUBLIC


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_signature_states_its_types(name):
    signature = inspect.signature(PUBLIC[name])
    bare = [p.name for p in signature.parameters.values() if p.annotation is p.empty]
    assert [parameter for parameter in bare if parameter not in ("self", "cls")] == []
    assert signature.return_annotation is not signature.empty


def test_types_are_shipped():
    assert files("fedrela_sk").joinpath("py.typed").is_file()


def test_a_checker_finds_every_public_name(tmp_path):
    """The package loads its names on first use; a checker reads them off the source."""
    code = "\n".join(
        f"reveal_type(fedrela_sk.{name})" for name in fedrela_sk.__all__ if name != "__version__"
    )
    (tmp_path / "use.py").write_text(f"import fedrela_sk\n{code}\n")
    done = subprocess.run(
        [
            sys.executable, "-m", "mypy", "--config-file=", "--ignore-missing-imports", "--follow-imports=silent",
            str(tmp_path / "use.py"),
        ],
        cwd=Path(fedrela_sk.__file__).parents[1],  # where a checker looks first; it follows no editable install
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    told = [line for line in done.stdout.splitlines() if "Revealed type" in line]
    assert len(told) == len(fedrela_sk.__all__) - 1, done.stdout + done.stderr
    assert not [line for line in told if '"Any"' in line]
