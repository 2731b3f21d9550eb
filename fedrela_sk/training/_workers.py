"""Local training spread over joblib workers: the same units of work, the same order, the same results."""

import atexit
import sys
import threading
import uuid
from dataclasses import dataclass, replace
from typing import Any

import torch
from joblib import Parallel, delayed, effective_n_jobs
from joblib.parallel import get_active_backend

from fedrela_sk.exceptions import NetError
from fedrela_sk.training._layout import from_array, to_array
from fedrela_sk.training._task import Instructions, LocalData, LocalTask
from fedrela_sk.training._threads import torch_threads
from fedrela_sk.training.runtime._shared import SharedFolder, read_shared

# Thread to the token of a fit, with its data's version, and what this worker loaded for it. Not the threads'
# own: a thread that frees tensors while the interpreter ends aborts the process.
_held: dict[int, Any] = {}


class _Underway:
    """The units that threads of this process train; the process does not end before they do.

    joblib's threads are daemons, which a process that ends (`sys.exit` inside a fit) stops wherever they
    are; stopped inside torch, they abort it.
    """

    def __init__(self):
        self._changed, self._n, self._ending = threading.Condition(), 0, False

    def __enter__(self):
        with self._changed:
            if self._ending:
                raise RuntimeError("This process is ending: no further clients are trained.")
            self._n += 1

    def __exit__(self, *_):
        with self._changed:
            self._n -= 1
            self._changed.notify_all()

    def end(self):
        """Let no further unit begin, and wait for the others."""
        with self._changed:
            self._ending = True
            self._changed.wait_for(lambda: self._n == 0)


_underway = _Underway()
atexit.register(_underway.end)


class WorkerPool:
    """An engine whose units of work (a chunk, or one client of the loop) run on joblib workers.

    Data are written once and memory-mapped by every worker; a message holds the model, the keys of the
    clients and what they keep, never rows. Updates come back in the plan's order, so results do not
    depend on the number of workers or on the backend.

    Parameters
    ----------
    engine : running engine
        Gives the plan; workers start their own from the same settings.
    start : callable of (net, data, algorithm, n_classes, seed)
        Starts an engine of the same kind.
    n_jobs : int
        As in joblib.
    n_threads : int
        torch threads of each worker.
    """

    def __init__(self, engine, start, n_jobs, n_threads):
        self.engine = engine
        self.settings = engine.settings
        self.name, self.kind = engine.name, engine.kind
        self.chunk_size, self.precision = engine.chunk_size, engine.precision
        self.n_jobs, self.n_threads = n_jobs, n_threads
        self.token = uuid.uuid4().hex
        self._folder = SharedFolder()
        self._layout, self._clients, self._version, self._data_version = {}, {}, 0, 0
        try:
            self._write_setup(start)
        except BaseException:
            self.close()
            raise

    def _write_setup(self, start):
        """Write the data and what a worker needs to start an engine on them."""
        engine = self.engine
        self._write_data()
        # by its parts, since skorch's own pickling of a net goes by name
        net = (type(engine.net), vars(engine.net))
        try:
            self._folder.write("setup", (start, net, engine.algorithm, engine.n_classes, engine.seed))
        except Exception as error:
            raise NetError(
                f"The net cannot be sent to other processes ({type(error).__name__}: {error}). "
                "Leave n_jobs at None, or remove what cannot be pickled from the module and its callbacks."
            ) from error

    def _write_data(self):
        """Write the rows over the old ones, between rounds: workers are told by the number of the version."""
        data = self.engine.data
        weights = None if data.weights is None else data.weights.numpy()
        self._data_version += 1
        self._folder.write("data", (*to_array(data.X), weights, data.mixing, data.module_dtype))

    def set_data(self, data):
        """Go on with other `LocalData`, as clients' samplers made them."""
        self.engine.set_data(data)
        self._write_data()

    def forget(self):
        """Leave nothing of the clients that trained last in this process; workers see to that themselves."""
        self.engine.forget()

    def close(self):
        """Remove what was written, and what threads of this process loaded."""
        for thread, ((fit, _), _) in list(_held.items()):
            if fit == self.token:
                _held.pop(thread, None)
        self._folder.close()

    def train(self, tasks, instructions):
        """Updates of the clients of one round; as the engine's own `train`."""
        tasks = list(tasks)
        self._write_layout(tasks)
        units = self.engine.units(tasks, effective_n_jobs(self.n_jobs))
        calls = (
            delayed(_train_unit)(
                self._folder.path,
                (self.token, self._data_version),
                self._version,
                self.n_threads,
                _Message.of(unit, instructions),
            )
            for unit in units
        )
        # large arrays of a message are mapped by joblib: copy on write, as torch wants writable memory
        for updates in Parallel(n_jobs=self.n_jobs, return_as=_return_as(), mmap_mode="c")(calls):
            yield from map(_with_tensors, updates)

    def _write_layout(self, tasks):
        """Write rows and labels of clients that are new or were relabeled since."""
        parts = {task.client.position: (task.rows, task.y, task.class_weights, task.counts) for task in tasks}
        known = self._layout
        if all(p in known and all(a is b for a, b in zip(known[p], parts[p], strict=True)) for p in parts):
            return
        self._layout = known | parts
        self._version += 1
        n_known = len(self._clients)
        self._clients |= {task.client.position: task.client for task in tasks}
        if len(self._clients) > n_known:
            # new ones behind the known ones, whose bytes stay: updates that came from threads still hold them
            self._folder.write("clients", self._clients)
        layout = {p: [None if t is None else t.numpy() for t in part] for p, part in self._layout.items()}
        self._folder.write("layout", layout)


