"""The report of one relabeling."""

import sys
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from fedrela_sk.relabel import FedReLaRelabeler, RelabelReport

REPORT = RelabelReport(
    row=np.array([2, 5]),
    old=np.array(["a", "a"]),
    new=np.array(["b", "c"]),
    posterior=np.array([0.3, 0.4]),
    z=np.array([2.0, 3.0]),
    threshold=np.array([1.0, 1.5]),
    rho=np.array([0.6, 0.7]),
)


def test_its_length_is_the_number_of_changed_rows():
    assert len(REPORT) == 2


def test_it_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        REPORT.rho = None


def test_as_a_dictionary():
    assert list(REPORT.to_dict()) == ["row", "old", "new", "posterior", "z", "threshold", "rho"]
    assert REPORT.to_dict()["rho"] is REPORT.rho


def test_as_a_data_frame():
    pytest.importorskip("pandas")
    frame = REPORT.to_frame()
    assert frame.columns.tolist() == list(REPORT.to_dict())
    assert frame.loc[1].tolist() == [5, "a", "c", 0.4, 3.0, 1.5, 0.7]


def test_without_pandas_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"needs pandas.*pip install 'fedrela_sk\[plots\]'"):
        REPORT.to_frame()


def test_a_report_is_short_where_it_is_printed():
    Q, y = np.array([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.2, 0.8]]), np.array([0, 0, 0, 1])
    relabeler = FedReLaRelabeler(0.3).fit(Q, y)
    relabeler.relabel(Q, y, uniforms=np.zeros((4, 2)))
    assert repr(relabeler.report()) == "RelabelReport(1 rows changed; to_frame() shows them)"
