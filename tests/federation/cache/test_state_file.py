"""A federation's state on disk and back: everything comes back, and damage is never taken for a state."""

import dataclasses
import hashlib
import json
import os

import numpy as np
import pytest
import torch

from fedrela_sk.federation._state import ClientStates, ServerState, State
from fedrela_sk.federation.cache._state_file import FORMAT, CorruptEntry, read_state, write_state
from fedrela_sk.report import History, RoundRecord

KEY = {"data": "123", "seed": "456"}
PARAMS = {
    "z.weight": torch.arange(6, dtype=torch.float32).reshape(2, 3),
    "a/b.running_mean": torch.tensor([0.1, 0.2], dtype=torch.float64),
    "a/b.num_batches_tracked": torch.tensor(7),
    "half": torch.tensor([1.5, -0.0, float("inf")], dtype=torch.bfloat16),
    "flag": torch.tensor([True, False]),
    "empty": torch.zeros(0, 3),
}


def changed(tree, factor):
    return {name: (tensor * factor).to(tensor.dtype) for name, tensor in tree.items()}


def make_record(round, **fields):
    return RoundRecord(
        round=round,
        participants=("a", 1, 2.5, True),
        n_samples=10,
        n_steps=3,
        train_loss=1 / 3,
        valid_loss=float("nan"),
        valid_score=0.1 + 0.2,
        n_relabeled=0,
        relabeled_clients=(),
        seconds=1e-300,
        traffic={"up": {"model": 1}, "down": {"reports": 2}},
        **fields,
    )


def make_state(fresh=False, best=False):
    """A state after two rounds, or the one before round 0 of the same fit."""
    params = {name: torch.zeros_like(tensor) for name, tensor in PARAMS.items()} if fresh else PARAMS
    history = History(("idle",), 0.25)
    history.notes.append("of the partition")
    clients = ClientStates(np.array([0, 1, 1]), np.ones(3, dtype=bool))
    state = State(ServerState(params, {}), clients, history)
    if fresh:
        return state
    history.append(make_record(0))
    history.append(make_record(1, notes=("client 'a' has one row", "ü")))
    history.notes.append("of a round")
    state.server.method = {"momentum": torch.tensor([[1.0], [2.0]]), "a": torch.tensor(1.0)}
    weight = params["z.weight"]
    state.clients.kept = {12: {"z.weight": -weight, "half": params["half"]}, 3: {"z.weight": weight * 3}}
    state.clients.method = {3: {"d": torch.tensor(3.0), "c": torch.tensor(3.0)}, 0: {"c": torch.tensor(0.0)}}
    state.clients.recorded = {
        7: {"round": torch.tensor(1), "posteriors": torch.tensor([[0.25, 0.75]]).double()}
    }
    if best:
        state.best = (0.1 + 0.2, 1, changed(params, 2), {3: {"z.weight": weight * 6}})
    return state


def assert_same_tree(one, other):
    """Equal names in the same order, equal bytes, dtypes and shapes."""
    assert list(one) == list(other)
    for name, tensor in one.items():
        assert (tensor.dtype, tensor.shape) == (other[name].dtype, other[name].shape)
        assert torch.equal(tensor, other[name])


@pytest.mark.parametrize("best", [False, True])
def test_everything_comes_back(tmp_path, best):
    state = make_state(best=best)
    write_state(tmp_path / "entry", state, KEY)
    found = read_state(tmp_path / "entry", make_state(fresh=True), KEY, 2)
    assert_same_tree(found.server.params, state.server.params)
    assert_same_tree(found.server.method, state.server.method)
    for name in ("kept", "method", "recorded"):
        one, other = getattr(found.clients, name), getattr(state.clients, name)
        assert list(one) == list(other)
        for position in one:
            assert_same_tree(one[position], other[position])
    assert [str(r.as_dict()) for r in found.history] == [str(r.as_dict()) for r in state.history]
    assert found.history.notes == state.history.notes
    assert found.clients.relabelings == {}
    np.testing.assert_array_equal(found.clients.codes, state.clients.codes)
    np.testing.assert_array_equal(found.clients.keep, state.clients.keep)
    if not best:
        assert found.best is None
        return
    assert found.best[:2] == state.best[:2]
    assert_same_tree(found.best[2], state.best[2])
    assert_same_tree(found.best[3][3], state.best[3][3])


def test_what_comes_back_shares_no_memory_and_may_be_written_to(tmp_path):
    state = make_state()
    write_state(tmp_path / "entry", state, KEY)
    found = read_state(tmp_path / "entry", make_state(fresh=True), KEY, 2)
    found.server.params["z.weight"].zero_()
    again = read_state(tmp_path / "entry", make_state(fresh=True), KEY, 2)
    assert_same_tree(again.server.params, state.server.params)


