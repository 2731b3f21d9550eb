"""The report on relabeled rows: arrays, and a data frame on request."""

import numpy as np
import pytest

from fedrela_sk.report import RelabelReport

COLUMNS = ["client", "round", "row", "old", "new", "posterior", "z", "threshold", "rho"]


def make_report(n):
    numbers = [np.arange(n) * 0.1 + k for k in range(4)]
    labels = np.full(n, "common"), np.full(n, "rare")
    return RelabelReport(np.arange(n), *labels, *numbers, client=np.full(n, "north"), round=np.full(n, 8))


def test_its_length_is_the_number_of_changed_rows():
    assert len(make_report(3)) == 3
    assert len(make_report(0)) == 0
    assert not make_report(0)


def test_a_data_frame_has_one_row_per_changed_row():
    pytest.importorskip("pandas")
    frame = make_report(2).to_frame()
    assert list(frame.columns) == COLUMNS
    assert frame.loc[1].tolist() == ["north", 8, 1, "common", "rare", 0.1, 1.1, 2.1, 3.1]
    assert make_report(0).to_frame().shape == (0, 9)


def test_it_is_short_where_it_is_printed():
    numbers = np.arange(3)
    report = RelabelReport(*[numbers] * 7, client=np.array(["a", "b", "a"]), round=numbers)
    assert repr(report) == "RelabelReport(3 rows changed at 2 clients; to_frame() shows them)"
