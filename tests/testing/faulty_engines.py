"""Engines with one planted fault each, and what `check_engine` says of it."""

from dataclasses import replace

import torch

from fedrela_sk.training import Engine, Loop


class Like(Loop):
    """A loop whose running engine is changed after its start."""

    def start(self, net, data, algorithm, n_classes, seed):
        running = super().start(net, data, algorithm, n_classes, seed)
        self.change(running)
        return running

    def change(self, running):
        """Nothing is changed here."""


class OnTasks(Like):
    """A loop that trains other tasks or by other instructions than it was told, client by client."""

    def change(self, running):
        train = running.train
        running.train = lambda tasks, instructions: (
            update for task in tasks for update in train([self.task(task)], self.told(instructions))
        )

    def task(self, task):
        return task

    def told(self, instructions):
        return instructions


class LeavesOneOut(Like):
    def change(self, running):
        train = running.train
        running.train = lambda tasks, instructions: train(list(tasks)[:-1] or tasks, instructions)


class SendsTwice(Like):
    def change(self, running):
        train = running.train
        running.train = lambda tasks, instructions: (u for u in train(tasks, instructions) for _ in range(2))


class WeighsAlike(OnTasks):
    def task(self, task):
        return replace(task, weight=1.0)


class ForgetsSchedules(OnTasks):
    def told(self, instructions):
        return replace(instructions, lr_factor=1.0)


class ForgetsTheServer(OnTasks):
    def told(self, instructions):
        return replace(instructions, server={name: 0 * t for name, t in instructions.server.items()})


class ForgetsStates(OnTasks):
    def task(self, task):
        return replace(task, state={})


class ForgetsClassWeights(OnTasks):
    def task(self, task):
        return replace(task, class_weights=None)


class ForgetsNewRows(Like):
    def change(self, running):
        running.set_data = lambda data: None


class GoesOnFromTheLast(Like):
    """Every client starts from what the one before it made."""

    def change(self, running):
        train = running.train

        def chained(tasks, instructions):
            params = None
            for task in tasks:
                for update in train([task if params is None else replace(task, params=params)], instructions):
                    params = task.params | update.tensors
                    yield update

        running.train = chained


class DrawsNoise(Like):
    def change(self, running):
        train = running.train

        def noisy(tasks, instructions):
            for update in train(tasks, instructions):
                noise = 1e-3 * torch.rand(()).double()
                yield replace(update, tensors={name: t + noise for name, t in update.tensors.items()})

        running.train = noisy


class CutsTwice(Like):
    def change(self, running):
        running.units = lambda tasks, n_workers=1: [tasks, tasks[:1]]


class HasNoUnits(Loop):
    """Passes on two functions of the loop and leaves the rest out."""

    def start(self, net, data, algorithm, n_classes, seed):
        running, parts = super().start(net, data, algorithm, n_classes, seed), type("Parts", (), {})()
        for name in (
            "name",
            "kind",
            "chunk_size",
            "precision",
            "settings",
            "train",
            "set_data",
            "forget",
            "close",
        ):
            setattr(parts, name, getattr(running, name))
        return parts


class NotesItsNet(Loop):
    def start(self, net, data, algorithm, n_classes, seed):
        self.seed_ = seed
        return super().start(net, data, algorithm, n_classes, seed)


class HasNoStart(Engine):
    pass


ENGINES = {
    "leaves a client out": (
        LeavesOneOut(),
        r"every client of a round is in one update.*updates of \[0, 1, 2, 3\]",
    ),
    "sends twice": (SendsTwice(), r"every client of a round is in one update.*updates of \[0, 0, 1"),
    "weighs all alike": (WeighsAlike(), "with its weight.*weight 1.0"),
    "forgets schedules": (ForgetsSchedules(), "what the loop engine does: the schedule of the learning rate"),
    "forgets the server": (
        ForgetsTheServer(),
        "what the loop engine does: the state of clients, and what the server",
    ),
    "forgets states": (ForgetsStates(), "what the loop engine does: the state of clients"),
    "forgets class weights": (
        ForgetsClassWeights(),
        "what the loop engine does: row weights and class weights",
    ),
    "forgets new rows": (ForgetsNewRows(), "what the loop engine does: rows that clients' samplers made"),
    "goes on from the last client": (
        GoesOnFromTheLast(),
        "plain averaging|give other updates|one seed gives one",
    ),
    "global random state": (DrawsNoise(), "global random state|give other updates"),
    "cuts twice": (CutsTwice(), "units hold every client once.*units for 1 workers hold clients"),
    "lacks a part of the protocol": (
        HasNoUnits(),
        "what the protocol .*RunningEngine names. Seen: it has no",
    ),
    "writes to itself": (NotesItsNet(), "a fit writes nothing to itself.*seed_"),
    "has no start": (HasNoStart(), "a fit with it works.*HasNoStart has no start"),
}
