"""Rules of participation with one planted fault each, and what `check_participation` says of it."""

import random
import threading

import numpy as np

from fedrela_sk.participation import Choice, Participation


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
