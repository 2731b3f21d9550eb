"""Edits inside the package itself, which docs/adding.md sends people to, count where it runs from a checkout."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import fedrela_sk
from fedrela_sk import __version__
from fedrela_sk.federation.cache._not_keyable import NotKeyable
from fedrela_sk.federation.cache._package import check_untouched, edition

JOB = """
import sys
import fedrela_sk
from tests.federation.cache.test_rounds import X, entries, fit
assert fedrela_sk.__file__.startswith(sys.argv[1])
fed = fit(sys.argv[2], algorithm="fedprox")
print(len(entries(sys.argv[2])), fed.predict_proba(X).tolist() == fit(algorithm="fedprox").predict_proba(X).tolist())
"""


def package(folder, text="RATE = 1"):
    (folder / "deep").mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder / "deep" / "_own.py").write_text(text)
    (folder / "data.csv").write_text("1,2")
    return folder


def test_a_checkout_counts_by_its_sources(tmp_path):
    first = edition(package(tmp_path / "a"))
    assert first.startswith(f"fedrela_sk {__version__} with sources ")
    assert edition(package(tmp_path / "b")) == first  # wherever it lies
    assert edition(package(tmp_path / "c", "RATE = 2")) != first
    moved = package(tmp_path / "d")
    (moved / "deep" / "_own.py").rename(moved / "deep" / "_other.py")
    assert edition(moved) != first


def test_an_installed_package_counts_by_its_version(tmp_path):
    for folder in ("site-packages", "dist-packages"):
        assert edition(package(tmp_path / folder / "fedrela_sk")) == f"fedrela_sk {__version__}"


def test_the_sources_are_read_once_a_process(tmp_path):
    folder = package(tmp_path / "a")
    first = edition(folder)
    (folder / "deep" / "_own.py").write_text("RATE = 2")
    assert edition(folder) == first  # what runs was imported before


def test_an_edit_after_the_import_is_told(tmp_path):
    """What runs is then not what the files say."""
    folder = package(tmp_path / "a")
    file = folder / "deep" / "_own.py"
    imported = max(path.stat().st_ctime for path in folder.rglob("*.py"))
    check_untouched(folder, imported)
    with pytest.raises(
        NotKeyable, match=r"__init__\.py of fedrela_sk was edited after its import: start Python"
    ):
        check_untouched(folder, imported - 1)
    os.utime(file, (imported + 100, imported + 100))
    with pytest.raises(NotKeyable, match=r"_own\.py of fedrela_sk was edited"):
        check_untouched(folder, imported + 50)


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("algorithms/_fedprox.py", "0.5 *", "0.75 *"),
        ("federation/_server.py", "return float(factor)", "return 0.5 * float(factor)"),
    ],
)
def test_an_edited_checkout_shares_nothing_with_the_one_before(tmp_path, file, old, new):
    root = Path(fedrela_sk.__file__).parent
    shutil.copytree(root, tmp_path / "fedrela_sk", ignore=shutil.ignore_patterns("__pycache__", "*.gz"))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(root.parent)])}

    def run():
        command = [sys.executable, "-c", JOB, str(tmp_path), str(tmp_path / "memory")]
        done = subprocess.run(
            command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    assert run() == ["1", "True"]
    edited = tmp_path / "fedrela_sk" / file
    text = edited.read_text()
    assert old in text
    edited.write_text(text.replace(old, new))
    assert run() == ["2", "True"]
    edited.write_text(text)
    assert run() == ["2", "True"]
