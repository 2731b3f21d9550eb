"""Lemma 2: where one client's boundary lies after relabeling, in closed form and on relabeled samples."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import brentq

from tests.theory.clients import (
    Client,
    averaged,
    boundary,
    boundary_of,
    by_push,
    client_with_rates,
    crossings,
    fedrela_client,
)
from tests.theory.local_fit import assert_crosses_at
from tests.theory.mixtures import THREE, Mixture, two_normals

TWO = two_normals(0.1)
PLAIN = 1 + np.log(9) / 2


def rising(x):
    return 0.45 / (1 + np.exp(3 - 2 * x))


@pytest.fixture
def rng():
    return np.random.default_rng(2)


def ratio_is_that_of_the_lemma(client, x):
    """P_j / P_l at x against [(1 - 2 rho_lj) / (1 - 2 rho_jl)] pi_l / pi_j."""
    x = np.array([[x]])
    majority, minority = client.mixture.densities(x)[0]
    T = client.transitions(x)[0]
    priors = client.mixture.priors
    expected = (1 - 2 * T[0, 1]) / (1 - 2 * T[1, 0]) * priors[0] / priors[1]
    assert_allclose(minority / majority, expected, rtol=1e-9)


class TestConstantRates:
    """N(0, 1) against N(2, 1): the boundary is 1 + log[(1 - 2 r_lj) / (1 - 2 r_jl) * 9] / 2."""

    @pytest.mark.parametrize(
        ("to_minority", "to_majority", "expected"),
        [
            (0.0, 0.0, PLAIN),
            (0.2, 0.0, 1 + np.log(0.6 * 9) / 2),
            (4 / 9, 0.0, 1.0),
            (0.3, 0.1, 1 + np.log(0.5 * 9) / 2),
            (0.0, 0.3, 1 + np.log(9 / 0.4) / 2),
            (0.2, 0.2, PLAIN),
        ],
    )
    def test_boundary(self, to_minority, to_majority, expected, rng):
        client = client_with_rates(TWO, to_minority, to_majority)
        found = boundary_of(averaged, [client])
        assert_allclose(found, expected, rtol=1e-10)
        ratio_is_that_of_the_lemma(client, found)
        assert assert_crosses_at([found], [client], rng) < 0.04

    def test_a_sample_tells_boundaries_apart(self, rng):
        with pytest.raises(AssertionError):
            assert_crosses_at([PLAIN - 0.2], [client_with_rates(TWO)], rng)


class TestRatesOfTheFeatures:
    @pytest.mark.parametrize(
        ("to_minority", "to_majority"), [(rising, 0.0), (rising, lambda x: 0.3 * np.exp(-(x**2)))]
    )
    def test_given(self, to_minority, to_majority, rng):
        client = client_with_rates(TWO, to_minority, to_majority)
        found = boundary_of(averaged, [client])
        ratio_is_that_of_the_lemma(client, found)
        assert PLAIN - found > 0.2
        assert assert_crosses_at([found], [client], rng) < 0.02

    @pytest.mark.parametrize("tau", [0.05, 0.1, 0.3])
    def test_fedrela(self, tau, rng):
        client = fedrela_client(TWO, tau)
        found = boundary_of(averaged, [client])
        ratio_is_that_of_the_lemma(client, found)
        assert PLAIN - found > 0.4
        assert assert_crosses_at([found], [client], rng, radius=0.08, n_rows=1_000_000) < 0.02

    def test_a_relabeler_fitted_to_a_sample(self, rng):
        """Statistics of 200,000 rows instead of the population: the boundary is nearly the same."""
        client = fedrela_client(TWO, 0.1)
        expected = boundary_of(averaged, [client])
        x, y = TWO.sample(200_000, rng)
        client.relabeler.fit(TWO.posteriors(x), y)
        assert_allclose(boundary_of(averaged, [client]), expected, atol=0.02)


def on_the_curve(client, height, pair=(0, 1)):
    """The point of the boundary with this second coordinate, and the normal of the boundary there."""

    def excess(x):
        return averaged([client], [1], np.atleast_2d(x), pair)[0]

    point = np.array([brentq(lambda first: excess([first, height]), -1, 3, xtol=1e-13), height])
    steps = 1e-5 * np.eye(2)
    return point, np.array([excess(point + step) - excess(point - step) for step in steps])


class TestTwoFeatures:
    """Classes of unequal covariances: the boundary is a curve, tested at several places along its normal."""

    MIXTURE = Mixture(
        np.array([0.9, 0.1]),
        np.array([[0.0, 0.0], [1.8, 1.0]]),
        np.array([[[1.0, 0.4], [0.4, 1.0]], [[0.5, -0.1], [-0.1, 0.8]]]),
    )

    @pytest.mark.parametrize("height", [0.5, 1.0, 1.6])
    def test_boundary(self, height, rng):
        client = fedrela_client(self.MIXTURE, 0.3, step=0.04)
        plain, _ = on_the_curve(client_with_rates(self.MIXTURE), height)
        point, normal = on_the_curve(client, height)
        assert plain[0] - point[0] > 0.3
        T, (majority, minority) = client.transitions(point[None])[0], self.MIXTURE.densities(point[None])[0]
        assert_allclose(minority / majority, (1 - 2 * T[0, 1]) * 9, rtol=1e-8)
        assert assert_crosses_at(point, [client], rng, normal=normal, radius=0.2, n_rows=1_000_000) < 0.03


class TestThreeClasses:
    """The boundary of a pair: q_j (T_jj - T_jl) + q_m (T_mj - T_ml) = q_l (T_ll - T_lj), m the third class."""

    MIXTURE = Mixture(np.array([0.6, 0.25, 0.15]), np.array([[0.0], [2.0], [3.5]]), np.ones((3, 1, 1)))

    def rho(self, x, label):
        rates = np.array([[0, 0.3, 0.1], [0, 0, 0.3], [0, 0, 0]])[label]
        return rates / (1 + np.exp(2 - x.sum(axis=1, keepdims=True)))

    @pytest.mark.parametrize("target", ["argmax", "argmax_of_successes"])
    @pytest.mark.parametrize(("pair", "low", "high"), [((0, 1), 0.0, 2.0), ((1, 2), 2.0, 4.0)])
    def test_boundary(self, pair, low, high, target, rng):
        client = Client(self.MIXTURE, self.rho, target)
        found = boundary(lambda x: averaged([client], [1], x, pair), low, high)
        plain = Client(self.MIXTURE, lambda x, label: np.zeros((len(x), 3)))
        assert boundary(lambda x: averaged([plain], [1], x, pair), low, high) - found > 0.05
        x = np.array([[found]])
        first, second = pair
        (third,) = {0, 1, 2} - set(pair)
        q, T = self.MIXTURE.posteriors(x)[0], client.transitions(x)[0]
        gained = q[second] * (T[second, second] - T[second, first]) + q[third] * (
            T[third, second] - T[third, first]
        )
        assert_allclose(gained, q[first] * (T[first, first] - T[first, second]), rtol=1e-9)
        assert assert_crosses_at([found], [client], rng, pair=pair) < 0.03

    @pytest.mark.parametrize(("pair", "height"), [((0, 1), 0.0), ((0, 1), 0.8), ((2, 1), 2.0)])
    def test_two_features(self, pair, height, rng):
        client = Client(THREE, self.rho)
        plain, _ = on_the_curve(Client(THREE, lambda x, label: np.zeros((len(x), 3))), height, pair)
        point, normal = on_the_curve(client, height, pair)
        error = assert_crosses_at(
            point, [client], rng, normal=normal, radius=0.5, n_rows=1_000_000, pair=pair
        )
        assert abs(plain[0] - point[0]) > 8 * error

    def test_a_boundary_may_lie_on_a_jump(self):
        """Where two targets have the same rho, all that leaves goes to one class here and to another there."""
        point, _ = on_the_curve(Client(THREE, by_push), 0.8)
        nearby = np.array([point - 1e-9, point + 1e-9])
        assert np.ptp(by_push(nearby, 0)[:, 1:].mean(axis=0)) < 1e-7
        assert np.ptp(averaged([Client(THREE, by_push)], [1], nearby)) > 0.1

    def test_the_third_class_matters(self):
        """Between the two rarer classes, rows that leave the first one move the boundary by 0.01."""
        client = Client(self.MIXTURE, self.rho, "argmax_of_successes")
        found = boundary(lambda x: averaged([client], [1], x, (1, 2)), 2, 4)

        def two_alone(x):
            q, T = self.MIXTURE.posteriors(x)[0], client.transitions(x)[0]
            return [q[2] * (T[2, 2] - T[2, 1]) - q[1] * (T[1, 1] - T[1, 2])]

        assert found - boundary(two_alone, 2, 4) == pytest.approx(0.0105, abs=1e-4)


def test_there_may_be_several_boundaries():
    """A rho that falls again leaves an island of the majority; FedReLa's for two classes only rises."""
    bump = client_with_rates(TWO, lambda x: 0.49 * np.exp(-20 * (x - 1.4) ** 2))
    assert len(crossings(averaged, [bump], [1])) == 3
    assert len(crossings(averaged, [fedrela_client(TWO, 0.1)], [1])) == 1
