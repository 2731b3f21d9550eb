"""A federation's state on disk: tensors in safetensors, the rest in JSON, a checksum over both. No pickle."""

import hashlib
import json
import os
import tempfile
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load, save

from fedrela_sk.federation._state import State
from fedrela_sk.report import RoundRecord

FORMAT = 1


class CorruptEntry(Exception):
    """A stored state cannot be read; the message says why."""


def write_state(path, state):
    """Store a state; a reader sees the whole of it or nothing.

    Parameters
    ----------
    path : str or Path
        Without ending; ``.safetensors`` and ``.json`` are added.
    state : State
        Without relabelled rows: what happened before the relabel round.
    """
    flat = _flatten(state)
    tensors = save(flat)
    facts = {
        "format": FORMAT,
        "names": list(flat),  # in their order, which decides that of sums
        "tensors": hashlib.sha256(tensors).hexdigest(),
        "records": [record.as_dict() for record in state.history],
        "notes": state.history.notes,
        "best": None if state.best is None else list(state.best[:2]),
    }
    text = json.dumps(facts)
    text = json.dumps({"checksum": hashlib.sha256(text.encode()).hexdigest(), "facts": text})
    _replace(Path(f"{path}.safetensors"), tensors)
    _replace(Path(f"{path}.json"), text.encode())


def _replace(path, content):
    """Write a file in one step: under another name first."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def read_state(path, fresh):
    """A stored state, None where there is none.

    Parameters
    ----------
    path : str or Path
        As in `write_state`.
    fresh : State
        The state before round 0 of the same fit; what is not stored is taken from it.

    Raises
    ------
    CorruptEntry
        If a checksum does not fit, or the format is another one.
    """
    try:
        outer = json.loads(Path(f"{path}.json").read_bytes())
        tensors = Path(f"{path}.safetensors").read_bytes()
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise CorruptEntry(f"{path}.json is no JSON: {error}") from error
    text = outer.get("facts") if isinstance(outer, dict) else None
    if not isinstance(text, str) or hashlib.sha256(text.encode()).hexdigest() != outer.get("checksum"):
        raise CorruptEntry(f"the checksum of {path}.json does not fit")
    facts = json.loads(text)
    if facts.get("format") != FORMAT:
        raise CorruptEntry(f"{path}.json has format {facts.get('format')}, expected {FORMAT}")
    if hashlib.sha256(tensors).hexdigest() != facts["tensors"]:
        raise CorruptEntry(f"the checksum of {path}.safetensors does not fit")
    try:
        return _unflatten(load(tensors), facts, fresh)
    except SafetensorError as error:
        raise CorruptEntry(f"{path}.safetensors cannot be read: {error}") from error


def _flatten(state):
    """All tensors of a state under one name each: part, client (or -), name."""
    parts = {("params", "-"): state.params, ("server", "-"): state.server}
    parts |= {("kept", position): tree for position, tree in state.kept.items()}
    parts |= {("clients", position): tree for position, tree in state.clients.items()}
    parts |= {("recorded", position): tree for position, tree in state.recorded.items()}
    if state.best is not None:
        parts[("best_params", "-")] = state.best[2]
        parts |= {("best_kept", position): tree for position, tree in state.best[3].items()}
    return {
        f"{part}/{position}/{name}": tensor.detach().cpu().contiguous().clone()
        for (part, position), tree in parts.items()
        for name, tensor in tree.items()
    }


def _unflatten(tensors, facts, fresh):
    device = next(iter(fresh.params.values())).device
    names = ("params", "server", "kept", "clients", "recorded", "best_params", "best_kept")
    parts = {name: {} for name in names}
    for key in facts["names"]:
        part, position, name = key.split("/", 2)
        tree = parts[part] if position == "-" else parts[part].setdefault(int(position), {})
        tree[name] = tensors[key].to(device)
    history = fresh.history
    history.notes[:] = facts["notes"]
    for record in facts["records"]:
        history.append(_record(record))
    best = facts["best"]
    return State(
        params=parts["params"],
        server=parts["server"],
        codes=fresh.codes,
        keep=fresh.keep,
        history=history,
        kept=parts["kept"],
        clients=parts["clients"],
        recorded=parts["recorded"],
        best=None if best is None else (*best, parts["best_params"], parts["best_kept"]),
    )


def _record(fields):
    """A `RoundRecord` from JSON, whose lists were tuples."""
    return RoundRecord(**{k: tuple(v) if isinstance(v, list) else v for k, v in fields.items()})
