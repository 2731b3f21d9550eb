"""One record per round."""

import dataclasses

import pytest

from fedrela_sk._update import PURPOSES
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
        "seconds",
        "notes",
        "bytes_up",
        "bytes_down",
        *[f"bytes_up: {purpose}" for purpose in PURPOSES],
        *[f"bytes_down: {purpose}" for purpose in PURPOSES],
    ]
    assert (fields["bytes_up"], fields["bytes_up: weights"], fields["bytes_down: model"]) == (100, 16, 80)
    assert (record.bytes_up, record.bytes_down) == (100, 90)
    assert fields["round"] == 3
    assert fields["participants"] == ("a", "b")
    assert fields["notes"] == ("one",)


def test_nothing_out_of_the_ordinary_is_the_default():
    assert make_record(0).notes == ()


def test_a_record_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        make_record(0).round = 1
