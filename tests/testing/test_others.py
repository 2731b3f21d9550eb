"""Checks of rules, splitters, relabelers and engines catch every planted fault, and ours pass."""

import pytest
from sklearn.model_selection import GroupKFold, KFold, PredefinedSplit, StratifiedKFold

from fedrela_sk import DirichletSplit, FedReLaRelabeler, QuantitySkewSplit, ShardSplit
from fedrela_sk.exceptions import CheckError
from fedrela_sk.participation import ClusteredSampling, Mediators, OptimalSampling, UniformSampling
from fedrela_sk.testing import check_engine, check_participation, check_relabeler, check_splitter
from fedrela_sk.training import Loop, Stacked
from tests.federation import extensions
from tests.testing import faulty_engines, faulty_relabelers, faulty_rules, faulty_splitters

TABLES = {
    check_participation: faulty_rules.RULES,
    check_splitter: faulty_splitters.SPLITTERS,
    check_relabeler: faulty_relabelers.RELABELERS,
    check_engine: faulty_engines.ENGINES,
}
FAULTS = [
    pytest.param(check, thing, message, id=f"{check.__name__}, {fault}")
    for check, table in TABLES.items()
    for fault, (thing, message) in table.items()
]


@pytest.mark.parametrize(("check", "thing", "message"), FAULTS)
def test_a_planted_fault_is_caught_and_named(check, thing, message):
    with pytest.raises(CheckError, match=rf"(?s)^{type(thing).__name__}: .*({message})") as caught:
        check(thing)
    assert ". Seen: " in str(caught.value)
    assert ". To mend it: " in str(caught.value)


@pytest.mark.parametrize(
    "rule",
    [
        UniformSampling(0.5),
        ClusteredSampling(0.5),
        OptimalSampling(0.5),
        OptimalSampling(0.5, approximate=True),
        Mediators(2),
        Mediators(2, share=0.5),
        extensions.EveryOther(),
        faulty_rules.Everybody(),
    ],
    ids=repr,
)
def test_rules_pass(rule):
    check_participation(rule)


@pytest.mark.parametrize(
    "splitter",
    [
        *(
            DirichletSplit(4, method=method, random_state=0)
            for method in ("multinomial", "proportions", "equal_size")
        ),
        DirichletSplit(30, random_state=0),
        QuantitySkewSplit(4, random_state=0),
        ShardSplit(4, random_state=0),
        KFold(3),
        StratifiedKFold(3, shuffle=True, random_state=0),
        GroupKFold(3),
        extensions.Thirds(),
        faulty_splitters.Thirds(),
    ],
    ids=repr,
)
def test_splitters_pass(splitter):
    check_splitter(splitter)


def test_a_splitter_for_certain_rows_is_checked_on_them():
    check_splitter(PredefinedSplit([0, 1, 0, 1]), X=[[0.0]] * 4, y=[0, 1, 0, 1])
    with pytest.raises(CheckError, match="row 0 is in no test set"):
        check_splitter(PredefinedSplit([-1, 1, 0, 1]), X=[[0.0]] * 4, y=[0, 1, 0, 1])


@pytest.mark.parametrize(
    "relabeler",
    [
        FedReLaRelabeler(0.2),
        FedReLaRelabeler(0),
        FedReLaRelabeler(0.2, random_state=3),
        extensions.FlipsTenth(),
        faulty_relabelers.Likeliest(),
    ],
    ids=lambda relabeler: type(relabeler).__name__,
)
def test_relabelers_pass(relabeler):
    check_relabeler(relabeler)


@pytest.mark.parametrize(
    "engine",
    [Loop(), Stacked(), Stacked(chunk_size=2), extensions.Reversed(), faulty_engines.OnTasks()],
    ids=repr,
)
def test_engines_pass(engine):
    check_engine(engine)


@pytest.mark.parametrize("check", [check_participation, check_engine])
def test_only_instances_are_checked(check):
    with pytest.raises(TypeError, match=rf"{check.__name__} takes an instance of an? \w+"):
        check("loop")
