"""Data frames with and without pandas."""

import sys

import pytest

from fedrela_sk.report import History
from tests.report.helpers import make_record
from tests.report.test_relabeling import make_report


def _history():
    history = History()
    history.append(make_record(0))
    return history


@pytest.mark.parametrize(
    "ask",
    [lambda: _history().to_frame(), lambda: make_report(1).to_frame()],
    ids=["History", "RelabelReport"],
)
def test_without_pandas_the_error_says_how_to_get_it(ask, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"pip install 'fedrela_sk\[plots\]'.*available as arrays"):
        ask()


def test_everything_else_works_without_pandas(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert _history().column("n_samples").tolist() == [10]
    assert len(make_report(2)) == 2
