"""Promises that hold for every row of every table."""

import re

import numpy as np
import pytest
from sklearn.datasets import make_classification

from fedrela_sk import FederatedClassifier, FedReLaRelabeler
from fedrela_sk.algorithms import ALGORITHMS
from fedrela_sk.exceptions import NetError
from fedrela_sk.relabel.formulas._draw import TARGETS
from fedrela_sk.relabel.formulas._normalization import NORMALIZATIONS
from fedrela_sk.relabel.formulas._threshold import THRESHOLDS
from fedrela_sk.testing import check_algorithm
from tests.algorithms.helpers import engines_of, three_classes

X, Y = make_classification(240, weights=[0.8], class_sep=0.8, random_state=0)


def fit(**params):
    settings = {"clients": 4, "n_rounds": 4, "relabeler": FedReLaRelabeler(0.2), "random_state": 0} | params
    return FederatedClassifier(**settings).fit(X, Y)


ROWS = sorted(ALGORITHMS)
RUNS = [(name, engine) for name in ROWS for engine in engines_of(name)]
LOOP_ONLY = [name for name in ROWS if "stacked" not in engines_of(name)]


@pytest.mark.parametrize(("algorithm", "engine"), RUNS)
def test_one_seed_one_result_and_another_seed_another(algorithm, engine):
    first, again, other = (fit(algorithm=algorithm, engine=engine, random_state=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.predict_proba(X), again.predict_proba(X))
    assert not np.array_equal(first.predict_proba(X), other.predict_proba(X))


@pytest.mark.parametrize(("algorithm", "engine"), RUNS)
def test_relabeling_moves_the_model_and_no_bytes(algorithm, engine):
    with_, without = (
        fit(algorithm=algorithm, engine=engine),
        fit(algorithm=algorithm, engine=engine, relabeler=None),
    )
    assert with_.relabeled_mask_.any()
    assert not np.array_equal(with_.predict_proba(X), without.predict_proba(X))
    for name in ("bytes_up", "bytes_down"):
        np.testing.assert_array_equal(with_.history_.column(name), without.history_.column(name))


@pytest.mark.parametrize("algorithm", ROWS)
def test_a_class_that_relabeling_brings_to_a_client_moves_no_bytes(algorithm):
    X, y, groups = three_classes()
    settings = {"clients": None, "algorithm": algorithm, "n_rounds": 2, "relabel_at": 1, "random_state": 0}
    with_, without = (
        FederatedClassifier(**settings, relabeler=relabeler).fit(X, y, groups=groups)
        for relabeler in (FedReLaRelabeler(0.3), None)
    )
    assert 2 not in y[groups == 0]
    assert 2 in with_.y_relabeled_[groups == 0]
    for name in ("bytes_up", "bytes_down"):
        np.testing.assert_array_equal(with_.history_.column(name), without.history_.column(name))


@pytest.mark.parametrize("name", LOOP_ONLY)
def test_a_method_of_the_loop_alone_says_why_and_auto_takes_the_loop(name):
    with pytest.raises(NetError, match=re.escape(ALGORITHMS[name]().loop_only)):
        fit(algorithm=name, engine="stacked")
    assert fit(algorithm=name, engine="auto", n_rounds=1).engine_.startswith("loop (")


@pytest.mark.parametrize("algorithm", ROWS)
def test_tau_zero_is_plain_training(algorithm):
    zero = fit(algorithm=algorithm, relabeler=FedReLaRelabeler(0))
    plain = fit(algorithm=algorithm, relabeler=None)
    np.testing.assert_array_equal(zero.predict_proba(X), plain.predict_proba(X))


@pytest.mark.parametrize("name", ROWS)
def test_every_algorithm_keeps_the_promises_that_authors_check(name):
    """It equals FedAvg where it says so and nowhere else, writes to nothing, sends what it declares, and so on."""
    check_algorithm(ALGORITHMS[name]())


@pytest.mark.parametrize("target", sorted(TARGETS))
@pytest.mark.parametrize("threshold", sorted(THRESHOLDS))
@pytest.mark.parametrize("normalization", sorted(NORMALIZATIONS))
def test_every_relabeler_keeps_the_simplex_and_is_off_at_zero(normalization, threshold, target):
    stream = np.random.default_rng(0)
    Q, y = stream.dirichlet([2, 1, 0.5], 200), stream.choice(3, 200, p=[0.7, 0.2, 0.1])
    rule = {"normalization": normalization, "threshold": threshold, "target": target, "random_state": 0}
    relabeler = FedReLaRelabeler(0.1, **rule).fit(Q, y)
    mixed = relabeler.transform(Q)
    np.testing.assert_allclose(mixed.sum(1), 1, atol=1e-12)
    assert (mixed >= 0).all()
    assert (relabeler.relabel(Q, y) != y).any()
    off = FedReLaRelabeler(0, **rule).fit(Q, y)
    np.testing.assert_array_equal(off.transform(Q), Q)
    np.testing.assert_array_equal(off.relabel(Q, y), y)
