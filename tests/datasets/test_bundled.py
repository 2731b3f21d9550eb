"""Bundled files: intact, credited, and loud when they are not what they should be."""

import hashlib
import subprocess
import sys

import pytest

from fedrela_sk.datasets import _bundled, load_fars, load_lending_club
from fedrela_sk.exceptions import DatasetError

LOADERS = [load_lending_club, load_fars]


@pytest.mark.parametrize("name", sorted(_bundled.SHA256))
def test_bundled_file_and_credit_line_have_the_checksum(name):
    folder = _bundled.data_folder()
    got = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    assert got == _bundled.SHA256[name]
    credit = (folder / "README.md").read_text(encoding="utf-8")
    section = credit[credit.index(f"## {name}") :].split("\n## ")[0]
    assert got in section
    assert "- Source: " in section
    assert "- License: " in section


def test_nothing_else_is_bundled():
    names = {path.name for path in _bundled.data_folder().iterdir()}
    assert names == {"README.md", *_bundled.SHA256}


@pytest.mark.parametrize("name", sorted(_bundled.SHA256))
def test_a_damaged_file_is_refused(name, tmp_path, monkeypatch):
    content = bytearray(_bundled.read_checked(name))
    content[len(content) // 2] ^= 1
    (tmp_path / name).write_bytes(content)
    monkeypatch.setattr(_bundled, "data_folder", lambda: tmp_path)
    got = hashlib.sha256(content).hexdigest()
    with pytest.raises(DatasetError, match=f"{name} is damaged.* is {got}.*Install the package again"):
        _bundled.read_checked(name)


def test_a_missing_file_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(_bundled, "data_folder", lambda: tmp_path)
    with pytest.raises(OSError, match=r"fars\.csv\.gz is missing at .*Install the package again"):
        load_fars()


@pytest.mark.parametrize("load", LOADERS, ids=lambda load: load.__name__)
def test_without_pandas_the_error_names_the_remedy(load, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(
        ImportError, match=rf"{load.__name__} needs pandas.*pip install 'fedrela_sk\[plots\]'"
    ):
        load()


@pytest.mark.parametrize("load", LOADERS, ids=lambda load: load.__name__)
@pytest.mark.parametrize("parameter", ["return_X_y", "as_frame", "unknown"])
def test_bad_parameters_are_refused(load, parameter):
    with pytest.raises(ValueError, match=f"'{parameter}' parameter of {load.__name__} must be .* Got 'yes'"):
        load(**{parameter: "yes"})


def test_the_room_does_not_import_torch():
    code = "import sys, fedrela_sk.datasets; print({'torch', 'skorch'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
