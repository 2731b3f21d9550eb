"""`check_algorithm` catches every planted fault, and sound methods pass."""

import threading

import pytest
from torch import nn

from fedrela_sk.algorithms import CLIMB, MOON, SCAFFOLD, FedMix
from fedrela_sk.exceptions import CheckError
from fedrela_sk.testing import check_algorithm
from tests.federation import extensions
from tests.testing import faulty_methods as faulty
from tests.testing.faulty_methods import Sound, sound_but

# the ten that issue 10 names come first
FAULTS = {
    "writes to self": (faulty.WritesToSelf(), "client_finish writes nothing to self. Seen: self.*last_"),
    "global random state, random": (
        faulty.DrawsFromRandom(),
        "client_finish uses no global random state.* of random has",
    ),
    "global random state, numpy": (
        faulty.DrawsFromNumPy(),
        "server_step uses no global random state.* of numpy has",
    ),
    "global random state, torch": (
        faulty.DrawsFromTorch(),
        "client_penalty uses no global random state.* of torch has",
    ),
    "sends more than declared": (
        faulty.SendsMoreThanItDeclares(),
        "sends what it declares, traffic = .*bytes of round 1",
    ),
    "forgets neutral": (
        faulty.ForgetsNeutral(),
        "under which parameters it equals FedAvg.*neither neutral nor",
    ),
    "scalar from client_finish": (
        faulty.SendsAScalar(),
        "hooks return what they should.*finish gave '0.weight' with",
    ),
    "NaN": (
        faulty.SendsNaN(),
        "what it computes is finite. Seen: The update of client 0 in round 0 is not finite",
    ),
    "depends on client order": (faulty.GoesByTheLastClient(), "do not depend on client order. Seen: updates"),
    "drops the criterion": (faulty.DropsTheCriterion(), "goes by the criterion.*label smoothing of the"),
    "changes the caller's net": (
        faulty.TrainsItsTeacher(teacher=nn.Linear(2, 2)),
        "writes nothing to self.*teacher",
    ),
    "differs between engines": (
        faulty.DiffersBetweenEngines(),
        "both engines give the same. Seen: .* differ by",
    ),
    # further ones
    "writes to a parameter": (faulty.WritesToAParameter(), "server_step writes nothing to self.*seen"),
    "writes to its class": (
        faulty.WritesToTheClass(),
        "a fit writes nothing to itself. Seen: it writes to the class.*seen",
    ),
    "broadcasts more than declared": (
        faulty.BroadcastsMoreThanItDeclares(),
        "sends what it declares.*bytes of round 1",
    ),
    "sends views": (faulty.SendsViews(), "no more than the history counts.*hold .* bytes of memory"),
    "is not neutral": (
        faulty.IsNotNeutral(),
        r"under neutral = \{'strength': 0.0\} it equals FedAvg. Seen: .*net Dense",
    ),
    "moves statistics twice": (
        faulty.MovesStatisticsTwice(),
        "equals FedAvg. Seen: .*net Normed.*copied_buffers",
    ),
    "is FedAvg by a misspelled hook": (faulty.IsFedAvg(), "another method than FedAvg.*check the spelling"),
    "no pair from client_finish": (
        faulty.SendsNoPair(),
        "client_finish at client 0 in round 0 must return the pair",
    ),
    "loss of NaN": (faulty.HasALossOfNaN(), "what it computes is finite"),
    "goes by the first report": (
        faulty.GoesByTheFirstReport(),
        "client order. Seen: reports that come from the last",
    ),
    "leaks to the next client": (faulty.LeaksToTheNextClient(), "on nothing that another client left"),
    "drops row weights": (
        faulty.DropsRowWeights(),
        "both engines give the same|row weights of the criterion",
    ),
    "stops parameters from learning": (
        faulty.StopsParametersFromLearning(),
        "client_begin changes nothing.*requires_grad",
    ),
    "leaves evaluation mode": (
        faulty.LeavesEvaluationMode(),
        "client_begin changes nothing .*modes of its layers",
    ),
    "adds in place": (faulty.AddsInPlace(), "server_step changes nothing that it is given"),
    "scales in place": (faulty.ScalesInPlace(), "client_correct changes nothing that it is given"),
    "writes over a state": (faulty.PassesOnAState(), "client_finish changes nothing that it is given"),
    "fills a dictionary": (faulty.FillsADictionary(), "client_correct changes nothing that it is given"),
    "branches on a tensor": (
        faulty.BranchesOnATensor(),
        "both engines give the same. Seen: .*vmap|data-dependent",
    ),
    "a hook of an old name": (
        faulty.OfAnOldName(),
        "defines 'penalty', a hook of earlier versions.*client_penalty",
    ),
    "server_query of another type": (
        sound_but("server_query", lambda self, round: {"report": None}),
        "server_query of round 0 must return a .*Query",
    ),
    "server_broadcast of another type": (
        sound_but("server_broadcast", lambda self, state: {"every_round": state}),
        "must return a fedrela_sk.algorithms.Broadcast",
    ),
    "negative weights": (
        sound_but("server_weights", lambda self, weights, *_: -weights),
        "server_weights of round 0 must return finite weights >= 0",
    ),
    "weights of another shape": (
        sound_but("server_weights", lambda self, weights, *_: weights[1:]),
        "server_weights of round 0 must return one weight for each",
    ),
    "works in the constructor": (
        faulty.ChecksInTheConstructor(),
        "stores its parameters .*constructor either does",
    ),
    "cannot be pickled": (faulty.HoldsALock(lock=threading.Lock()), "it can be copied|stores its parameters"),
}

OTHERS = {
    "climb, in motion": CLIMB(epsilon=0.0, dual_lr=50.0, dual_every=1),
    "fedmix, small means": FedMix(mean_size=3),
    "moon, plain": MOON(projection=None),
    "scaffold, I": SCAFFOLD("I"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_caught_and_named(fault):
    method, message = FAULTS[fault]
    with pytest.raises(CheckError, match=rf"(?s)^{type(method).__name__}: .*({message})") as caught:
        check_algorithm(method)
    assert ". Seen: " in str(caught.value)
    assert ". To mend it: " in str(caught.value)


@pytest.mark.parametrize(
    "method", [Sound(), Sound(0.0), extensions.Clipped(), extensions.Momentum()], ids=repr
)
def test_a_sound_method_passes(method):
    check_algorithm(method)


@pytest.mark.slow
@pytest.mark.parametrize("method", OTHERS.values(), ids=OTHERS)
def test_methods_at_further_settings_pass(method):
    """`tests/test_tables.py` checks every method at its defaults."""
    check_algorithm(method)


@pytest.mark.parametrize("method", [Sound, "fedavg", None])
def test_only_instances_are_checked(method):
    with pytest.raises(TypeError, match=r"takes an instance of an Algorithm, such as FedProx\(mu=0.1\), got"):
        check_algorithm(method)
