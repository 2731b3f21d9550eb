"""A federation's state on disk: tensors in safetensors, the rest in JSON, a checksum over both. No pickle."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load, save

from fedrela_sk._deprecation import with_new_names
from fedrela_sk.federation._files import replace_file
from fedrela_sk.federation._state import ServerState, State
from fedrela_sk.report import RoundRecord

FORMAT = 3


class CorruptEntry(Exception):
    """A stored state cannot be read; the message says why."""


def write_state(path, state, key):
    """Store a state; a reader sees the whole of it or nothing.

    Parameters
    ----------
    path : str or Path
        Without ending; ``.safetensors`` and ``.json`` are added.
    state : State
        Without relabeled rows: what happened before the relabel round.
    key : dict of str
        What the state depends on; `read_state` compares it.

    Raises
    ------
    TypeError
        If JSON would not give the records back as they are.
    """
    flat = _flatten(state)
    tensors = save({name: tensor.cpu().contiguous().clone() for name, tensor in flat.items()})
    facts = {
        "format": FORMAT,
        "key": key,
        # in their order, which decides that of sums
        "names": [[name, str(tensor.device)] for name, tensor in flat.items()],
        "tensors": hashlib.sha256(tensors).hexdigest(),
        "records": [vars(record) for record in state.history],
        "notes": state.history.notes,
        "best": None if state.best is None else list(state.best[:2]),
    }
    text = json.dumps(facts)
    _check_records(json.loads(text)["records"], state.history)
    text = json.dumps({"checksum": hashlib.sha256(text.encode()).hexdigest(), "facts": text})
    replace_file(Path(f"{path}.safetensors"), tensors)
    replace_file(Path(f"{path}.json"), text.encode())


def _check_records(stored, history):
    """Refuse records that would come back as something else, such as names of clients that are tuples."""
    for fields, record in zip(stored, history, strict=True):
        if repr(_record(fields)) != repr(record):
            raise TypeError(f"JSON does not keep the record of round {record.round}: {record!r}")


def read_state(path, fresh, key, n_rounds):
    """A stored state, None where there is none.

    Parameters
    ----------
    path : str or Path
        As in `write_state`.
    fresh : State
        The state before round 0 of the same fit; what is not stored is taken from it.
    key : dict of str
        What the state must have been stored for.
    n_rounds : int
        How many rounds it must have.

    Raises
    ------
    CorruptEntry
        If it cannot be read for whatever reason, a checksum does not fit, it was stored for another key, or it
        is no state of this model.
    """
    try:
        return _read(path, fresh, key, n_rounds)
    except FileNotFoundError:
        return None
    except (CorruptEntry, OSError):
        raise
    except Exception as error:  # whatever decoding raises
        raise CorruptEntry(f"{path} cannot be read: {type(error).__name__}: {error}") from error


def _read(path, fresh, key, n_rounds):
    facts = _facts(path)
    if facts.get("format") != FORMAT:
        raise CorruptEntry(f"{path}.json has format {facts.get('format')}, expected {FORMAT}")
    if facts["key"] != key:
        raise CorruptEntry(f"{path}.json was stored for another fit: {_differences(facts['key'], key)}")
    tensors = Path(f"{path}.safetensors").read_bytes()
    if hashlib.sha256(tensors).hexdigest() != facts["tensors"]:
        raise CorruptEntry(f"the checksum of {path}.safetensors does not fit")
    try:
        tensors = load(tensors)
    except SafetensorError as error:
        raise CorruptEntry(f"{path}.safetensors cannot be read: {error}") from error
    _check_words(path, facts)
    parts = _parts(tensors, facts)
    _check_model(path, parts["params"], fresh.server.params)
    if [record["round"] for record in facts["records"]] != list(range(n_rounds)):
        raise CorruptEntry(f"{path}.json does not hold the records of rounds 0 to {n_rounds - 1}")
    return _state(parts, facts, fresh)


def _facts(path):
    """What the JSON file says, if its checksum fits."""
    content = Path(f"{path}.json").read_bytes()
    try:
        outer = json.loads(content)
    except ValueError as error:
        raise CorruptEntry(f"{path}.json is no JSON: {error}") from error
    text = outer.get("facts") if isinstance(outer, dict) else None
    if not isinstance(text, str) or hashlib.sha256(text.encode()).hexdigest() != outer.get("checksum"):
        raise CorruptEntry(f"the checksum of {path}.json does not fit")
    return json.loads(text)


def _differences(stored, key):
    """Names of the entries in which two keys differ."""
    return ", ".join(name for name in sorted({*stored, *key}) if stored.get(name) != key.get(name))


def _check_words(path, facts):
    """Refuse notes that are no texts, and a best round that is no pair of numbers."""
    notes, best = facts["notes"], facts["best"]
    if not (isinstance(notes, list) and all(isinstance(note, str) for note in notes)):
        raise CorruptEntry(f"{path}.json has the notes {notes!r}")
    if best is not None and list(map(type, best)) != [float, int]:
        raise CorruptEntry(f"{path}.json has the best round {best!r}")


def _check_model(path, params, fresh):
    """Refuse tensors that the model does not have."""
    found, expected = ({name: tensor.shape for name, tensor in tree.items()} for tree in (params, fresh))
    if found != expected:
        raise CorruptEntry(f"{path}.safetensors holds another model: {_differences(found, expected)}")


def _flatten(state):
    """All tensors of a state under one name each: part, client (or -), name."""
    parts = {("params", "-"): state.server.params, ("server", "-"): state.server.method}
    parts |= {("kept", position): tree for position, tree in state.clients.kept.items()}
    parts |= {("clients", position): tree for position, tree in state.clients.method.items()}
    parts |= {("recorded", position): tree for position, tree in state.clients.recorded.items()}
    if state.best is not None:
        parts[("best_params", "-")] = state.best[2]
        parts |= {("best_kept", position): tree for position, tree in state.best[3].items()}
    return {
        f"{part}/{position}/{name}": tensor.detach()
        for (part, position), tree in parts.items()
        for name, tensor in tree.items()
    }


def _parts(tensors, facts):
    """The trees of `_flatten` by name of the part, on the devices that they came from."""
    names = ("params", "server", "kept", "clients", "recorded", "best_params", "best_kept")
    parts = {name: {} for name in names}
    for key, device in facts["names"]:
        part, position, name = key.split("/", 2)
        tree = parts[part] if position == "-" else parts[part].setdefault(int(position), {})
        tree[name] = tensors[key].to(device)
    return parts


def _state(parts, facts, fresh):
    """The state; the history of `fresh` is filled only once everything was read."""
    records, notes, best = [_record(fields) for fields in facts["records"]], facts["notes"], facts["best"]
    best = None if best is None else (*best, parts["best_params"], parts["best_kept"])
    history = fresh.history
    history.notes[:] = notes
    for record in records:
        history.append(record)
    clients = replace(fresh.clients, kept=parts["kept"], method=parts["clients"], recorded=parts["recorded"])
    return State(ServerState(parts["params"], parts["server"]), clients, history, best)


def _record(fields):
    """A `RoundRecord` from JSON, whose lists were tuples."""
    fields = with_new_names(RoundRecord, fields)
    return RoundRecord(**{k: tuple(v) if isinstance(v, list) else v for k, v in fields.items()})
