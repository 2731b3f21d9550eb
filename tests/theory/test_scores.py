"""What leaves rho as it is: any rising straight line through each column of scores, bit for bit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from fedrela_sk import FedReLaRelabeler
from tests.theory.mixtures import THREE, two_normals

SEEDS = st.integers(0, 2**32 - 1)
RULES = [{}, {"threshold": "order_statistic", "ddof": 0}, {"normalization": "minmax"}]


def rho_of(values, y, n_classes=3, **parameters):
    relabeler = FedReLaRelabeler(0.2, classes=range(n_classes), **parameters)
    return relabeler.fit(values, y).relabel_proba(values, y)


@pytest.mark.parametrize("rule", RULES)
@settings(max_examples=50, deadline=None)
@given(seed=SEEDS)
def test_exactly(rule, seed):
    """Integer scores, 2^k rows of every class, slopes 2^k: no step of the arithmetic rounds but the last ones.

    So not even the last bit may change.
    """
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.repeat([0, 1, 2], [64, 16, 4]))
    scores = rng.integers(-1000, 1000, (84, 3)) + 300.0 * np.eye(3)[y]
    slope, shift = 2.0 ** rng.integers(-20, 21, 3), rng.integers(-(2**20), 2**20, 3)
    before = rho_of(scores, y, input="score", **rule)
    assert before.any()
    assert_array_equal(rho_of((scores + shift) * slope, y, input="score", **rule), before)


@settings(max_examples=25, deadline=None)
@given(prior=st.tuples(*[st.floats(0.001, 1)] * 3))
def test_a_wrong_prior_in_log_densities(prior):
    """log(pi_j P_j): a model that believes in other priors shifts a column, and rho stays."""
    x, y = THREE.sample(300, np.random.default_rng(0))
    scores = np.log(THREE.densities(x) * THREE.priors)
    before = rho_of(scores, y, input="score")
    assert_allclose(rho_of(scores + np.log(prior), y, input="score"), before, rtol=0, atol=1e-10)
    assert before.any()


def test_a_wrong_prior_in_posteriors_is_no_straight_line():
    """A model that takes the minority for 20 times rarer: no row changes its place, but z-scores bend.

    With posteriors rho changes by up to 0.48 and 2.6 % instead of 3.6 % of 5000 rows are relabeled.
    """
    mixture, wrong = two_normals(0.1), two_normals(0.1 / 20)
    x, y = mixture.sample(5000, np.random.default_rng(0))
    Q = [model.posteriors(x) for model in (mixture, wrong)]
    assert_array_equal(np.argsort(Q[1][:, 1]), np.argsort(Q[0][:, 1]))
    before, after = (FedReLaRelabeler(0.05).fit(q, y).relabel_proba(q, y) for q in Q)
    assert np.abs(after - before).max() == pytest.approx(0.48, abs=0.005)
    assert [before.sum() / 5000, after.sum() / 5000] == pytest.approx([0.0361, 0.0255], abs=1e-4)
    log_odds = [np.log(q) - np.log(q[:, ::-1]) for q in Q]
    before, after = (FedReLaRelabeler(0.05, input="score").fit(s, y).relabel_proba(s, y) for s in log_odds)
    assert_allclose(after, before, rtol=0, atol=1e-9)