def test_where_nothing_is_stored_nothing_comes_back(tmp_path):
    assert read_state(tmp_path / "entry", make_state(fresh=True), KEY, 2) is None
    write_state(tmp_path / "entry", make_state(), KEY)
    for ending in ("json", "safetensors"):
        (tmp_path / f"entry.{ending}").rename(tmp_path / "away")
        assert read_state(tmp_path / "entry", make_state(fresh=True), KEY, 2) is None
        (tmp_path / "away").rename(tmp_path / f"entry.{ending}")
    assert read_state(tmp_path / "entry", make_state(fresh=True), KEY, 2) is not None


def test_a_second_state_takes_the_place_of_the_first(tmp_path):
    write_state(tmp_path / "entry", make_state(best=True), KEY)
    write_state(tmp_path / "entry", make_state(), KEY)
    assert read_state(tmp_path / "entry", make_state(fresh=True), KEY, 2).best is None
    assert sorted(file.name for file in tmp_path.iterdir()) == ["entry.json", "entry.safetensors"]


def test_files_hold_no_pickle(tmp_path):
    write_state(tmp_path / "entry", make_state(), KEY)
    outer = json.loads((tmp_path / "entry.json").read_text())
    assert set(outer) == {"checksum", "facts"}
    assert json.loads(outer["facts"])["format"] == FORMAT
    header = (tmp_path / "entry.safetensors").read_bytes()
    assert header[8:9] == b"{"


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such bits")
def test_who_may_read_the_folder_may_read_its_files(tmp_path):
    write_state(tmp_path / "entry", make_state(), KEY)
    (tmp_path / "usual").write_text("")
    usual = (tmp_path / "usual").stat().st_mode
    assert {file.stat().st_mode for file in tmp_path.iterdir()} == {usual}


def test_a_state_that_cannot_be_written_leaves_nothing(tmp_path, monkeypatch):
    def full(*args):
        raise OSError("no space left")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match="no space left"):
        write_state(tmp_path / "entry", make_state(), KEY)
    assert list(tmp_path.iterdir()) == []


# --- damage ---------------------------------------------------------------------------------------------


def flipped(content):
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def resigned(**changes):
    """The facts with changes, under a checksum that fits."""

    def edit(content):
        facts = json.dumps(json.loads(json.loads(content)["facts"]) | changes)
        return json.dumps({"checksum": hashlib.sha256(facts.encode()).hexdigest(), "facts": facts}).encode()

    return edit


@pytest.mark.parametrize(
    ("file", "damage", "message"),
    [
        ("json", lambda content: content[:-20], r"entry\.json is no JSON"),
        ("json", lambda content: b"", r"entry\.json is no JSON"),
        ("json", lambda content: b"\xff\xfe\x00garbage", r"entry\.json is no JSON"),
        ("json", flipped, r"the checksum of .*entry\.json does not fit|is no JSON"),
        ("json", lambda content: b"[1, 2]", r"the checksum of .*entry\.json does not fit"),
        ("json", lambda content: b'"text"', r"the checksum of .*entry\.json does not fit"),
        ("json", lambda content: b"{}", r"the checksum of .*entry\.json does not fit"),
        (
            "json",
            lambda content: b'{"facts": 5, "checksum": 5}',
            r"the checksum of .*entry\.json does not fit",
        ),
        (
            "json",
            lambda content: b'{"facts": "", "checksum": null}',
            r"the checksum of .*entry\.json does not fit",
        ),
        ("json", resigned(format=FORMAT + 1), rf"has format {FORMAT + 1}, expected {FORMAT}"),
        ("json", resigned(format=None), rf"has format None, expected {FORMAT}"),
        ("safetensors", lambda content: content[:-3], r"the checksum of .*entry\.safetensors does not fit"),
        ("safetensors", lambda content: b"", r"the checksum of .*entry\.safetensors does not fit"),
        ("safetensors", flipped, r"the checksum of .*entry\.safetensors does not fit"),
    ],
)
def test_damage_is_told(tmp_path, file, damage, message):
    write_state(tmp_path / "entry", make_state(best=True), KEY)
    path = tmp_path / f"entry.{file}"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(CorruptEntry, match=message):
        read_state(tmp_path / "entry", make_state(fresh=True), KEY, 2)


