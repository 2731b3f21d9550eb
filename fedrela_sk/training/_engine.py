"""Which engine trains the clients: by name, by an object with settings, or by facts that never change."""

from collections.abc import Iterable
from numbers import Integral
from typing import Any, Literal, Protocol, runtime_checkable

import torch
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator
from torch import nn

from fedrela_sk._deprecation import old_attributes
from fedrela_sk._sklearn import Interval, StrOptions, validate_parameter_constraints
from fedrela_sk.exceptions import NetError
from fedrela_sk.training._task import Instructions, LocalData, LocalTask
from fedrela_sk.training._workers import WorkerPool
from fedrela_sk.training.loop._engine import LoopEngine
from fedrela_sk.training.stacked._engine import StackedEngine
from fedrela_sk.training.stacked._graph import NotStackable

# Up to this many parameters a dense net is faster stacked than one client after the other on a CPU, as
# measured by `python -m benchmarks.run auto_table` (benchmarks/results/auto_table.csv), at batches of 8 to 512.
_STACKED_UP_TO = 50_000
_FEW_CLIENTS = 3


@runtime_checkable
class RunningEngine(Protocol):
    """What a fit needs of a running engine, and what `joblib` workers need of it.

    Attributes
    ----------
    name : str
        As the settings' own; ``engine_`` of a fitted federation begins with it.
    kind : str or None
        How it runs this net, where there is more than one way ("direct", "vmap"); part of cache keys.
    chunk_size : int
        Most clients that share one computation; results may depend on it by rounding, so it is part of cache keys.
    precision : str or None
        Of products, None for the module's own; part of cache keys.
    settings : object
        How every client trains, as it is read off the net: of a `Loop` or `Stacked` that was started on the same net.
    net, data, algorithm, n_classes, seed
        What it was started with; `data` are those of the last `set_data`.
    """

    name: str
    kind: str | None
    chunk_size: int
    precision: str | None
    settings: Any
    net: Any
    data: LocalData
    algorithm: Any
    n_classes: int
    seed: int

    def train(self, tasks: Iterable[LocalTask], instructions: Instructions) -> Iterable[Any]:
        """Yield the updates of all clients of one round.

        Parameters
        ----------
        tasks : iterable of LocalTask
            Clients, each with the model that it received.
        instructions : Instructions
            What holds for all of them.

        Yields
        ------
        update : ClientUpdate or ChunkUpdate
            Each client in one of them, in an order that depends on keys, numbers of rows and `chunk_size` only.
        """

    def units(self, tasks: list[LocalTask], n_workers: int = 1) -> list[list[LocalTask]]:
        """A list of lists: the tasks in groups that one worker takes at a time, in the order of `train`."""

    def train_unit(self, tasks: list[LocalTask], instructions: Instructions) -> list[Any]:
        """A list of the updates of one group, bit for bit those of `train`, wherever it runs."""

    def set_data(self, data: LocalData) -> None:
        """Go on with other `LocalData`: clients' samplers made new rows."""

    def forget(self) -> None:
        """Leave nothing of the client that trained last in the net."""

    def close(self) -> None:
        """Let go of what is held outside this process; called once, after errors too."""


class Engine(BaseEstimator):
    """Base of the engines' settings; an engine of your own stores its settings and writes `start`.

    Most start a `Loop` or a `Stacked` and change how it is called; `fedrela_sk.testing.check_engine` compares the
    result with that of the loop.

    Attributes
    ----------
    name : str
        What ``engine_`` of a fitted federation begins with.
    """

    name = "engine"

    def start(self, net: Any, data: LocalData, algorithm: Any, n_classes: int, seed: int) -> RunningEngine:
        """A running engine for one fit; every worker starts one of its own.

        Parameters
        ----------
        net : initialized skorch net
            Its module is the working copy, on its device.
        data : LocalData
            The rows of all clients, one tensor.
        algorithm : Algorithm
        n_classes : int
        seed : int
            Keys every stream of the fit.

        Returns
        -------
        running : RunningEngine

        Raises
        ------
        NotStackable
            Where it cannot train this net or this method; the fit refuses it with the reason.
        """
        raise NotImplementedError(f"{type(self).__name__} has no start, which gives a running engine.")


class Loop(Engine):
    """One client after the other; runs any module."""

    name = "loop"

    def start(self, net: Any, data: LocalData, algorithm: Any, n_classes: int, seed: int) -> RunningEngine:
        """A running engine for one fit."""
        return LoopEngine(net, data, algorithm, n_classes, seed)


