"""QuantitySkewSplit: sizes by hand and by law, classes untouched."""

import numpy as np
import pytest

from fedrela_sk.exceptions import PartitionError
from fedrela_sk.splitters import QuantitySkewSplit
from tests.splitters.helpers import count_table, labels


def sizes(splitter, n_rows):
    return np.bincount(splitter._owners(np.zeros(n_rows), None), minlength=splitter.n_splits).tolist()


def test_power_law_by_hand():
    # shares 12/25, 6/25, 4/25, 3/25
    assert sizes(QuantitySkewSplit(4, method="power_law"), 100) == [48, 24, 16, 12]
    # shares 36/49, 9/49, 4/49
    assert sizes(QuantitySkewSplit(3, method="power_law", exponent=2), 49) == [36, 9, 4]
    # 10 even parts of 3.33: the first gets the row that is left
    assert sizes(QuantitySkewSplit(3, method="power_law", exponent=0), 10) == [4, 3, 3]


def test_power_law_with_a_minimum():
    splitter = QuantitySkewSplit(4, method="power_law", exponent=5, min_rows=5)
    # shares 0.9651, 0.0302, 0.0040, 0.0009: 97, 3, 0, 0 before the minimum
    assert sizes(splitter, 100) == [85, 5, 5, 5]


def test_dirichlet_sizes_have_the_variance_of_the_law():
    alpha, n_clients, n_rows = 0.5, 4, 1000
    table = np.array(
        [sizes(QuantitySkewSplit(n_clients, alpha, random_state=seed), n_rows) for seed in range(1000)]
    )
    variance = n_rows**2 * 0.25 * 0.75 / (n_clients * alpha + 1)
    np.testing.assert_allclose(table.mean(axis=0), 250, atol=5 * np.sqrt(variance / 1000))
    np.testing.assert_allclose(table.var(axis=0), variance, rtol=0.15)


def test_limits_of_alpha():
    assert max(sizes(QuantitySkewSplit(7, 1e-9, random_state=0), 50)) == 50
    assert sorted(sizes(QuantitySkewSplit(7, 1e-9, min_rows=2, random_state=0), 50)) == [2] * 6 + [38]
    even = sizes(QuantitySkewSplit(7, 1e12, random_state=0), 50)
    assert max(even) - min(even) <= 1


def test_empty_clients_are_counted():
    splitter = QuantitySkewSplit(30, 1e-9, random_state=0)
    assert len(list(splitter.split(np.zeros(12)))) == 1
    assert splitter.n_empty_ == 29


def test_classes_stay_mixed():
    y = np.repeat([0, 1], [3000, 1000])
    table = count_table(QuantitySkewSplit(4, method="power_law", random_state=0), y)
    rows = table.sum(axis=1)
    assert (np.abs(table[:, 1] / rows - 0.25) < 5 * np.sqrt(0.25 * 0.75 / rows)).all()


def test_y_never_matters_even_where_it_is_no_class():
    splitter = QuantitySkewSplit(3, random_state=0)
    y = labels([30, 10])
    for other in (None, y * 0.37, np.full(40, np.nan)):
        pairs = zip(splitter.split(y, y), splitter.split(y, other), strict=True)
        assert all(np.array_equal(a[1], b[1]) for a, b in pairs)


@pytest.mark.parametrize("method", ["dirichlet", "power_law"])
def test_a_minimum_that_cannot_be_met(method):
    with pytest.raises(PartitionError, match=r"needs 40 rows: lower min_rows to 3 .* got 39 rows"):
        QuantitySkewSplit(10, method=method, min_rows=4).split(np.zeros(39))


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"alpha": -0.5}, r"'alpha' parameter .* Got -0.5 instead"),
        ({"exponent": -1}, r"'exponent' parameter .* Got -1 instead"),
        ({"method": "zipf"}, r"'method' parameter .* Got 'zipf' instead"),
        ({"min_rows": None}, r"'min_rows' parameter .* Got None instead"),
    ],
)
def test_bad_parameters_are_named_at_split(params, message):
    with pytest.raises(ValueError, match=message):
        QuantitySkewSplit(**params).split(np.zeros(100))
