"""Engines around another one: they keep what passes through it, or take clients from the last to the first."""

import torch

from fedrela_sk.training import Engine, Loop


class Around(Engine):
    """An engine that passes everything on to another one.

    Parameters
    ----------
    engine : Engine or None, default=None
        The other one; None: `Loop()`.
    """

    def __init__(self, engine=None):
        self.engine = engine

    def start(self, net, data, algorithm, n_classes, seed):
        """The running engine of the other one, watched."""
        running = (Loop() if self.engine is None else self.engine).start(
            net, data, algorithm, n_classes, seed
        )
        self.started(running, net, algorithm)
        return Passing(running, self.train)

    def started(self, running, net, algorithm):
        """Called once when the engine starts."""

    def train(self, running, tasks, instructions):
        """Updates of one round."""
        yield from running.train(tasks, instructions)


class Passing:
    """A running engine whose `train` goes through the settings; everything else is the other engine's."""

    def __init__(self, running, train):
        self._running, self._train = running, train

    def __getattr__(self, name):
        return getattr(vars(self)["_running"], name)

    def train(self, tasks, instructions):
        """Updates of one round."""
        return self._train(self._running, list(tasks), instructions)


class Watching(Around):
    """Keeps the module, the method and all updates.

    Attributes
    ----------
    module : nn.Module
    algorithm : Algorithm
        The object that the fit calls.
    rounds : list of (list of LocalTask, Instructions, list of updates)
    """

    def started(self, running, net, algorithm):
        """Note what the fit works with."""
        self.running, self.module, self.algorithm, self.rounds = running, net.module_, algorithm, []

    def train(self, running, tasks, instructions):
        """Note and pass on."""
        updates = []
        self.rounds.append((tasks, instructions, updates))
        for update in running.train(tasks, instructions):
            updates.append(update)
            yield update


class BackToFront(Around):
    """Trains clients from the last to the first; updates come in the usual order."""

    def train(self, running, tasks, instructions):
        """Train in the opposite order."""
        yield from list(running.train(tasks[::-1], instructions))[::-1]


class SentBackToFront(Around):
    """Updates come from the last client to the first."""

    def train(self, running, tasks, instructions):
        """Send in the opposite order."""
        yield from list(running.train(tasks, instructions))[::-1]


def held_nbytes(tensors):
    """Bytes of the memory that tensors hold on to: all of their storage, once where several share it."""
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage() for tensor in tensors.values()}
    return sum(storage.nbytes() for storage in storages.values())


def copied(tensors):
    """Copies of tensors by name."""
    return {name: torch.clone(tensor) for name, tensor in tensors.items()}
