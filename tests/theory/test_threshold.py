"""Two classes: relabeling is an increasing map of P(minority), that is, another threshold; and when it is none."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import brentq
from sklearn.metrics import average_precision_score

from fedrela_sk import FedReLaRelabeler
from tests.theory.clients import averaged, boundary_of, client_with_rates, fedrela_client
from tests.theory.mixtures import two_normals

TWO = two_normals(0.1)
PLAIN = 1 + np.log(9) / 2


def test_constant_rate_has_its_threshold_in_closed_form():
    """1/2 of the new labels is (1 - 2 r) / (2 - 2 r) of the old ones."""
    for rate in (0.0, 0.1, 0.3, 0.45):
        at = np.array([[boundary_of(averaged, [client_with_rates(TWO, rate)])]])
        assert_allclose(TWO.posteriors(at)[0, 1], (1 - 2 * rate) / (2 - 2 * rate), rtol=1e-9)


@pytest.mark.parametrize("tau", [0.05, 0.1, 0.3])
def test_fedrela_moves_the_threshold(tau):
    """p* solves p = (1 - 2 rho(p)) / (2 - 2 rho(p)); new labels have their majority where P exceeds it."""
    relabeler = fedrela_client(TWO, tau).relabeler

    def rho(p):
        return relabeler.relabel_proba([[1 - p, p]], [0])[0, 1]

    moved = brentq(lambda p: (1 - 2 * rho(p)) / (2 - 2 * rho(p)) - p, 0, 0.5)
    assert 0.05 < moved < 0.4
    x, _ = TWO.sample(50_000, np.random.default_rng(0))
    Q = TWO.posteriors(x)
    assert_array_equal(relabeler.transform(Q)[:, 1] > 0.5, Q[:, 1] > moved)


@pytest.mark.parametrize("tau", [0.05, 0.3])
def test_order_and_average_precision_stay(tau):
    x, y = TWO.sample(20_000, np.random.default_rng(0))
    Q = TWO.posteriors(x)
    mixed = FedReLaRelabeler(tau).fit_transform(Q, y)
    assert np.any(mixed != Q)
    assert_array_equal(np.argsort(mixed[:, 1], kind="stable"), np.argsort(Q[:, 1], kind="stable"))
    expected = average_precision_score(y, Q[:, 1])
    assert average_precision_score(y, mixed[:, 1]) == pytest.approx(expected, abs=1e-12)


def test_only_rho_at_the_boundary_counts():
    """tau = 1 % relabels 0.66 % of the rows, all on the minority's side, and moves nothing."""
    client = fedrela_client(TWO, 0.01)
    x, y, y_new = client.sample(500_000, np.random.default_rng(0))
    assert np.mean(y != y_new) == pytest.approx(0.0066, abs=4 * np.sqrt(0.0066 / 500_000))
    assert x[y != y_new].min() > PLAIN
    assert_allclose(boundary_of(averaged, [client]), PLAIN, rtol=1e-10)


def test_the_smallest_tau_that_moves_the_boundary():
    """It is the share of rows whose z lies above that of the majority's rows at the plain boundary: 1.6 %."""
    relabeler = fedrela_client(TWO, 0.5).relabeler
    mean, scale = relabeler.mean_[:, 1], relabeler.scale_[:, 1]
    z = (0.5 - mean[0]) / scale[0]
    x, y = TWO.sample(1_000_000, np.random.default_rng(0))
    own_z = (TWO.posteriors(x)[:, 1] - mean[y]) / scale[y]
    share = np.mean(own_z > z)
    assert share == pytest.approx(0.0161, abs=4 * np.sqrt(0.0161 / 1e6))
    moves = [PLAIN - boundary_of(averaged, [fedrela_client(TWO, f * share)]) for f in (0.95, 1.05)]
    assert abs(moves[0]) < 1e-9
    assert moves[1] > 0.001
