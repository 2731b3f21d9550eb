"""`check_algorithm` catches every planted fault, and sound methods pass."""

import pytest

from fedrela_sk.algorithms import CLIMB, MOON, SCAFFOLD, FedMix
from fedrela_sk.exceptions import CheckError
from fedrela_sk.testing import check_algorithm
from tests.federation import extensions
from tests.testing.faulty_methods import FAULTS, Sound

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


@pytest.mark.parametrize("method", OTHERS.values(), ids=OTHERS)
def test_methods_at_further_settings_pass(method):
    """`tests/test_tables.py` checks every method at its defaults."""
    check_algorithm(method)


@pytest.mark.parametrize("method", [Sound, "fedavg", None])
def test_only_instances_are_checked(method):
    with pytest.raises(TypeError, match=r"takes an instance of an Algorithm, such as FedProx\(mu=0.1\), got"):
        check_algorithm(method)
