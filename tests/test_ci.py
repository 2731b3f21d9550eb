"""The judge of a test run lets nothing through that it should stop."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CI = Path(__file__).parents[1] / ".ci"
spec = importlib.util.spec_from_file_location("check_reports", CI / "check_reports.py")
check_reports = importlib.util.module_from_spec(spec)
spec.loader.exec_module(check_reports)

SKIPPED = '<skipped type="pytest.skip" message="no data"/>'
EXPECTED_FAILURE = '<skipped type="pytest.xfail" message="known"/>'


@pytest.fixture
def reports(tmp_path):
    def write(inside="", lines=99, branches=99, excluded=0, files=()):
        (tmp_path / "junit.xml").write_text(
            "<testsuites><testsuite>"
            f'<testcase classname="a" name="b">{inside}</testcase><testcase classname="a" name="c"/>'
            "</testsuite></testsuites>"
        )
        totals = {
            "covered_lines": lines, "num_statements": 100, "covered_branches": branches, "num_branches": 100,
            "excluded_lines": excluded,
        }  # fmt: skip
        (tmp_path / "coverage.json").write_text(json.dumps({"totals": totals, "files": dict(files)}))
        return check_reports.main(tmp_path / "junit.xml", tmp_path / "coverage.json")

    return write


def test_all_is_well(reports, monkeypatch):
    monkeypatch.setenv("FEDRELA_SK_DATA", "somewhere")
    said, wrong = reports(EXPECTED_FAILURE, excluded=20)
    assert said == ["Coverage: 99.0 % of lines, 99.0 % of branches, 20 lines excluded"]
    assert wrong == []


def test_a_skip_is_wrong_only_where_the_data_are(reports, monkeypatch):
    monkeypatch.setenv("FEDRELA_SK_DATA", "somewhere")
    said, wrong = reports(SKIPPED)
    assert said[1] == "Skipped: a::b: no data"
    assert wrong == ["1 tests were skipped though FEDRELA_SK_DATA is set"]
    monkeypatch.delenv("FEDRELA_SK_DATA")
    assert reports(SKIPPED)[1] == []


@pytest.mark.parametrize("low", [{"lines": 94}, {"branches": 94}])
def test_low_coverage_of_either_kind(reports, low):
    assert reports(**low)[1] == ["coverage is below 95.0 %"]


def test_too_many_excluded_lines(reports):
    assert reports(excluded=21)[1] == ["21 lines are excluded from coverage, at most 20 may be"]


def test_what_only_type_checkers_read_does_not_count(reports, tmp_path):
    source = "if TYPE_CHECKING:\n    import a\n    import b\nelse:\n    a = 0  # pragma: no cover\n"
    (tmp_path / "code.py").write_text(source)
    files = {str(tmp_path / "code.py"): {"excluded_lines": [1, 2, 3, 5]}}
    assert reports(excluded=4, files=files)[0][0].endswith(" 1 lines excluded")
    assert reports(excluded=24, files=files)[1] == ["21 lines are excluded from coverage, at most 20 may be"]


def test_the_script_can_be_run():
    assert os.access(CI / "run", os.X_OK)


@pytest.mark.parametrize(("lines", "status", "said"), [(99, 0, ""), (94, 1, "coverage is below 95.0 %\n")])
def test_the_judges_exit_status(reports, tmp_path, lines, status, said):
    reports(lines=lines)
    judged = subprocess.run(
        [sys.executable, CI / "check_reports.py", tmp_path / "junit.xml", tmp_path / "coverage.json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (judged.returncode, judged.stderr) == (status, said)
