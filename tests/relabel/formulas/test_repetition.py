"""Row weights count as repetition: what changes relabeling is told, what gives wrong numbers is refused."""

import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from fedrela_sk import FedReLaRelabeler, FedReLaSampler, RelabelingClassifier
from fedrela_sk.exceptions import ClientError, FedReLaWarning
from fedrela_sk.relabel.many._pass import ManyRows, relabel_many
from tests.federation.helpers import make_fed, make_rows
from tests.relabel.made_rows import long_tailed_rows

Q, Y = long_tailed_rows(0, 400, 4)
X, CODES = make_rows(300)
RULES = [
    {},
    {"threshold": "order_statistic"},
    {"normalization": "minmax"},
    {"ddof": 0},
    {"threshold": "order_statistic", "ddof": 0, "min_scale": 1e-6, "target": "argmax_of_successes"},
]
SUM_OF_ONE = {
    "equal": np.full(400, 1 / 400),
    "random": np.random.default_rng(0).dirichlet(np.ones(400)),
    "balanced": (1 / np.bincount(Y)[Y]) / 4,
    "float32": np.full(400, 1 / 400, dtype=np.float32),
    "some are 0": np.where(np.arange(400) % 3, 1 / 267, 0.0),
}
MESSAGE = r"sample_weight changes what relabeling does.*count as repetition.*mean is about 1"


@pytest.mark.parametrize("weights", SUM_OF_ONE)
@pytest.mark.parametrize("rule", RULES)
def test_weights_that_sum_to_one_are_told(rule, weights):
    relabeler = FedReLaRelabeler(0.2, **rule)
    with pytest.warns(FedReLaWarning, match=MESSAGE) as caught:
        relabeler.fit(Q, Y, sample_weight=SUM_OF_ONE[weights])
    assert len(caught) == 1
    assert caught[0].filename == __file__


@pytest.mark.parametrize("scale", [1.0, 0.6, 3.0, 1e6])
@pytest.mark.parametrize("rule", RULES)
def test_weights_about_the_number_of_rows_are_not(rule, scale):
    weights = SUM_OF_ONE["random"] * 400 * scale
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        FedReLaRelabeler(0.2, **rule).fit(Q, Y, sample_weight=weights)
        FedReLaRelabeler(0.2, **rule).fit(Q, Y)


@pytest.mark.parametrize("params", [{"tau": 0.0}, {"tau": 0.002}, {"normalization": "none"}])
def test_where_weights_switch_nothing_off_nothing_is_told(params):
    """No threshold, or too few rows for one in any case, and a spread that is known."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        FedReLaRelabeler(**{"ddof": 0, **params}).fit(Q, Y, sample_weight=SUM_OF_ONE["equal"])


@pytest.mark.parametrize("kind", ["one site", "sampler"])
def test_one_site_tells_once(kind):
    fit = {
        "one site": RelabelingClassifier(LogisticRegression()).fit,
        "sampler": FedReLaSampler(LogisticRegression()).fit_resample,
    }[kind]
    with pytest.warns(FedReLaWarning, match=MESSAGE) as caught:
        fit(X, CODES, sample_weight=np.full(300, 1 / 300))
    assert [warning.filename for warning in caught] == [__file__]


def test_a_federation_tells_once_with_the_number_of_clients():
    weights = np.where(np.arange(300) % 3 == 0, 1.0, 0.01)
    fed = make_fed(clients=None, n_rounds=3, relabeler=FedReLaRelabeler(0.2))
    groups = np.arange(300) % 3
    with pytest.warns(
        FedReLaWarning, match=r"relabeling does at 2 of 3 clients, for example: the weights of"
    ) as caught:
        fed.fit(X, CODES, groups=groups, sample_weight=weights)
    assert [warning.filename for warning in caught] == [__file__]
    assert [note for note in fed.history_.notes if "at 2 of 3 clients" in note]


@pytest.mark.parametrize("params", [{"relabeler": None}, {"n_rounds": 1}])
def test_a_federation_that_relabels_nothing_tells_nothing(params):
    fed = make_fed(**{"relabeler": FedReLaRelabeler(0.2), "n_rounds": 3, **params})
    fed.fit(X, CODES, sample_weight=np.full(300, 1 / 300))
    assert not [note for note in fed.history_.notes if "sample_weight" in note]


def test_a_class_of_weight_zero_is_noted():
    weights = np.where((CODES == 2) & (np.arange(300) % 3 == 0), 0.0, 1.0)
    fed = make_fed(clients=None, n_rounds=3, relabeler=FedReLaRelabeler(0.2))
    fed.fit(X, CODES, groups=np.arange(300) % 3, sample_weight=weights)
    [note] = [note for note in fed.history_.notes if "sample_weight" in note]
    assert note.startswith("At 1 of 3 clients a class has rows, and all of them have sample_weight 0")


# ------------------------------------------------------------------------------------------ refused

TOO_MUCH = {
    "one row": np.where(np.arange(400) == 7, 2.0**54, 1.0),
    "in sum": np.full(400, 2.0**50),
    "overflow": np.full(400, 1e308),
}
TOO_LITTLE = {
    "subnormal": np.full(400, 5e-324),
    "tiny": np.full(400, 1e-280),
    "a class": np.where(Y == 1, 1e-250, 1.0),
}


def fit_many(weights):
    rows = ManyRows(Q, Y, Y, np.array([len(Y)]), weights)
    return relabel_many(FedReLaRelabeler(classes=range(4)), rows, lambda row, column: np.zeros(len(row)), [0])


DOORS = {"alone": lambda weights: FedReLaRelabeler().fit(Q, Y, sample_weight=weights), "together": fit_many}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("weights", TOO_MUCH)
def test_sums_beyond_whole_numbers_are_refused(weights, door):
    with pytest.raises(ValueError, match=r"sample_weight sums to .*more than 2\^53.*mean is about 1"):
        DOORS[door](TOO_MUCH[weights])


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("weights", TOO_LITTLE)
def test_sums_too_small_to_be_multiplied_are_refused(weights, door):
    with pytest.raises(ValueError, match=r"sample_weight sums to .* in a class, less than 1e-200"):
        DOORS[door](TOO_LITTLE[weights])


def test_the_largest_sum_is_taken():
    weights = np.ones(400)
    weights[0] = 2.0**53 - 399
    FedReLaRelabeler().fit(Q, Y, sample_weight=weights)


@pytest.mark.parametrize("weights", TOO_MUCH)
def test_a_federation_refuses_them_before_any_round(weights):
    with pytest.raises(ValueError, match=r"more than 2\^53"):
        make_fed().fit(X, CODES, sample_weight=TOO_MUCH[weights][:300])


def test_a_federation_names_the_client_whose_weights_are_too_small():
    weights = np.where(np.arange(300) % 3 == 1, 1e-300, 1.0)
    fed = make_fed(clients=None, n_rounds=3, relabeler=FedReLaRelabeler(0.2))
    with pytest.raises(ClientError, match=r"Client 1: sample_weight sums to .* in a class, less than 1e-200"):
        fed.fit(X, CODES, groups=np.arange(300) % 3, sample_weight=weights)
