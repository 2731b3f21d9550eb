"""Local training: what happens at one client in one round, and the engines that run it.

==================  ================================================================================
file                what it does
==================  ================================================================================
`_engine`           the contract of an engine, and the choice of one
`_task`             what an engine is given: data, a client's task, a round's instructions
`_client_round`     what both engines decide alike: streams, hooks, what is sent and kept
`loop/`             one client after the other: the readable reference
`stacked/`          many clients at once
`_workers`          either of them over joblib workers
`_net`              the skorch net: built, its settings read, its tensors written and read
`_skorch_settings`  what of skorch has no meaning at a client, refused by name
`_model`            what the hooks of a method see of a net and of a client's rows
`_criterion`        from a module's output to logits, losses and posteriors
`_posteriors`       posteriors of a model for given rows
`_recorder`         posteriors recorded while a client trains
`_sparse`           sparse rows, made dense a batch at a time
`_layout`           memory format of images, and how tensors reach workers
`_threads`          how many torch threads a fit uses
`runtime/`          devices, random states and what must not leak from client to client
==================  ================================================================================
"""

from fedrela_sk._deprecation import private_members
from fedrela_sk._update import ChunkUpdate, ClientUpdate
from fedrela_sk.training._engine import Engine, Loop, RunningEngine, Stacked
from fedrela_sk.training._model import Batch, ClientData, Model
from fedrela_sk.training._task import Instructions, LocalData, LocalTask
from fedrela_sk.training.stacked._graph import NotStackable

__all__ = [
    "Batch",
    "ChunkUpdate",
    "ClientData",
    "ClientUpdate",
    "Engine",
    "Instructions",
    "LocalData",
    "LocalTask",
    "Loop",
    "Model",
    "NotStackable",
    "RunningEngine",
    "Stacked",
]

__getattr__ = private_members(__name__)
