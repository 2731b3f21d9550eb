"""Files of results that were cut off are read by every suite, and what was lost is run again."""

import json
import sys

import pytest

from benchmarks.suites import paper
from benchmarks.suites._commits import commit, made_by
from benchmarks.suites._jsonl import append_line, read_lines, write_lines

LINES = [
    {
        "job": "digits",
        "row": "fedavg",
        "set": "loans",
        "competitor": "net",
        "cell": "fedavg",
        "seed": seed,
        "arms": [],
    }
    for seed in range(3)
]


def read_paper(path, monkeypatch):
    monkeypatch.setattr(paper, "RESULTS", path.parent)
    return [seed for _, seed in paper.read("table_14", "cpu")]


def read_algorithms(path, monkeypatch):
    pytest.importorskip("imblearn")
    from benchmarks.suites import algorithms

    return [seed for *_, seed in algorithms._read(path)]


def read_sceptic(path, monkeypatch):
    pytest.importorskip("imblearn")
    from benchmarks.suites.sceptic import _running

    return [seed for *_, seed in _running.read(path)[1]]


READERS = [read_paper, read_algorithms, read_sceptic]


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "table_14.cpu.jsonl"
    write_lines(path, LINES)
    return path


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("kept", [0, 1, 20, -2])
def test_half_a_last_line_is_left_out(path, reader, kept, monkeypatch):
    whole = path.read_bytes()
    last = json.dumps(LINES[-1]).encode() + b"\n"
    path.write_bytes(whole.removesuffix(last) + last[:kept])
    assert reader(path, monkeypatch) == [0, 1]
    append_line(path, LINES[-1])
    assert reader(path, monkeypatch) == [0, 1, 2]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("broken", ["{", '{"seed": 0, "set": "lo{"seed": 1}', "[1, 2]", "null", "\x00\x00"])
def test_a_broken_line_in_the_middle_is_left_out_and_told(path, reader, broken, monkeypatch, capsys):
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], broken, lines[2], ""]))
    assert reader(path, monkeypatch) == [0, 2]
    assert "line 2 is not whole and is left out" in capsys.readouterr().err


@pytest.mark.parametrize("reader", READERS)
def test_letters_cut_in_two_are_no_error(path, reader, monkeypatch):
    with path.open("ab") as file:
        file.write('{"row": "é'.encode()[:-1])
    assert reader(path, monkeypatch) == [0, 1, 2]


@pytest.mark.parametrize("reader", READERS)
def test_a_file_that_is_not_there_is_empty(path, reader, monkeypatch):
    path.unlink()
    assert reader(path, monkeypatch) == []


def test_lines_are_whole_after_any_end(tmp_path):
    for end in (b"", b"{}\n", b"{}", b'{"a'):
        path = tmp_path / "new" / "x.jsonl"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(end)
        append_line(path, {"b": 1})
        assert read_lines(path)[-1] == {"b": 1}
        assert path.read_bytes().endswith(b'{"b": 1}\n')


def test_a_page_says_which_commits_made_it():
    assert made_by([{"commit": "abc"}] * 2) == "Made by the code of commit abc."
    assert made_by([{"commit": "abc+"}]) == "Made by the code of commit abc and changes on top of it."
    text = made_by([{"commit": "abc"}, {"commit": "abc"}, {}])
    assert text == "Made by the code of the commits abc (2 results), unknown (1 results)."


def test_outside_of_a_checkout_the_commit_is_unknown(tmp_path, monkeypatch):
    module = sys.modules[commit.__module__]
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert commit.__wrapped__() == "unknown"
