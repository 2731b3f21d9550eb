"""Why relabeling is not label noise: flips at a uniform rate beside FedReLa's, for the same move of the boundary."""

import re

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import LogisticRegression

from tests.theory.clients import averaged, boundary_of, client_with_rates, fedrela_client
from tests.theory.local_fit import SIGMAS, assert_crosses_at
from tests.theory.mixtures import grid_of, two_normals
from tests.theory.page import PATH, table

TWO = two_normals(0.1)
PLAIN = 1 + np.log(9) / 2
STEP = 0.001
TEXT = " ".join(PATH.read_text(encoding="utf-8").split())


def rate_for(mixture, place):
    """The rate of the majority's rows at a place that makes new labels even there: (1/2 - q) / (1 - q)."""
    q = mixture.posteriors(np.array([[place]]))[0, 1]
    return (0.5 - q) / (1 - q)


def flips(client, below=np.inf):
    """Share of all rows that change their label and lie below a place."""
    x = grid_of(client.mixture, STEP)
    x = x[x[:, 0] < below]
    changed = 1 - np.diagonal(client.transitions(x), axis1=1, axis2=2)
    rows = client.mixture.densities(x) * client.mixture.priors
    return float(np.sum(rows * changed) * STEP)


def fewest(mixture, place):
    """The least share of rows that must become minority for the boundary to lie there."""

    def rate(x):
        q = mixture.posteriors(x[:, np.newaxis])[:, 1]
        return np.where((x > place) & (q < 0.5), (0.5 - q) / (1 - q), 0)

    return client_with_rates(mixture, rate)


class TestBayes:
    """What the best possible classifier of the new labels does."""

    @pytest.mark.parametrize("rate", [0.1, 0.4])
    def test_equal_rates_both_ways_move_nothing(self, rate):
        client = client_with_rates(TWO, rate, rate)
        x = np.linspace(-3, 5, 9)[:, np.newaxis]
        q = TWO.posteriors(x)[:, 1]
        assert_allclose(client.new_posteriors(x)[:, 1], rate + (1 - 2 * rate) * q)
        assert boundary_of(averaged, [client]) == pytest.approx(PLAIN, abs=1e-9)

    @pytest.mark.parametrize("tau", [0.05, 0.2])
    def test_one_direction_at_a_uniform_rate_moves_the_boundary_as_well(self, tau):
        """All that counts for the boundary is the rate at the boundary."""
        moved = boundary_of(averaged, [fedrela_client(TWO, tau)])
        rate = rate_for(TWO, moved)
        uniform = client_with_rates(TWO, rate)
        assert boundary_of(averaged, [uniform]) == pytest.approx(moved, abs=1e-9)
        assert_crosses_at([moved], [uniform], np.random.default_rng(6))
        # far away in the majority every row now has at least that probability of being minority
        assert uniform.new_posteriors(np.array([[-2.0]]))[0, 1] == pytest.approx(rate, abs=1e-2)
        assert fedrela_client(TWO, tau).new_posteriors(np.array([[-2.0]]))[0, 1] < 1e-3

    def test_fewest_flips(self):
        """Between the two boundaries just enough rows change; the sum is that of (1/2 - q) m there."""
        least = fewest(TWO, 1.5)
        x = np.linspace(1.51, PLAIN - 0.01, 20)[:, np.newaxis]
        assert_allclose(least.new_posteriors(x)[:, 1], 0.5)
        grid = np.arange(1.5, PLAIN, STEP)[:, np.newaxis]
        area = np.sum((0.5 - TWO.posteriors(grid)[:, 1]) * TWO.marginal(grid)) * STEP
        assert flips(least) == pytest.approx(area, rel=2e-3)

    def test_flips_of_a_sample(self):
        client = fedrela_client(TWO, 0.1)
        _, y, y_new = client.sample(400_000, np.random.default_rng(7))
        expected = flips(client)
        assert abs(np.mean(y != y_new) - expected) < SIGMAS * np.sqrt(expected * (1 - expected) / 400_000)
        assert np.all(y[y != y_new] == 0)

    def test_table_on_the_page(self):
        """Boundary; flips of FedReLa, of a uniform rate, the fewest; wrong-sided ones; what FedReLa's number buys."""
        rows = table("minority, tau")
        assert len(rows) >= 6
        ratios = []
        for minority, tau, *said in rows:
            mixture = two_normals(minority)
            client = fedrela_client(mixture, tau)
            moved = boundary_of(averaged, [client])
            uniform = client_with_rates(mixture, rate_for(mixture, moved))
            same_number = client_with_rates(mixture, flips(client) / (1 - minority))
            outside = [flips(c, moved) / flips(c) for c in (client, uniform)]
            found = [
                *(100 * flips(c) for c in (fewest(mixture, moved), client, uniform)),
                *(100 * share for share in outside),
            ]
            places = [moved, boundary_of(averaged, [same_number])]
            assert_allclose(said[:1] + said[-1:], places, rtol=0, atol=5.1e-4)
            assert_allclose(said[1:-1], found, rtol=0, atol=0.0051)
            ratios.append((found[1] / found[0], found[2] / found[1]))
        over_fewest, over_fedrela = (sorted(ratio) for ratio in zip(*ratios, strict=True))
        said = re.search(
            r"takes (\S+) to (\S+) times the fewest flips \((\S+) times .*? take (\S+) to (\S+) times", TEXT
        )
        found = [over_fewest[0], *over_fewest[-2:], over_fedrela[0], over_fedrela[-1]]
        assert_allclose([float(number) for number in said.groups()], found, rtol=0.02)


def straight_line(client):
    """Boundary and slope of the logistic regression that the whole population would give, linear in x."""
    x = grid_of(client.mixture, 0.01)
    weights = client.mixture.marginal(x)[:, np.newaxis] * client.new_posteriors(x)
    y = np.repeat([0, 1], len(x))
    line = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000)
    line.fit(np.tile(x, (2, 1)), y, sample_weight=weights.T.ravel())
    return -line.intercept_[0] / line.coef_[0, 0], line.coef_[0, 0]


class TestStraightLine:
    """A logistic regression, right for the old labels but not for the new ones: its model is too small."""

    @staticmethod
    def clients(minority, tau):
        """Plain, FedReLa, and the same number of flips: from the majority alone, and both ways."""
        mixture = two_normals(minority)
        client = fedrela_client(mixture, tau)
        number = flips(client)
        one_way = client_with_rates(mixture, number / (1 - minority))
        return client_with_rates(mixture), client, one_way, client_with_rates(mixture, number, number)

    def test_table_on_the_page(self):
        rows = table("minority, tau (line)")
        assert len(rows) >= 3
        for minority, tau, *said in rows:
            found = [straight_line(client) for client in self.clients(minority, tau)]
            assert_allclose(said, np.ravel(found), rtol=0, atol=5.1e-4)

    def test_on_samples(self):
        """Twenty samples of 20,000 rows: their mean agrees to four standard errors."""
        rng = np.random.default_rng(8)
        for client in self.clients(0.1, 0.05):
            places = []
            for _ in range(20):
                x, _, y_new = client.sample(20_000, rng)
                line = LogisticRegression(C=np.inf).fit(x, y_new)
                places.append(-line.intercept_[0] / line.coef_[0, 0])
            error = np.std(places, ddof=1) / np.sqrt(20)
            assert error < 0.02
            assert abs(np.mean(places) - straight_line(client)[0]) < SIGMAS * error
