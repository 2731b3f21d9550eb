"""Local training: what happens at one client in one round, and the engines that run it."""

from fedrela_sk.training._graph import NotStackable
from fedrela_sk.training._loop import Loop
from fedrela_sk.training._net import LocalSettings, build_net, read_settings, tensors_of
from fedrela_sk.training._posteriors import posteriors
from fedrela_sk.training._stacked import Stacked
from fedrela_sk.training._task import LocalData, LocalTask
from fedrela_sk.training._threads import one_thread_is_enough, torch_threads

ENGINES = {"loop": Loop, "stacked": Stacked}

__all__ = [
    "ENGINES",
    "LocalData",
    "LocalSettings",
    "LocalTask",
    "Loop",
    "NotStackable",
    "Stacked",
    "build_net",
    "one_thread_is_enough",
    "posteriors",
    "read_settings",
    "tensors_of",
    "torch_threads",
]
