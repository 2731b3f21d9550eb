"""Example 1 and Remark 2: a client whose majority is the globally rare class relabels in the wrong direction."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tests.theory.clients import averaged, boundary_of, client_with_rates, crossings, pooled
from tests.theory.local_fit import assert_crosses_at
from tests.theory.mixtures import two_normals
from tests.theory.page import table
from tests.theory.test_aggregate import fedrela_clients


class TestByHand:
    """A holds 80 % of the rows and 5 % of them are minority, B 20 % and 60 %: the classes weigh 0.84 and 0.16."""

    SHARES = (0.8, 0.2)

    def clients(self, right, wrong):
        return [client_with_rates(two_normals(0.05), right), client_with_rates(two_normals(0.6), 0.0, wrong)]

    @pytest.mark.parametrize(
        ("right", "wrong", "ratio"),
        [
            (0.0, 0.0, 0.84 / 0.16),
            (0.3, 0.3, 0.384 / 0.088),
            (0.2, 0.3, 0.536 / 0.088),
            (0.3, 0.0, 0.384 / 0.16),
            (0.0, 0.3, 0.84 / 0.088),
        ],
    )
    def test_boundary(self, right, wrong, ratio):
        """Ratios 5.25, 4.36, 6.09, 2.4, 9.55: corrected in spite of B, not corrected, A alone, B alone."""
        found = boundary_of(pooled, self.clients(right, wrong), self.SHARES)
        assert found == pytest.approx(1 + np.log(ratio) / 2, abs=1e-9)
        # corrected if A flips a larger share of the majority's rows than B of the minority's
        corrected = 0.76 * right / 0.84 > 0.12 * wrong / 0.16
        assert corrected == (ratio < 0.84 / 0.16 - 1e-9)

    def test_on_a_sample(self):
        clients = self.clients(0.3, 0.3)
        found = boundary_of(averaged, clients, self.SHARES)
        plain = boundary_of(averaged, self.clients(0, 0), self.SHARES)
        error = assert_crosses_at(
            [found], clients, np.random.default_rng(4), weights=self.SHARES, n_rows=1_000_000
        )
        assert plain - found > 8 * error


def flows(clients, shares, x):
    """Weighted shares of rows at x that become minority, and that become majority."""
    new = [client.transitions(x)[0] for client in clients]
    old = [client.mixture.posteriors(x)[0] for client in clients]
    weights = [w * c.mixture.marginal(x)[0] for c, w in zip(clients, shares, strict=True)]
    into = sum(w * q[0] * T[0, 1] for w, q, T in zip(weights, old, new, strict=True))
    out = sum(w * q[1] * T[1, 0] for w, q, T in zip(weights, old, new, strict=True))
    return into, out


class TestFedReLa:
    """A holds 70 % of the rows, 5 % of them minority, B 30 % and 60 %: FedReLa's own rates, global posteriors."""

    SHARES = (0.7, 0.3)
    MIXTURES = [two_normals(0.05), two_normals(0.6)]

    def boundaries(self, rule, tau):
        """Plain, both relabel, A alone, B alone."""
        plain = [client_with_rates(mixture) for mixture in self.MIXTURES]
        both = fedrela_clients(self.MIXTURES, self.SHARES, tau)
        arms = [plain, both, [both[0], plain[1]], [plain[0], both[1]]]
        return [boundary_of(rule, clients, self.SHARES) for clients in arms]

    def test_boundaries_on_the_page(self):
        rows = table("tau of both")
        assert len(rows) >= 4
        for tau, *said in rows:
            found = self.boundaries(pooled, tau) + self.boundaries(averaged, tau)[:2]
            assert_allclose(said, found, rtol=0, atol=5.1e-4)

    def test_the_wrong_direction_is_without_effect_at_the_plain_boundary(self):
        """There a row is no outlier among B's own minority rows: rho is 0 for tau up to 0.2."""
        for tau in (0.05, 0.2):
            clients = fedrela_clients(self.MIXTURES, self.SHARES, tau)
            plain = boundary_of(pooled, [client_with_rates(m) for m in self.MIXTURES], self.SHARES)
            assert clients[1].transitions(np.array([[plain]]))[0, 1, 0] == 0
            # though B relabels: some of its rows, all of them in the wrong direction
            _, y, y_new = clients[1].sample(100_000, np.random.default_rng(0))
            assert np.mean(y != y_new) > 0.005
            assert np.all(y[y != y_new] == 1)

    def test_on_a_sample(self):
        clients = fedrela_clients(self.MIXTURES, self.SHARES, 0.2)
        found = boundary_of(averaged, clients, self.SHARES)
        # both directions are at work there
        assert clients[0].transitions(np.array([[found]]))[0, 0, 1] > 0.3
        assert clients[1].transitions(np.array([[found]]))[0, 1, 0] > 0.3
        rng = np.random.default_rng(5)
        error = assert_crosses_at([found], clients, rng, weights=self.SHARES, radius=0.15)
        assert error < 0.015


class TestWhereItFails:
    """Classes 3 apart; A and B hold half each, 1 % and 60 % minority, so B has 98 % of the minority's rows."""

    SHARES = (0.5, 0.5)
    MIXTURES = [two_normals(0.01, 3.0), two_normals(0.6, 3.0)]

    @pytest.mark.parametrize(("tau", "corrected"), [(0.05, True), (0.1, True), (0.2, False), (0.4, False)])
    def test_one_model_of_all_rows(self, tau, corrected):
        plain = boundary_of(pooled, [client_with_rates(m) for m in self.MIXTURES], self.SHARES)
        clients = fedrela_clients(self.MIXTURES, self.SHARES, tau)
        moved = boundary_of(pooled, clients, self.SHARES)
        assert plain == pytest.approx(1.7745, abs=1e-3)
        assert (moved < plain - 0.03) if corrected else (moved > plain + 0.05)
        # the condition, at the plain boundary
        into, out = flows(clients, self.SHARES, np.array([[plain]]))
        assert (into > out) == corrected

    def test_three_boundaries(self):
        mixtures = [two_normals(0.01, 3.0), two_normals(0.9, 3.0)]
        clients = fedrela_clients(mixtures, self.SHARES, 0.2)
        assert_allclose(crossings(pooled, clients, self.SHARES), [1.292, 1.533, 1.658], atol=0.002)

    def test_the_mean_of_posteriors_is_corrected(self):
        clients = fedrela_clients(self.MIXTURES, self.SHARES, 0.2)
        plain = boundary_of(averaged, [client_with_rates(m) for m in self.MIXTURES], self.SHARES)
        assert_allclose([plain, boundary_of(averaged, clients, self.SHARES)], [2.198, 1.572], atol=2e-3)
