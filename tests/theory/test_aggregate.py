"""Lemma 3: the boundary of several clients together, with and without the densities of clients."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tests.theory.clients import (
    Client,
    Pool,
    averaged,
    averaged_logits,
    boundary,
    boundary_of,
    canceled,
    client_with_rates,
    fedrela_client,
    pooled,
)
from tests.theory.local_fit import assert_crosses_at
from tests.theory.mixtures import Mixture, two_normals
from tests.theory.page import table

SHARES = (0.9, 0.1)
MIXTURES = [two_normals(0.05), two_normals(0.6)]
PLAIN = [client_with_rates(mixture) for mixture in MIXTURES]
GIVEN = [
    client_with_rates(MIXTURES[0], lambda x: 0.4 / (1 + np.exp(3 - 2 * x))),
    client_with_rates(MIXTURES[1], 0.0, lambda x: 0.3 / (1 + x**2)),
]


def fedrela_clients(mixtures, shares, tau):
    """Every client looks at the posteriors of the model of all rows, as they are before relabeling."""
    model = Pool([client_with_rates(mixture) for mixture in mixtures], shares).new_posteriors
    return [fedrela_client(mixture, tau, model) for mixture in mixtures]


@pytest.fixture
def rng():
    return np.random.default_rng(3)


class TestClosedFormsAndSamples:
    @pytest.mark.parametrize("clients", [PLAIN, GIVEN], ids=["plain", "given rates"])
    def test_mean_of_posteriors(self, clients, rng):
        """sum_k w_k / m_k [pi_j P_j (1 - 2 rho_jl) - pi_l P_l (1 - 2 rho_lj)] = 0."""
        found = boundary_of(averaged, clients, SHARES)
        x, total = np.array([[found]]), 0
        for client, share in zip(clients, SHARES, strict=True):
            T = client.transitions(x)[0]
            joint = client.mixture.densities(x)[0] * client.mixture.priors
            kept = joint * (1 - 2 * np.array([T[0, 1], T[1, 0]]))
            total += share / joint.sum() * (kept[1] - kept[0])
        assert total == pytest.approx(0, abs=1e-10)
        assert assert_crosses_at([found], clients, rng, weights=SHARES) < 0.03

    @pytest.mark.parametrize("clients", [PLAIN, GIVEN], ids=["plain", "given rates"])
    def test_one_model_of_all_rows_has_the_boundary_without_densities(self, clients, rng):
        found = boundary_of(pooled, clients, SHARES)
        assert boundary_of(canceled, clients, SHARES) == pytest.approx(found, abs=1e-9)
        assert assert_crosses_at([found], [Pool(clients, SHARES)], rng) < 0.04
        # the samples would tell the two boundaries apart
        with pytest.raises(AssertionError):
            assert_crosses_at([boundary_of(averaged, clients, SHARES)], [Pool(clients, SHARES)], rng)

    @pytest.mark.parametrize("rule", [pooled, averaged])
    def test_fedrela(self, rule, rng):
        clients = fedrela_clients(MIXTURES, SHARES, 0.2)
        found = boundary_of(rule, clients, SHARES)
        assert boundary_of(rule, PLAIN, SHARES) - found > 0.8
        judged = ([Pool(clients, SHARES)], (1.0,)) if rule is pooled else (clients, SHARES)
        assert assert_crosses_at([found], judged[0], rng, weights=judged[1], radius=0.15) < 0.02


class TestWhereDensitiesCancel:
    """The mean of posteriors has the boundary without densities if weights are as those densities, else not."""

    def test_equal_priors(self):
        """Then all densities are equal, whatever each client relabels."""
        clients = [client_with_rates(two_normals(0.1), rate) for rate in (0.0, 0.2, 0.45)]
        weights = (0.5, 0.3, 0.2)
        found = boundary_of(averaged, clients, weights)
        assert boundary_of(canceled, clients, weights) == pytest.approx(found, abs=1e-9)
        # the rates enter by their mean alone: 0.15
        assert found == pytest.approx(1 + np.log(9 * 0.7) / 2, abs=1e-9)

    def test_equal_densities_of_unequal_clients(self):
        """Two halves of one density, split in opposite ways: q_1 is q in one client and 1 - q in the other."""
        means, ones = np.array([[0.0], [2.0]]), np.ones((2, 1, 1))
        clients = [
            client_with_rates(Mixture(np.array([0.5, 0.5]), m, ones), 0.3) for m in (means, means[::-1])
        ]
        x = np.linspace(-2, 4, 9)[:, np.newaxis]
        assert_allclose(clients[0].mixture.marginal(x), clients[1].mixture.marginal(x))
        assert_allclose(averaged(clients, (0.8, 0.2), x), pooled(clients, (0.8, 0.2), x), atol=1e-15)
        assert np.ptp(averaged(clients, (0.8, 0.2), x)) > 0.3

    def test_weights_as_the_densities_at_x(self):
        x = np.linspace(-2, 5, 15)[:, np.newaxis]
        shares_of_x = np.array(
            [share * c.mixture.marginal(x) for c, share in zip(GIVEN, SHARES, strict=True)]
        )
        weights = shares_of_x / shares_of_x.sum(axis=0)
        assert_allclose(averaged(GIVEN, weights, x), pooled(GIVEN, SHARES, x), atol=1e-14)
        signs = np.sign(canceled(GIVEN, SHARES, x))
        assert np.array_equal(signs, np.sign(averaged(GIVEN, weights, x)))

    def test_two_classes_at_the_balanced_boundary(self):
        """At P_j = P_l every client's density is P_j: aimed at exactly that place, all forms agree."""
        to_minority = (0.05 * 0.9 + 0.6 * 0.1) / 2  # rate that leaves both classes with the same weight
        rate = (1 - 2 * to_minority - 2 * to_minority) / (2 * (1 - 2 * to_minority))
        clients = [client_with_rates(mixture, rate) for mixture in MIXTURES]
        for rule in (pooled, averaged, canceled):
            assert boundary_of(rule, clients, SHARES) == pytest.approx(1, abs=1e-9)
        assert boundary_of(averaged, PLAIN, SHARES) - boundary_of(pooled, PLAIN, SHARES) > 0.29

    def test_three_classes_not_even_there(self):
        """A third class that is common at the place makes densities unequal again: 1.573 against 1.650."""
        third = Mixture(np.ones(3) / 3, np.array([[0.0], [2.0], [1.0]]), np.ones((3, 1, 1)))
        priors = [(0.8, 0.15, 0.05), (0.3, 0.2, 0.5)]
        clients = [Client(third.with_priors(*p), lambda x, label: np.zeros((len(x), 3))) for p in priors]
        found = [boundary(lambda x, rule=rule: rule(clients, (0.5, 0.5), x)) for rule in (pooled, averaged)]
        assert_allclose(found, [1.573, 1.650], atol=5e-4)
        assert np.ptp([client.mixture.marginal(np.array([[1.0]])) for client in clients]) > 0.04


def test_sizes_on_the_page():
    """Minority shares of two clients, and the three boundaries at tau = 0 and 0.1."""
    rows = table("minority's share")
    assert len(rows) >= 5
    for first, second, *said in rows:
        mixtures = [two_normals(first), two_normals(second)]
        found = []
        for clients in (
            [client_with_rates(mixture) for mixture in mixtures],
            fedrela_clients(mixtures, SHARES, 0.1),
        ):
            found += [boundary_of(rule, clients, SHARES) for rule in (pooled, averaged, averaged_logits)]
        assert_allclose(said, found, rtol=0, atol=5.1e-4)


@pytest.mark.parametrize("rule", [averaged, averaged_logits])
def test_the_difference_falls_with_the_square_of_what_clients_differ_by(rule):
    steps = 0.004 / 2.0 ** np.arange(4)
    gaps = []
    for step in steps:
        clients = [client_with_rates(two_normals(0.1 + shift)) for shift in (-step, 9 * step)]
        gaps.append(boundary_of(rule, clients, SHARES) - boundary_of(pooled, clients, SHARES))
    slopes = np.diff(np.log(gaps)) / np.diff(np.log(steps))
    assert_allclose(slopes[-1], 2, atol=0.05)
