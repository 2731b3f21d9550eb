"""Which tests the inner loop leaves out."""

import subprocess
import sys

import pytest

from tests import list_slow

REPORT = """<testsuites><testsuite>
<testcase classname="tests.test_list_slow" name="test_a[1]" time="3"/>
<testcase classname="tests.test_list_slow" name="test_a[b[2]-x]" time="4"/>
<testcase classname="tests.test_list_slow.Group" name="test_b" time="5"/>
<testcase classname="tests.test_list_slow" name="test_c" time="1">
<properties><property name="processes" value="started"/></properties></testcase>
</testsuite></testsuites>"""
HERE = "tests/test_list_slow.py::"


@pytest.fixture
def report(tmp_path):
    path = tmp_path / "junit.xml"
    path.write_text(REPORT)
    return path


def test_time_is_added_over_parameters_and_starters_are_found(report):
    seconds, starters = list_slow.measure(report)
    assert seconds == {f"{HERE}test_a": 7, f"{HERE}Group::test_b": 5, f"{HERE}test_c": 1}
    assert starters == {f"{HERE}test_c"}


@pytest.mark.parametrize(("budget", "slow"), [(12, ""), (11, "a"), (5, "a"), (4, "ab")])
def test_the_slowest_go_until_the_rest_fits(budget, slow):
    lines = list_slow.choose({"a": 7, "b": 5, "c": 1}, {"c"}, budget)
    assert lines == ["processes c", *(f"slow {one}" for one in slow)]


def test_the_list_is_written_and_read(report, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(list_slow, "LIST", tmp_path / "slow.txt")
    monkeypatch.setattr(list_slow, "SECONDS", 5)
    list_slow._listed.cache_clear()
    try:
        list_slow.main(report)
        assert list_slow.markers_of(f"{HERE}test_a[b[2]-x]") == ["slow"]
        assert list_slow.markers_of(f"{HERE}test_c") == ["processes"]
        assert list_slow.markers_of(f"{HERE}Group::test_b") == []
    finally:
        list_slow._listed.cache_clear()
    assert capsys.readouterr().out == "2 functions in slow.txt\n"


def test_every_start_of_a_process_is_counted():
    before = list_slow.processes_started()
    subprocess.run([sys.executable, "-c", ""], check=True)
    assert list_slow.processes_started() == before + 1


def test_what_the_list_names_is_there():
    lines = list_slow.LIST.read_text(encoding="utf-8").splitlines()[1:]
    assert len(lines) > 20
    for line in lines:
        marker, function = line.split(" ", 1)
        file, _, name = function.partition("::")
        text = (list_slow.ROOT / file).read_text(encoding="utf-8")
        assert marker in ("slow", "processes")
        assert name.split("::")[-1].split(".")[-1] in text, line