@old_attributes
class Stacked(Engine):
    """Many clients at once.

    Parameters
    ----------
    chunk_size : int >= 1, default=64
        Clients that train at once. Memory is O(chunk_size x model).
    precision : {"bf16"} or None, default=None
        "bf16": products under `torch.autocast` in bfloat16; parameters keep the module's dtype.
    """

    name = "stacked"

    _parameter_constraints = {
        "chunk_size": [Interval(Integral, 1, None, closed="left")],
        "precision": [StrOptions({"bf16"}), None],
    }

    def __init__(self, chunk_size: int = 64, precision: Literal["bf16"] | None = None) -> None:
        self.chunk_size = chunk_size
        self.precision = precision

    def start(self, net: Any, data: LocalData, algorithm: Any, n_classes: int, seed: int) -> RunningEngine:
        """A running engine for one fit; `NotStackable` if the net has no stacked form."""
        validate_parameter_constraints(
            self._parameter_constraints, self.get_params(deep=False), caller_name="Stacked"
        )
        return StackedEngine(
            net, data, algorithm, n_classes, seed, chunk_size=self.chunk_size, precision=self.precision
        )


ENGINES = {"loop": Loop, "stacked": Stacked}


def start_engine(engine, net, data, algorithm, n_classes, seed, *, n_clients, n_jobs=None, n_threads=1):
    """The running engine of a fit, and why it is this one.

    Parameters
    ----------
    engine : "auto", a key of `ENGINES` or an `Engine`
    net : initialized skorch net
    data : LocalData
    algorithm : Algorithm
    n_classes, seed : int
    n_clients : int
        Clients that have rows.
    n_jobs : int or None
        joblib workers; None or 1: this process.
    n_threads : int
        torch threads of each worker.

    Returns
    -------
    running : LoopEngine, StackedEngine or WorkerPool
    why : str

    Raises
    ------
    NetError
        If "stacked" was asked for and the net cannot be stacked.
    """
    settings, running, why = _start_here(engine, n_clients, net, data, algorithm, n_classes, seed)
    if effective_n_jobs(n_jobs) == 1:
        return running, why
    if not _on_cpu(data):
        raise ValueError(
            f"n_jobs={n_jobs} would start several fits on one device, {data.X.device}. Leave n_jobs at None: the "
            "stacked engine trains many clients on it at once."
        )
    if data.dtype not in (torch.float32, torch.float64):
        raise ValueError(
            f"n_jobs={n_jobs} needs a net in float32 or float64, got {data.dtype}. Leave n_jobs at None."
        )
    return WorkerPool(running, settings.start, n_jobs, n_threads), why


def _start_here(engine, n_clients, *job):
    """(settings, running engine in this process, why); `job` is what `Engine.start` takes."""
    if isinstance(engine, str) and engine == "auto":
        return _start_auto(n_clients, *job)
    settings = ENGINES[engine]() if isinstance(engine, str) else engine
    try:
        running = settings.start(*job)
    except NotStackable as reason:
        why = str(reason).rstrip(".")
        raise NetError(
            f"engine={engine!r} cannot train this net: {why}. Use engine='loop', or 'auto' to let such nets "
            "go to the loop by themselves."
        ) from reason
    return settings, running, "asked for"


def _start_auto(n_clients, net, data, *rest):
    reason = _slower_stacked(net, data, n_clients)
    if reason is None:
        try:
            running = Stacked().start(net, data, *rest)
            return Stacked(), running, f"{running.kind}, a small net" if _on_cpu(data) else running.kind
        except NotStackable as error:
            reason = str(error)
    return Loop(), Loop().start(net, data, *rest), reason


def _slower_stacked(net, data, n_clients):
    """Why stacking would not pay, None if it does: only facts of the job, never a timing."""
    if n_clients < _FEW_CLIENTS:
        return f"{n_clients} clients are too few to stack"
    if not _on_cpu(data):
        return None
    module = net.module_
    if any(isinstance(layer, nn.modules.conv._ConvNd) for layer in module.modules()):
        return "convolutions on a CPU are faster one client after the other"
    n_params = sum(p.numel() for p in module.parameters())
    if n_params > _STACKED_UP_TO:
        return f"{n_params} parameters fill the CPU one client at a time"
    return None


def _on_cpu(data):
    return data.X.device.type == "cpu"
