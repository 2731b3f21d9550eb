"""What does not change, and what theory says about what does."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import brentq
from scipy.stats import norm
from sklearn.metrics import average_precision_score, roc_auc_score

from fedrela_sk.relabel import FedReLaRelabeler
from tests.relabel.made_rows import long_tailed_rows

SEEDS = st.integers(0, 2**32 - 1)
RULES = [
    {},
    {"threshold": "order_statistic", "ddof": 0},
    {"normalization": "minmax"},
    {"normalization": "minmax", "threshold": "order_statistic"},
]


def rho_of(values, y, n_classes, **parameters):
    relabeler = FedReLaRelabeler(0.2, classes=range(n_classes), **parameters)
    return relabeler.fit(values, y).relabel_proba(values, y)


class TestRho:
    """rho is unchanged by maps of columns, by the order of rows and by the names of classes."""

    @pytest.mark.parametrize("rule", RULES)
    @settings(max_examples=40, deadline=None)
    @given(seed=SEEDS)
    def test_by_any_positive_affine_map_of_any_column_of_scores(self, rule, seed):
        rng = np.random.default_rng(seed)
        Q, y = long_tailed_rows(seed, 50, 3)
        scores = np.round(np.log(Q) * 2**20) / 2**20
        # powers of two and short shifts, so that the mapped scores are exact
        slope, shift = 2.0 ** rng.integers(-8, 9, 3), rng.integers(-64, 65, 3) / 4
        before = rho_of(scores, y, 3, input="score", **rule)
        after = rho_of(scores * slope + shift, y, 3, input="score", **rule)
        assert_allclose(after, before, rtol=0, atol=1e-10)
        assert before.any()

    @settings(max_examples=40, deadline=None)
    @given(seed=SEEDS)
    def test_by_maps_that_round_too(self, seed):
        rng = np.random.default_rng(seed)
        Q, y = long_tailed_rows(seed, 50, 3)
        slope, shift = 10 ** rng.uniform(-6, 6, 3), rng.normal(size=3)
        before = rho_of(np.log(Q), y, 3, input="score")
        after = rho_of((np.log(Q) + shift) * slope, y, 3, input="score")
        assert_allclose(after, before, rtol=0, atol=1e-9)

    def test_a_column_that_is_multiplied_by_a_tiny_number_too(self):
        Q, y = long_tailed_rows(0, 50, 3)
        before = rho_of(np.log(Q), y, 3, input="score")
        assert_allclose(
            rho_of(np.log(Q) * [1, 1e-200, 1e140], y, 3, input="score"), before, rtol=0, atol=1e-12
        )

    @pytest.mark.parametrize("rule", [*RULES, {"normalization": "none"}])
    @settings(max_examples=30, deadline=None)
    @given(seed=SEEDS)
    def test_by_the_order_of_rows(self, rule, seed):
        Q, y = long_tailed_rows(seed, 60, 4)
        order = np.random.default_rng(seed).permutation(60)
        assert_allclose(
            rho_of(Q[order], y[order], 4, **rule), rho_of(Q, y, 4, **rule)[order], rtol=0, atol=1e-12
        )

    @pytest.mark.parametrize("rule", [*RULES, {"normalization": "none"}])
    @settings(max_examples=30, deadline=None)
    @given(seed=SEEDS)
    def test_by_the_names_of_classes(self, rule, seed):
        Q, y = long_tailed_rows(seed, 60, 4)
        before = rho_of(Q, y, 4, **rule)
        order = np.random.default_rng(seed).permutation(4)
        names = np.array(["pear", "apple", "fig", "plum"])
        relabeler = FedReLaRelabeler(0.2, classes=names[order], **rule)
        after = relabeler.fit(Q[:, order], names[y]).relabel_proba(Q[:, order], names[y])
        assert_array_equal(after, before[:, order])


class TestTwoClasses:
    """Average precision, AUC and order survive `transform`."""

    @pytest.mark.parametrize("rarer", [0, 1])
    @pytest.mark.parametrize("tau", [0.05, 0.5, 1.0])
    @settings(max_examples=15, deadline=None)
    @given(seed=SEEDS)
    def test_ranking_scores_are_the_same(self, rarer, tau, seed):
        rng = np.random.default_rng(seed)
        y = np.where(rng.random(300) < 0.1, rarer, 1 - rarer)
        y[:4] = 0, 0, 1, 1
        p = np.clip(1 / (1 + np.exp(-rng.normal(3 * (2 * y - 1), 4))), 1e-6, 1 - 1e-6)
        Q = np.column_stack([1 - p, p])
        mixed = FedReLaRelabeler(tau).fit_transform(Q, y)[:, 1]
        # differences below 1e-9, at the two ends where p was cut, are ties or stay in order
        assert roc_auc_score(y, mixed) == pytest.approx(roc_auc_score(y, p), abs=1e-12)
        assert average_precision_score(y, mixed) == pytest.approx(average_precision_score(y, p), abs=1e-12)

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("rarer", [0, 1])
    def test_softmax_rows_of_either_precision_never_step_back(self, rarer, dtype):
        rng = np.random.default_rng(0)
        y = np.where(rng.random(20_000) < 0.1, rarer, 1 - rarer)
        logits = rng.normal(0, 6, (20_000, 2)).astype(dtype)
        powers = np.exp(logits - logits.max(axis=1, keepdims=True))
        Q = powers / powers.sum(axis=1, keepdims=True)
        assert Q.dtype == dtype
        assert Q.max() == 1
        mixed = FedReLaRelabeler(0.3).fit_transform(Q, y)[:, 1]
        order = np.argsort(Q[:, 1], kind="stable")
        assert np.all(np.diff(mixed[order]) >= 0)
        apart = np.diff(Q[order, 1].astype(float)) > 1e-9
        assert np.all(np.diff(mixed[order])[apart] > 0)

    def test_it_is_the_same_as_moving_the_threshold(self):
        Q, y = long_tailed_rows(3, 400, 2, decay=0.15)
        relabeler = FedReLaRelabeler(0.1).fit(Q, y)
        positive = relabeler.transform(Q)[:, 1] > 0.5
        assert Q[positive, 1].min() > Q[~positive, 1].max()
        assert positive.sum() > np.sum(Q[:, 1] > 0.5)


class TestLemmaTwo:
    """On known densities the new boundary lies where P_j / P_l = (1 - 2 rho) pi_l / pi_j."""

    @pytest.mark.parametrize("rarer", [0, 1])
    @pytest.mark.parametrize("tau", [0.02, 0.05, 0.2])
    def test_the_boundary_of_two_gaussians(self, rarer, tau):
        prior = {rarer: 0.1, 1 - rarer: 0.9}
        density = {rarer: norm(1.5, 1).pdf, 1 - rarer: norm(0, 1).pdf}

        def posterior(x):
            joint = np.column_stack([prior[label] * density[label](x) for label in (0, 1)])
            return joint / joint.sum(axis=1, keepdims=True)

        rng = np.random.default_rng(0)
        y = np.where(rng.random(4000) < 0.1, rarer, 1 - rarer)
        x = rng.normal(np.where(y == rarer, 1.5, 0), 1)
        relabeler = FedReLaRelabeler(tau).fit(posterior(x), y)

        def excess(x):
            return relabeler.transform(posterior(np.array([x])))[0, rarer] - 0.5

        boundary = brentq(excess, -3, 5, xtol=1e-14)
        at = posterior(np.array([boundary]))
        rho = relabeler.relabel_proba(at, [1 - rarer])[0, rarer]
        assert 0.01 < rho < 0.5
        ratio = density[rarer](boundary) / density[1 - rarer](boundary)
        assert_allclose(ratio, (1 - 2 * rho) * prior[1 - rarer] / prior[rarer], rtol=1e-9)
        # it moved towards the majority
        plain = brentq(lambda x: posterior(np.array([x]))[0, rarer] - 0.5, -3, 5)
        assert boundary < plain - 0.05
