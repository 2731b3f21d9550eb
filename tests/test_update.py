"""What travels between the rooms of one round."""

import dataclasses

import numpy as np
import pytest
import torch

from fedrela_sk._update import ChunkUpdate, ClientSpec, ClientUpdate, Receipt
from fedrela_sk.aggregation import WeightedMean

SPECS = tuple(
    ClientSpec(key, code, k, np.arange(2), np.arange(1)) for k, (key, code) in enumerate([("a", 7), ("b", 9)])
)


class OneByOne:
    """An aggregator that knows single updates alone."""

    def __init__(self):
        self.added = []

    def add(self, tensors, weight):
        self.added.append(({name: tensor.tolist() for name, tensor in tensors.items()}, weight))


def make_chunk():
    return ChunkUpdate(
        clients=SPECS,
        tensors={"w": torch.tensor([[1.0, 2.0], [5.0, 6.0]]), "n": torch.tensor([3, 4])},
        weights=np.array([1.0, 3.0]),
        kept={"head": torch.tensor([[8.0], [9.0]])},
        state={"c": torch.tensor([0.5, 0.25])},
        losses=np.array([0.1, 0.2]),
        steps=np.array([4, 2]),
        notes=((), ("one row",)),
    )


def test_an_update_says_nothing_but_what_it_must():
    update = ClientUpdate(SPECS[0], {"w": torch.zeros(1)}, 2.0)
    assert (update.kept, update.state, update.n_steps, update.notes) == ({}, {}, 0, ())
    assert np.isnan(update.loss)
    assert ClientUpdate(SPECS[0], {}, 1.0).kept is not update.kept


@pytest.mark.parametrize("record", [SPECS[0], ClientUpdate(SPECS[0], {}, 1.0), make_chunk()])
def test_records_cannot_be_changed(record):
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(record, dataclasses.fields(record)[0].name, None)


def test_bytes_are_those_of_the_tensors_and_of_the_weight():
    tensors = {"w": torch.zeros(3), "n": torch.tensor(1)}
    assert ClientUpdate(SPECS[0], tensors, 1.0).nbytes == 12 + 8 + 8


def test_what_stays_at_the_client_is_not_counted():
    kept, state = {"head": torch.zeros(100)}, {"c": torch.zeros(100)}
    assert ClientUpdate(SPECS[0], {"w": torch.zeros(1)}, 1.0, kept, state).nbytes == 4 + 8
    assert ClientUpdate(SPECS[0], {}, 1.0, kept, state).nbytes == 0


def test_an_update_folds_itself_in():
    aggregator = OneByOne()
    update = ClientUpdate(SPECS[0], {"w": torch.tensor([1.0])}, 2.0)
    update.add_to(aggregator)
    assert aggregator.added == [({"w": [1.0]}, 2.0)]
    assert update.singles() == (update,)


def test_the_updates_of_a_chunk_one_by_one():
    chunk = make_chunk()
    first, second = chunk.singles()
    assert (first.client, second.client) == SPECS
    assert (first.tensors["w"].tolist(), first.tensors["n"].item()) == ([1.0, 2.0], 3)
    assert (second.tensors["w"].tolist(), second.tensors["n"].item()) == ([5.0, 6.0], 4)
    assert (first.weight, second.weight) == (1.0, 3.0)
    assert (first.kept["head"].tolist(), second.kept["head"].tolist()) == ([8.0], [9.0])
    assert (first.state["c"].item(), second.state["c"].item()) == (0.5, 0.25)
    assert (first.loss, second.loss) == (0.1, 0.2)
    assert (first.n_steps, second.n_steps) == (4, 2)
    assert (first.notes, second.notes) == ((), ("one row",))
    assert first.nbytes == 8 + 8 + 8
    first.tensors["w"].fill_(0)
    assert chunk.tensors["w"][0].tolist() == [0, 0]


def test_a_chunk_folds_itself_in_whole_or_one_by_one():
    chunk = make_chunk()
    aggregator = OneByOne()
    chunk.add_to(aggregator)
    assert aggregator.added == [
        ({"w": [1.0, 2.0], "n": 3}, 1.0),
        ({"w": [5.0, 6.0], "n": 4}, 3.0),
    ]
    whole = WeightedMean()
    chunk.add_to(whole)
    assert whole.total_weight == 4
    assert whole.result()["w"].tolist() == [4.0, 5.0]
    assert whole.result()["n"].item() == 4


def test_receipts_say_what_the_singles_hold():
    chunk = make_chunk()
    nbytes = {"model": 8, "extra tensors": 8, "weights": 8}
    assert chunk.receipts({"w"}) == [
        Receipt(SPECS[0], 4, 0.1, (), nbytes),
        Receipt(SPECS[1], 2, 0.2, ("one row",), nbytes),
    ]
    assert chunk.receipts({"w"}) == [
        receipt for single in chunk.singles() for receipt in single.receipts({"w"})
    ]


def test_a_chunk_that_sends_nothing_has_no_bytes():
    chunk = dataclasses.replace(make_chunk(), tensors={})
    assert [receipt.nbytes for receipt in chunk.receipts({"w"})] == [{}, {}]
    assert [single.nbytes for single in chunk.singles()] == [0, 0]
