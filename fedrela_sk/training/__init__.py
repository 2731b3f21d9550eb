"""Local training: what happens at one client in one round, and the engines that run it."""

from fedrela_sk.training._engine import ENGINES, Engine, Loop, Stacked, start_engine
from fedrela_sk.training._model import Batch, ClientData, Model, client_data
from fedrela_sk.training._net import LocalSettings, build_net, check_forward, read_settings, tensors_of
from fedrela_sk.training._posteriors import posteriors
from fedrela_sk.training._task import Instructions, LocalData, LocalTask
from fedrela_sk.training.loop._engine import LoopEngine
from fedrela_sk.training.runtime._device import device_turn
from fedrela_sk.training.runtime._layout import laid_out
from fedrela_sk.training.runtime._threads import one_thread_is_enough, threads_for, torch_threads
from fedrela_sk.training.stacked._engine import StackedEngine
from fedrela_sk.training.stacked._graph import NotStackable

__all__ = [
    "ENGINES",
    "Batch",
    "ClientData",
    "Engine",
    "Instructions",
    "LocalData",
    "LocalSettings",
    "LocalTask",
    "Loop",
    "LoopEngine",
    "Model",
    "NotStackable",
    "Stacked",
    "StackedEngine",
    "build_net",
    "check_forward",
    "client_data",
    "device_turn",
    "laid_out",
    "one_thread_is_enough",
    "posteriors",
    "read_settings",
    "start_engine",
    "tensors_of",
    "threads_for",
    "torch_threads",
]