def test_any_flipped_byte_is_seen(tmp_path):
    write_state(tmp_path / "entry", make_state(), KEY)
    for file in ("entry.json", "entry.safetensors"):
        content = (tmp_path / file).read_bytes()
        for i in range(0, len(content), 97):
            (tmp_path / file).write_bytes(content[:i] + bytes([content[i] ^ 64]) + content[i + 1 :])
            with pytest.raises(CorruptEntry):
                read_state(tmp_path / "entry", make_state(fresh=True), KEY, 2)
        (tmp_path / file).write_bytes(content)


def without(name):
    """The facts without one of them, under a checksum that fits."""

    def edit(content):
        facts = json.loads(json.loads(content)["facts"])
        del facts[name]
        text = json.dumps(facts)
        return json.dumps({"checksum": hashlib.sha256(text.encode()).hexdigest(), "facts": text}).encode()

    return edit


def signed(text):
    """A text as facts, under a checksum that fits."""
    outer = json.dumps({"checksum": hashlib.sha256(text.encode()).hexdigest(), "facts": text})
    return lambda content: outer.encode()


FACTS = ("format", "key", "names", "tensors", "records", "notes", "best")
WRONG = (None, 5, -1, "text", [], [1], [[1, 2]], {}, {"a": 1}, [None], [{"round": 0}, {"round": 1}])
ODD = {
    "nested without end": lambda content: b"[" * 100_000,
    "nested facts": signed("[" * 100_000),
    "facts that are a list": signed("[1]"),
    "facts that are a number": signed("1"),
    "facts that are no JSON": signed("{"),
    "no number": signed('{"format": NaN}'),
    **{f"without {name}": without(name) for name in FACTS},
    **{f"{name} is {value!r}": resigned(**{name: value}) for name in FACTS for value in WRONG},
}
# what a state may well be: no note, no best round; texts of notes are nobody's business
FINE = {"notes is []", "best is None"}


@pytest.mark.parametrize("name", [name for name in ODD if name not in FINE])
def test_whatever_decoding_raises_is_damage(tmp_path, name):
    write_state(tmp_path / "entry", make_state(best=True), KEY)
    path, fresh = tmp_path / "entry.json", make_state(fresh=True)
    path.write_bytes(ODD[name](path.read_bytes()))
    with pytest.raises(CorruptEntry):
        read_state(tmp_path / "entry", fresh, KEY, 2)
    assert (len(fresh.history), fresh.history.notes) == (
        0,
        ["of the partition"],
    )  # ready to be computed again


def test_an_entry_of_another_key_is_told(tmp_path):
    """Renamed, or copied over another one."""
    write_state(tmp_path / "entry", make_state(), KEY)
    for key in (KEY | {"seed": "other"}, KEY | {"more": "1"}, {"data": "123"}):
        with pytest.raises(CorruptEntry, match=r"entry\.json was stored for another fit: (seed|more)$"):
            read_state(tmp_path / "entry", make_state(fresh=True), key, 2)


def test_a_state_of_another_model_or_length_is_told(tmp_path):
    state = make_state()
    write_state(tmp_path / "entry", state, KEY)
    with pytest.raises(CorruptEntry, match="does not hold the records of rounds 0 to 2"):
        read_state(tmp_path / "entry", make_state(fresh=True), KEY, 3)
    for changes in ({"empty": torch.zeros(1, 3)}, {"more": torch.zeros(1)}):
        fresh = make_state(fresh=True)
        fresh.server.params = fresh.server.params | changes
        with pytest.raises(CorruptEntry, match=rf"holds another model: {next(iter(changes))}"):
            read_state(tmp_path / "entry", fresh, KEY, 2)


@pytest.mark.parametrize("name", [("a", 1), (("a",), 2), np.str_("a"), np.float64(0.5)])
def test_a_record_that_json_would_change_is_not_written(tmp_path, name):
    state = make_state()
    state.history.append(dataclasses.replace(make_record(2), participants=(name,)))
    with pytest.raises(TypeError, match="JSON does not keep the record of round 2"):
        write_state(tmp_path / "entry", state, KEY)
    assert list(tmp_path.iterdir()) == []


def test_tensors_that_are_none_are_told_whatever_their_checksum(tmp_path):
    write_state(tmp_path / "entry", make_state(), KEY)
    garbage = b"not safetensors at all"
    edit = resigned(tensors=hashlib.sha256(garbage).hexdigest())
    (tmp_path / "entry.safetensors").write_bytes(garbage)
    (tmp_path / "entry.json").write_bytes(edit((tmp_path / "entry.json").read_bytes()))
    with pytest.raises(CorruptEntry, match=r"entry\.safetensors cannot be read"):
        read_state(tmp_path / "entry", make_state(fresh=True), KEY, 2)