def _return_as():
    """Updates as they come, or all at once with backends that know no other way: multiprocessing, Ray, Dask."""
    backend, _ = get_active_backend()
    return "generator" if getattr(backend, "supports_return_generator", False) else "list"


@dataclass(frozen=True)
class _Message:
    """One unit of work without rows: what differs from round to round."""

    instructions: Instructions
    positions: tuple
    weights: tuple
    records: tuple
    params: Any
    states: tuple

    @classmethod
    def of(cls, unit, instructions):
        first = unit[0].params
        shared = {n: t for n, t in first.items() if all(task.params[n] is t for task in unit)}
        own = [_to_arrays({n: t for n, t in task.params.items() if n not in shared}) for task in unit]
        return cls(
            replace(instructions, server=_to_arrays(instructions.server)),
            tuple(task.client.position for task in unit),
            tuple(task.weight for task in unit),
            tuple(task.record for task in unit),
            (_to_arrays(shared), own, tuple(first)),
            tuple(_to_arrays(task.state) for task in unit),
        )

    def tasks(self, layout):
        """The unit's tasks, rows and labels from the worker's own copy."""
        shared, own, order = self.params
        shared = _to_tensors(shared)
        tasks = []
        for position, weight, record, private, state in zip(
            self.positions, self.weights, self.records, own, self.states, strict=True
        ):
            client, rows, y, class_weights, counts = layout[position]
            full = shared | _to_tensors(private)
            params = {name: full[name] for name in order}
            tasks.append(
                LocalTask(client, rows, y, class_weights, weight, params, _to_tensors(state), counts, record)
            )
        return tasks


def _train_unit(folder, token, version, n_threads, message):
    """Train one unit in a worker."""
    with _underway, torch_threads(n_threads):
        return _train(folder, token, version, message)


def _train(folder, token, version, message):
    """What holds tensors, gone when this returns."""
    fit = _load(folder, token)
    if fit["version"] != version:
        fit["layout"] = _load_layout(folder)
        fit["version"] = version
    instructions = replace(message.instructions, server=_to_tensors(message.instructions.server))
    updates = fit["engine"].train_unit(message.tasks(fit["layout"]), instructions)
    return [_with_arrays(update) for update in updates]


def _load(folder, token):
    """What this thread holds for a fit: its own engine on memory-mapped data. One fit at a time."""
    thread = threading.get_ident()
    if _held.get(thread, (None, None))[0] != token:
        for ended in _held.keys() - sys._current_frames().keys() | {thread}:
            _held.pop(ended, None)
        X, last, weights, mixing, dtype = read_shared(folder, "data")
        start, (kind, attributes), algorithm, n_classes, seed = read_shared(folder, "setup")
        net = object.__new__(kind)
        vars(net).update(attributes)
        weights = None if weights is None else torch.from_numpy(weights)
        data = LocalData(from_array(X, last), weights, mixing, dtype)
        engine = start(net, data, algorithm, n_classes, seed)
        _held[thread] = (token, {"engine": engine, "version": None})
    return _held[thread][1]


def _load_layout(folder):
    clients, layout = read_shared(folder, "clients"), read_shared(folder, "layout")
    return {
        position: (clients[position], *[None if a is None else torch.from_numpy(a) for a in arrays])
        for position, arrays in layout.items()
    }


def _to_arrays(tree):
    """Tensors as arrays, which travel between processes by value."""
    return {name: tensor.numpy() for name, tensor in tree.items()}


def _to_tensors(tree):
    return {name: torch.from_numpy(array) for name, array in tree.items()}


def _with_arrays(update):
    return _convert(update, _to_arrays)


def _with_tensors(update):
    return _convert(update, _to_tensors)


def _convert(update, convert):
    trees = {name: convert(getattr(update, name)) for name in ("tensors", "kept", "state", "recorded")}
    return replace(update, **trees)
