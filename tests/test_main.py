"""``python -m fedrela_sk`` from outside; its parts are tested in `main`."""

import builtins
import runpy
import subprocess
import sys

import pytest

from fedrela_sk.__main__ import main


@pytest.fixture
def without(monkeypatch):
    """A function that makes modules impossible to import."""
    real = builtins.__import__

    def hide(*names):
        def refuse(name, *args, **kwargs):
            if name.partition(".")[0] in names:
                raise ImportError(f"No module named {name!r}", name=name)
            return real(name, *args, **kwargs)

        for name in names:
            monkeypatch.setitem(sys.modules, name, None)
        monkeypatch.setattr(builtins, "__import__", refuse)

    return hide


def test_runs_as_a_module(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["fedrela_sk", "--help"])
    monkeypatch.delitem(sys.modules, "fedrela_sk.__main__")
    with pytest.raises(SystemExit) as stop:
        runpy.run_module("fedrela_sk", run_name="__main__", alter_sys=True)
    assert stop.value.code == 0
    assert "python -m fedrela_sk" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("hidden", "named"),
    [(("rich",), "rich"), (("pandas", "matplotlib"), "matplotlib, pandas")],
)
def test_missing_extras_are_one_line_and_exit_code_2(without, hidden, named, capsys, tmp_path):
    without(*hidden)
    assert main(["--out", str(tmp_path / "out")]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == (
        f"python -m fedrela_sk: This needs {named}, which cannot be imported. "
        "Run: pip install 'fedrela_sk[plots]'\n"
    )
    assert not (tmp_path / "out").exists()


def test_out_that_is_a_file(tmp_path, capsys):
    (tmp_path / "taken").write_text("")
    assert main(["--out", str(tmp_path / "taken")]) == 2
    assert f"--out {tmp_path / 'taken'} cannot be made a folder" in capsys.readouterr().err


def test_help_and_errors_load_nothing_heavy():
    code = (
        "import runpy, sys\n"
        "sys.argv = ['fedrela_sk', '--tau', '7']\n"
        "try:\n"
        "    runpy.run_module('fedrela_sk', run_name='__main__')\n"
        "except SystemExit as stop:\n"
        "    heavy = {'torch', 'sklearn', 'pandas'} & set(sys.modules)\n"
        "    sys.exit(3 if heavy else stop.code)\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert "a share in [0, 1], such as 0.05 for 5 %; got '7'" in ran.stderr
    assert ran.stdout == ""
