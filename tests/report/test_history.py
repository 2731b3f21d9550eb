"""The history: a sequence of records, columns of them, sums, a data frame on request."""

import pickle
from collections.abc import Sequence

import numpy as np
import pytest

from fedrela_sk.report import History
from tests.report.helpers import make_record


def make_history(*records):
    history = History()
    for record in records:
        history.append(record)
    return history


def test_a_new_history_is_empty():
    history = History()
    assert len(history) == 0
    assert not history
    assert (history.empty_clients, history.empty_cell_share, history.notes) == ((), 0.0, [])
    assert (history.bytes_up, history.bytes_down) == (0, 0)
    assert history.column("train_loss").shape == (0,)
    with pytest.raises(IndexError):
        history[0]


def test_facts_of_the_whole_fit():
    history = History(["c", "d"], np.float64(0.25))
    assert history.empty_clients == ("c", "d")
    assert type(history.empty_cell_share) is float
    assert history.empty_cell_share == 0.25
    assert History().notes is not history.notes


def test_it_is_a_sequence_of_records():
    first, second, third = (make_record(round) for round in range(3))
    history = make_history(first, second, third)
    assert isinstance(history, Sequence)
    assert len(history) == 3
    assert list(history) == [first, second, third]
    assert history[0] is first
    assert history[-1] is third
    assert history[1:] == [second, third]
    assert list(reversed(history)) == [third, second, first]
    assert second in history
    assert history.index(second) == 1


def test_bytes_are_summed_over_rounds():
    history = make_history(
        make_record(0, traffic={"up": {"model": 1}, "down": {"reports": 10}}),
        make_record(1, traffic={"up": {"model": 2}, "down": {"model": 30}}),
    )
    assert (history.bytes_up, history.bytes_down) == (3, 40)
    assert repr(history) == "History(2 rounds, 3 bytes up, 40 bytes down)"


def test_a_column_of_numbers():
    history = make_history(make_record(0, train_loss=0.5), make_record(1, train_loss=0.25))
    column = history.column("train_loss")
    assert column.dtype == np.float64
    np.testing.assert_array_equal(column, [0.5, 0.25])
    assert history.column("n_samples").dtype.kind == "i"


@pytest.mark.parametrize("participants", [(("a",), ("b", "c")), (("a", "b"), ("b", "c")), ((), ())])
def test_a_column_of_tuples_keeps_them_whole(participants):
    history = make_history(*(make_record(k, participants=keys) for k, keys in enumerate(participants)))
    column = history.column("participants")
    assert column.dtype == object
    assert column.shape == (2,)
    assert list(column) == list(participants)


def test_an_unknown_column():
    with pytest.raises(AttributeError, match="train_los"):
        make_history(make_record(0)).column("train_los")


def test_a_data_frame_has_one_row_per_round():
    pytest.importorskip("pandas")
    frame = make_history(make_record(0), make_record(1, relabeled_clients=("a",))).to_frame()
    assert list(frame.columns) == list(make_record(0).as_dict())
    assert frame["round"].tolist() == [0, 1]
    assert frame["relabeled_clients"].tolist() == [(), ("a",)]


def test_a_history_can_be_pickled():
    history = make_history(make_record(0, valid_loss=1.0, valid_score=1.0))
    history.notes.append("a note")
    copy = pickle.loads(pickle.dumps(history))
    assert list(copy) == list(history)
    assert copy.notes == ["a note"]
