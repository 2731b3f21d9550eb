"""Every real parameter of what works without nets takes NumPy's numbers, and means what it says."""

import importlib
from numbers import Real

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval

from fedrela_sk import DirichletSplit, FedReLaRelabeler, QuantitySkewSplit
from fedrela_sk._checks import as_float
from fedrela_sk.imbalance import long_tailed_counts, make_long_tailed, make_step_wise, step_wise_counts
from fedrela_sk.metrics import cost_by_amount, shot_split
from fedrela_sk.participation import ClusteredSampling, Mediators, OptimalSampling, UniformSampling
from fedrela_sk.relabel.many._pass import ManyRows, relabel_many
from tests.relabel.made_rows import long_tailed_rows

Q, Y = long_tailed_rows(0, 300, 4)
LABELS = np.repeat([0, 1, 2, 3], 100)
SIZES = np.arange(1.0, 101.0)
COUNTS = np.random.default_rng(0).integers(0, 9, (100, 3))


def relabeled(**params):
    relabeler = FedReLaRelabeler(random_state=0, **params).fit(Q, Y)
    return [relabeler.relabel(Q, Y), relabeler.threshold_, relabeler.scale_, relabeler.transform(Q)]


def relabeled_together(**params):
    relabeler, sizes = FedReLaRelabeler(classes=range(4), **params), np.array([200, 100])
    rows = ManyRows(Q, Y, Y, sizes)
    new, _ = relabel_many(relabeler, rows, lambda row, column: np.full(len(row), 0.2), [0, 0])
    return [new]


def clients(splitter):
    return [test.tolist() for _, test in splitter.split(np.zeros(400), LABELS)]


def chosen(rule):
    return rule.choose(0, np.random.default_rng(0), SIZES, COUNTS)


# (room, name, parameter): (function of the parameter, a value that float32 does not hold)
CASES = {
    ("relabel", "FedReLaRelabeler", "tau"): (
        lambda v: [*relabeled(tau=v), *relabeled(tau=v, threshold="order_statistic"), *relabeled_together(tau=v)],
        0.29,
    ),
    ("relabel", "FedReLaRelabeler", "min_scale"): (
        lambda v: [*relabeled(min_scale=v), *relabeled_together(min_scale=v)], 0.1),
    ("relabel", "FedReLaRelabeler", "max_ratio"): (
        lambda v: [*relabeled(tau=1.0, max_ratio=v), *relabeled_together(tau=1.0, max_ratio=v)], 0.1),
    ("splitters", "DirichletSplit", "alpha"): (
        lambda v: [clients(DirichletSplit(5, v, method=method, random_state=0))
                   for method in ("multinomial", "proportions", "equal_size")], 0.3),
    ("splitters", "QuantitySkewSplit", "alpha"): (lambda v: clients(QuantitySkewSplit(5, v, random_state=0)), 0.3),
    ("splitters", "QuantitySkewSplit", "exponent"): (
        lambda v: clients(QuantitySkewSplit(5, method="power_law", exponent=v, random_state=0)), 1.1),
    ("imbalance", "long_tailed_counts", "imbalance_factor"): (
        lambda v: long_tailed_counts(10, imbalance_factor=v, n_max=5000), 33.3),
    ("imbalance", "long_tailed_counts", "n_max"): (
        lambda v: long_tailed_counts(10, imbalance_factor=100, n_max=v), 16777217.7),
    ("imbalance", "make_long_tailed", "imbalance_factor"): (
        lambda v: make_long_tailed(LABELS, LABELS, imbalance_factor=v, random_state=0)[1], 3.3),
    ("imbalance", "make_long_tailed", "n_max"): (
        lambda v: make_long_tailed(LABELS, LABELS, imbalance_factor=3, n_max=v, random_state=0)[1], 77.7),
    ("imbalance", "make_step_wise", "imbalance_ratio"): (
        lambda v: make_step_wise(LABELS, LABELS, imbalance_ratio=v, random_state=0)[1], 1.1),
    ("imbalance", "make_step_wise", "minority"): (
        lambda v: make_step_wise(LABELS, LABELS, minority=v, random_state=0)[1], 0.375),
    ("imbalance", "step_wise_counts", "imbalance_ratio"): (
        lambda v: step_wise_counts([1100, 11], imbalance_ratio=v, is_minority=[True, True]), 1.1),
    ("metrics", "cost_by_amount", "alert_cost"): (
        lambda v: cost_by_amount([1, 0, 1], [1, 1, 0], [1e6, 2.0, 3.0], alert_cost=v), 0.1),
    ("participation", "ClusteredSampling", "share"): (lambda v: chosen(ClusteredSampling(v)), 0.145),
    ("participation", "Mediators", "share"): (lambda v: chosen(Mediators(3, share=v)), 0.145),
    ("participation", "OptimalSampling", "share"): (
        lambda v: OptimalSampling(v).probabilities(SIZES, SIZES[::-1]), 0.145),
    ("participation", "UniformSampling", "share"): (lambda v: chosen(UniformSampling(v)), 0.145),
}  # fmt: skip
KINDS = [np.float64, np.float32, np.longdouble]


def real_parameters():
    """(room, name, parameter) of all constraint tables."""
    for room in ("relabel", "splitters", "imbalance", "metrics", "participation"):
        public = importlib.import_module(f"fedrela_sk.{room}")
        for name in public.__all__:
            own = getattr(public, name)
            table = getattr(own, "_parameter_constraints", None) or getattr(
                own, "_skl_parameter_constraints", {}
            )
            for parameter, rules in table.items():
                if isinstance(rules, list) and any(isinstance(r, Interval) and r.type is Real for r in rules):
                    yield room, name, parameter


def test_every_real_parameter_is_there():
    missing = set(real_parameters()) - set(CASES) - {("participation", "Participation", "share")}  # the base
    assert missing == set()
    assert len(set(real_parameters())) > 15


def same(one, other):
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(same(*pair) for pair in zip(one, other, strict=True))
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and one.tobytes() == other.tobytes()
    return one == other


@pytest.mark.parametrize("kind", KINDS, ids=["float64", "float32", "longdouble"])
@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_numpys_numbers_are_pythons(case, kind):
    make, value = CASES[case]
    meant = value
    if kind is np.float32:  # what it prints as
        meant = float(str(np.float32(value)))
    assert same(make(kind(value)), make(meant))


@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_cuts_of_shots(kind):
    counts = [75, 20, 5]
    assert shot_split(counts, cuts=(kind(0.75), kind(0.95))).tolist() == ["head", "medium", "tail"]


def test_a_narrow_float_means_what_it_prints():
    for text in ("0.29", "0.05", "1e-06", "100.0", "0.145"):
        assert as_float(np.float32(text)) == as_float(np.float64(text)) == float(text)
    assert as_float(np.float16(0.1)) == 0.1
    assert type(as_float(np.int64(3))) is float


def test_estimators_of_these_rooms_clone_with_them():
    for room, name, parameter in CASES:
        kind = getattr(importlib.import_module(f"fedrela_sk.{room}"), name)
        if isinstance(kind, type) and issubclass(kind, BaseEstimator):
            assert getattr(kind(**{parameter: np.float32(0.5)}), parameter) == 0.5
