"""Faults that once passed a check, or ended in an error of Python's own: each is caught and named."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fedrela_sk.exceptions import CheckError
from fedrela_sk.testing import check_algorithm, check_engine, check_relabeler, check_splitter
from tests.testing.faulty_engines import OnTasks
from tests.testing.faulty_methods import Sound
from tests.testing.faulty_relabelers import Likeliest
from tests.testing.faulty_splitters import Thirds

# --- methods ------------------------------------------------------------------------------------------------


class CountsInTheClass(Sound):
    n_calls = 0

    def client_finish(self, params, local, run):
        type(self).n_calls += 1
        return params, local.state


class ClearsStatistics(Sound):
    """BatchNorm's running statistics, before a client's first step."""

    neutral, neutral_reason = None, "planted"

    def client_begin(self, model, data, local):
        for buffer in model.module.buffers():
            buffer.zero_()
        return {}


class KeepsNaN(Sound):
    """In a state that no later hook reads, so that nothing else shows it."""

    def client_finish(self, params, local, run):
        return params, {"seen": torch.full((2,), float("nan"))}


class MisspellsAHook(Sound):
    def unused_hooks(self):
        return ("client_corect",)


class MisspellsNeutral(Sound):
    neutral = {"strenght": 0.0}


class HasANumberForNeutral(Sound):
    neutral = 0.0


class MisspellsTelling(Sound):
    telling = {"strenght": 1.0}


class DeclaresOneWay(Sound):
    traffic = "M"


class DeclaresAnUnknownLetter(Sound):
    traffic = "Q / M"


# --- splitters, relabelers, engines -------------------------------------------------------------------------


class CountsSplits(Thirds):
    n_calls = 0

    def tests(self, X, y):
        type(self).n_calls += 1
        return super().tests(X, y)


class ReckonsWithLabels(Thirds):
    def tests(self, X, y):
        return np.array_split(np.argsort(-1.0 * y), 3)


class CountsRelabelings(Likeliest):
    n_calls = 0

    def relabel(self, Q, y, uniforms=None):
        type(self).n_calls += 1
        return super().relabel(Q, y, uniforms)


class ForgetsProgress(OnTasks):
    def told(self, instructions):
        return replace(instructions, progress=0.0)


FAULTS = [
    (check_algorithm, CountsInTheClass(), "a fit writes nothing to itself.*the class: .*n_calls has changed"),
    (check_algorithm, ClearsStatistics(), "client_begin changes nothing that it is given.*running_"),
    (
        check_algorithm,
        KeepsNaN(),
        "what clients keep .* is finite. Seen: 'seen' in the state of client 0 after",
    ),
    (check_algorithm, MisspellsAHook(), r"unused_hooks names hooks. Seen: \['client_corect'\]"),
    (check_algorithm, MisspellsNeutral(), "neutral gives hyper-parameters by name.*'strenght'.*'strength'"),
    (check_algorithm, HasANumberForNeutral(), "neutral gives hyper-parameters by name. Seen: neutral = 0.0"),
    (check_algorithm, MisspellsTelling(), "telling gives hyper-parameters by name.*'strenght'"),
    (check_algorithm, DeclaresOneWay(), "traffic declares what .*traffic = 'M'"),
    (check_algorithm, DeclaresAnUnknownLetter(), "traffic declares what .*traffic = 'Q / M'"),
    (check_splitter, CountsSplits(), "split writes nothing to itself.*the class: .*n_calls"),
    (check_splitter, ReckonsWithLabels(), "labels of any type"),
    (check_relabeler, CountsRelabelings(), "relabel writes nothing to itself.*the class: .*n_calls"),
    (check_engine, ForgetsProgress(), "what the loop engine does: how far training has come"),
]


@pytest.mark.parametrize(("check", "thing", "message"), FAULTS, ids=[type(row[1]).__name__ for row in FAULTS])
def test_a_fault_is_caught_and_named(check, thing, message):
    with pytest.raises(CheckError, match=rf"(?s)^{type(thing).__name__}: .*({message})") as caught:
        check(thing)
    assert ". Seen: " in str(caught.value)
    assert ". To mend it: " in str(caught.value)
