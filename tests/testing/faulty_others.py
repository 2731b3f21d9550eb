"""Rules, splitters, relabelers and engines with one planted fault each, and what their check says of it."""

import random
import threading
from dataclasses import replace

import numpy as np
import torch
from sklearn.base import BaseEstimator

from fedrela_sk.participation import Choice, Participation
from fedrela_sk.training import Engine, Loop

# --- rules of participation ---------------------------------------------------------------------------------


class Everybody(Participation):
    """A rule without a fault."""

    def __init__(self, share=1.0):
        self.share = share

    def _choose(self, round, stream, sizes, counts):
        return Choice(tuple((i,) for i in range(len(sizes))))


class BeyondTheClients(Everybody):
    def _choose(self, round, stream, sizes, counts):
        return Choice(((len(sizes),),))


class PositionsOfFloat(Everybody):
    def _choose(self, round, stream, sizes, counts):
        return Choice(((0.0,),))


class AListOfClients(Everybody):
    def _choose(self, round, stream, sizes, counts):
        return [0]


class Nobody(Everybody):
    def _choose(self, round, stream, sizes, counts):
        return Choice(tuple((i,) for i in range(round % 2, len(sizes), 2)))


class ByNumPysGenerator(Everybody):
    def _choose(self, round, stream, sizes, counts):
        return Choice(((int(np.random.randint(len(sizes))),),))  # noqa: NPY002 - the fault


class ByPythonsGenerator(Everybody):
    def _choose(self, round, stream, sizes, counts):
        return Choice(((random.randrange(len(sizes)),),))


class Counts(Everybody):
    def _choose(self, round, stream, sizes, counts):
        self.n_calls_ = getattr(self, "n_calls_", 0) + 1
        return super()._choose(round, stream, sizes, counts)


_calls = iter(range(10**9))


class InTurns(Everybody):
    def _choose(self, round, stream, sizes, counts):
        return Choice(((next(_calls) % len(sizes),),))


class SortsInPlace(Everybody):
    def _choose(self, round, stream, sizes, counts):
        sizes.sort()
        return super()._choose(round, stream, sizes, counts)


class ReadsCounts(Everybody):
    def _choose(self, round, stream, sizes, counts):
        return Choice(((int(counts.sum(1).argmax()),),))


class SelectsNobody(Everybody):
    def select(self, round, stream, weights, norms):
        return np.empty(0, dtype=int), np.empty(0)


class SelectsWithoutWeights(Everybody):
    def select(self, round, stream, weights, norms):
        return np.arange(len(weights))


class SelectsByMinus(Everybody):
    def select(self, round, stream, weights, norms):
        return np.arange(len(weights)), -weights


class SelectsInTurns(Everybody):
    def select(self, round, stream, weights, norms):
        return np.array([next(_calls) % len(weights)]), np.ones(1)


class ForgetsItsReports(Everybody):
    needs_counts = True

    def report_nbytes(self, n_classes):
        return 0


class RuleWithALock(Everybody):
    def __init__(self, share=1.0, lock=None):
        self.share, self.lock = share, lock


RULES = {
    "a client that is not there": (BeyondTheClients(), "positions of clients that exist.*position 6 of 6"),
    "positions that are no integers": (PositionsOfFloat(), "positions of clients that exist.*position 0.0"),
    "no Choice": (AListOfClients(), "choose gives a Choice. Seen: it gave list"),
    "nobody": (Nobody(), "among any clients, one or many.*at least one group"),
    "global random state, numpy": (ByNumPysGenerator(), "choose uses no global random state.*numpy"),
    "global random state, random": (ByPythonsGenerator(), "choose uses no global random state.*random"),
    "writes to itself": (Counts(), "choose writes nothing to itself.*n_calls_"),
    "goes by earlier calls": (InTurns(), "all chance comes from the stream.*two calls in round 0"),
    "sorts in place": (SortsInPlace(), "choose changes nothing that it is given.*sizes"),
    "reads counts unasked": (ReadsCounts(), "counts only where needs_counts says so.*NoneType"),
    "selects nobody": (SelectsNobody(), "different positions of at least one client"),
    "selects without weights": (SelectsWithoutWeights(), "select gives two arrays"),
    "selects by negative weights": (SelectsByMinus(), "finite weights >= 0 for them"),
    "selects by earlier calls": (SelectsInTurns(), "two calls of select with equal streams differ"),
    "forgets what clients report": (ForgetsItsReports(), "what clients report is counted"),
    "cannot be copied": (RuleWithALock(lock=threading.Lock()), "stores its parameters|can be copied"),
}


# --- splitters ----------------------------------------------------------------------------------------------


class Thirds(BaseEstimator):
    """A splitter without a fault."""

    def __init__(self, random_state=0):
        self.random_state = random_state

    def tests(self, X, y):
        return [np.arange(k, len(X), 3) for k in range(3)]

    def split(self, X, y=None, groups=None):
        for test in self.tests(X, y):
            yield np.setdiff1d(np.arange(len(X)), test), test

    def get_n_splits(self, X=None, y=None, groups=None):
        return 3


class Overlaps(Thirds):
    def tests(self, X, y):
        return [np.arange(k, len(X), 2) for k in (0, 1, 0)]


class LeavesRowsOut(Thirds):
    def tests(self, X, y):
        return [np.arange(k, len(X) - 4, 3) for k in range(3)]


class BeyondTheRows(Thirds):
    def tests(self, X, y):
        return [np.arange(k, len(X) + 3, 3) for k in range(3)]


class Masks(Thirds):
    def split(self, X, y=None, groups=None):
        for k in range(3):
            yield np.arange(len(X)) % 3 != k, np.arange(len(X)) % 3 == k


