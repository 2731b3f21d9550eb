"""One record per round."""

import dataclasses

import pytest

from tests.report.helpers import make_record


def test_a_record_as_a_dictionary():
    record = make_record(3, notes=("one",))
    fields = record.as_dict()
    assert list(fields) == [
        "round",
        "participants",
        "n_samples",
        "n_steps",
        "train_loss",
        "valid_loss",
        "valid_score",
        "n_relabeled",
        "relabeled_clients",
        "bytes_up",
        "bytes_down",
        "seconds",
        "notes",
    ]
    assert fields["round"] == 3
    assert fields["participants"] == ("a", "b")
    assert fields["notes"] == ("one",)


def test_nothing_out_of_the_ordinary_is_the_default():
    assert make_record(0).notes == ()


def test_a_record_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        make_record(0).round = 1