class TrainsOnItsTests(Thirds):
    def split(self, X, y=None, groups=None):
        for test in self.tests(X, y):
            yield np.arange(len(X)), test


class GloballyShuffled(Thirds):
    def tests(self, X, y):
        return np.array_split(np.random.permutation(len(X)), 3)  # noqa: NPY002 - the fault


class UnseededlyShuffled(Thirds):
    def tests(self, X, y):
        return np.array_split(np.random.default_rng().permutation(len(X)), 3)


class ShufflesLabels(Thirds):
    def tests(self, X, y):
        y[:] = np.sort(y)
        return super().tests(X, y)


class NotesItsRows(Thirds):
    def tests(self, X, y):
        self.n_rows = len(X)
        return super().tests(X, y)


class Miscounts(Thirds):
    def get_n_splits(self, X=None, y=None, groups=None):
        return 4


class NoPairs(Thirds):
    def split(self, X, y=None, groups=None):
        raise TypeError("no rows are cut here")


SPLITTERS = {
    "overlapping clients": (Overlaps(), "row 0 is in more than one test set"),
    "rows that nobody has": (LeavesRowsOut(), "row .* is in no test set"),
    "rows that are not there": (BeyondTheRows(), "holds row 7. of 72"),
    "masks for indices": (Masks(), "test set 0 is bool"),
    "test rows in training": (TrainsOnItsTests(), "training sets hold no row of their test set"),
    "global random state": (GloballyShuffled(), "split uses no global random state"),
    "another cut every time": (UnseededlyShuffled(), "cuts the same rows in the same way"),
    "changes the labels": (ShufflesLabels(), "split leaves X, y and groups as they are.*y"),
    "writes to itself": (NotesItsRows(), "split leaves its parameters as they are.*n_rows"),
    "another number of clients": (
        Miscounts(),
        "get_n_splits gives the number of test sets. Seen: it gives 4",
    ),
    "no pairs at all": (NoPairs(), "yields pairs of index arrays.*no rows are cut"),
}


# --- relabelers ---------------------------------------------------------------------------------------------


class Likeliest(BaseEstimator):
    """A relabeler without a fault: takes the likeliest class where it is likely."""

    def __init__(self, least=0.9, classes=None):
        self.least, self.classes = least, classes

    def fit(self, Q, y):
        self.classes_ = np.asarray(self.classes)
        return self

    def relabel(self, Q, y, uniforms=None):
        return np.where(Q.max(1) > self.least, self.classes_[Q.argmax(1)], y)


class Unknown(Likeliest):
    def relabel(self, Q, y, uniforms=None):
        return np.full(len(y), "wolf") if y.dtype.kind == "U" else np.full(len(y), 99)


class TooFew(Likeliest):
    def relabel(self, Q, y, uniforms=None):
        return y[:-1]


class NumbersForMask(Likeliest):
    def relabel(self, Q, y, uniforms=None):
        return y, np.ones(len(y), dtype=int)


class ChangesLabels(Likeliest):
    def relabel(self, Q, y, uniforms=None):
        y[:] = self.classes_[0]
        return y.copy()


class ChangesPosteriors(Likeliest):
    def relabel(self, Q, y, uniforms=None):
        Q *= 2
        return y.copy()


class DrawsGlobally(Likeliest):
    def relabel(self, Q, y, uniforms=None):
        return np.where(np.random.random(len(y)) < 0.1, self.classes_[0], y)  # noqa: NPY002 - the fault


class DrawsUnseeded(Likeliest):
    def relabel(self, Q, y, uniforms=None):
        return np.where(np.random.default_rng().random(len(y)) < 0.5, self.classes_[0], self.classes_[1])


class NeedsAllClasses(Likeliest):
    def fit(self, Q, y):
        self.first_ = [np.flatnonzero(y == label)[0] for label in self.classes]
        return super().fit(Q, y)


class ChangesItsParameter(Likeliest):
    def relabel(self, Q, y, uniforms=None):
        self.least = float(Q.max())
        return y


_seen = []


class RemembersOtherClients(Likeliest):
    def fit(self, Q, y):
        _seen.append(float(Q[0, 0]))
        return super().fit(Q, y)

    def relabel(self, Q, y, uniforms=None):
        first = _seen[-2] if len(_seen) > 1 and len(y) > 1 else 0.0
        return np.where(Q[:, 0] < first, self.classes_[0], y)


class RelabelerWithALock(Likeliest):
    def __init__(self, least=0.9, classes=None, lock=None):
        super().__init__(least, classes)
        self.lock = lock


RELABELERS = {
    "unknown labels": (Unknown(), "a known label for each row.*99"),
    "too few labels": (TooFew(), "a known label for each row.*must return 40 labels"),
    "a mask of numbers": (NumbersForMask(), "a known label for each row.*mask dtype int64"),
    "changes labels": (ChangesLabels(), "stay as they are. Seen: labels"),
    "changes posteriors": (ChangesPosteriors(), "stay as they are. Seen: posteriors"),
    "global random state": (DrawsGlobally(), "relabel uses no global random state"),
    "draws of its own": (DrawsUnseeded(), "all chance comes from uniforms or random_state"),
    "needs all classes": (NeedsAllClasses(), "relabels rows of any client.*(IndexError|mean|out of bounds)"),
    "changes its parameter": (ChangesItsParameter(), "relabel changes no parameter. Seen: least"),
    "remembers other clients": (
        RemembersOtherClients(),
        "does not reach another client|all chance comes from",
    ),
    "cannot be copied": (RelabelerWithALock(lock=threading.Lock()), "can be copied for every client"),
}


# --- engines ------------------------------------------------------------------------------------------------


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
