"""What every splitter promises, over every splitter and method."""

import time

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score

from fedrela_sk.exceptions import LabelError, PartitionError
from fedrela_sk.splitters import DirichletSplit, QuantitySkewSplit, ShardSplit
from fedrela_sk.testing import check_splitter
from tests.splitters.helpers import LONG_TAIL, clients, labels

SPLITTERS = [
    DirichletSplit(method="multinomial"),
    DirichletSplit(method="multinomial", min_rows=2),
    DirichletSplit(method="proportions", min_rows=0),
    DirichletSplit(method="proportions", min_rows=3),
    DirichletSplit(method="equal_size"),
    ShardSplit(),
    ShardSplit(shards_per_client=5),
    QuantitySkewSplit(),
    QuantitySkewSplit(method="power_law", min_rows=1),
]
BY_CLASS = [splitter for splitter in SPLITTERS if not isinstance(splitter, QuantitySkewSplit)]


@pytest.fixture(params=SPLITTERS, ids=repr)
def splitter(request):
    return clone(request.param).set_params(n_splits=7, random_state=3)


@pytest.fixture(params=BY_CLASS, ids=repr)
def by_class(request):
    return clone(request.param).set_params(n_splits=7, random_state=3)


def test_test_sets_are_disjoint_complete_ascending_and_train_is_the_rest(splitter):
    y = labels([50, 30, 5, 1])
    pairs = list(splitter.split(np.zeros(len(y)), y))
    assert sorted(np.concatenate([test for _, test in pairs])) == list(range(len(y)))
    for train, test in pairs:
        assert len(test) > 0
        assert (np.diff(test) > 0).all()
        np.testing.assert_array_equal(train, np.setdiff1d(np.arange(len(y)), test))
    assert len(pairs) + splitter.n_empty_ == 7


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    index=st.integers(0, len(SPLITTERS) - 1),
    counts=st.lists(st.integers(1, 40), min_size=1, max_size=6),
    n_splits=st.integers(1, 60),
    alpha=st.floats(1e-320, 1e12, allow_subnormal=True),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_alpha_and_any_counts_give_a_partition_or_a_clear_error(index, counts, n_splits, alpha, seed):
    splitter = clone(SPLITTERS[index]).set_params(n_splits=n_splits, random_state=seed)
    if "alpha" in splitter.get_params():
        splitter.set_params(alpha=alpha)
    min_rows = splitter.get_params().get("min_rows") or 0
    y = labels(counts, seed)
    if min_rows * n_splits > len(y):
        with pytest.raises(PartitionError, match="min_rows"):
            clients(splitter, y)
        return
    parts = clients(splitter, y)
    assert sorted(np.concatenate(parts)) == list(range(len(y)))
    assert len(parts) + splitter.n_empty_ == n_splits
    if min_rows:
        assert splitter.n_empty_ == 0
        assert min(map(len, parts)) >= min_rows


def test_the_promises_that_authors_check(splitter):
    """A partition into index arrays; one seed, one cut; no trace on rows, parameters or global generators."""
    check_splitter(splitter)


def test_another_seed_gives_another_result(splitter):
    y = labels(LONG_TAIL // 20)
    other = clients(clone(splitter).set_params(random_state=4), y)
    assert any(not np.array_equal(a, b) for a, b in zip(clients(splitter, y), other, strict=False))


def test_a_random_state_instance_moves_on_and_none_follows_numpys_global_seed(splitter):
    y = labels([40, 20])
    moving = clone(splitter).set_params(random_state=np.random.RandomState(0))
    assert any(not np.array_equal(a, b) for a, b in zip(clients(moving, y), clients(moving, y), strict=False))
    loose = clone(splitter).set_params(random_state=None)
    runs = []
    for _ in range(2):
        np.random.seed(5)  # noqa: NPY002  the global state is what is tested
        runs.append(clients(loose, y))
    assert all(np.array_equal(a, b) for a, b in zip(*runs, strict=True))


def test_names_of_classes_never_matter(splitter):
    y = labels([30, 20, 10])
    names = np.array(["zebra", "ant", "mule"])
    backwards = np.array([7, -1, -5])
    for renamed in (names[y], names[y].astype(object), backwards[y], backwards[y].astype(float)):
        for a, b in zip(clients(splitter, y), clients(splitter, renamed), strict=True):
            np.testing.assert_array_equal(a, b)


def test_the_values_and_the_kind_of_x_never_matter(splitter):
    y = labels([30, 20, 10])
    kinds = [
        np.zeros((60, 2)),
        np.full((60, 3), np.nan),
        list("abc" * 20),
        pd.DataFrame({"a": range(60)}),
        sparse.csr_matrix((60, 4)),
    ]
    results = [[test for _, test in splitter.split(X, pd.Series(y))] for X in kinds]
    for result in results[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(results[0], result, strict=True))


def test_groups_are_ignored(splitter):
    y = labels([30, 20, 10])
    with_groups = [test for _, test in splitter.split(y, y, groups=np.arange(60))]
    assert all(np.array_equal(a, b) for a, b in zip(clients(splitter, y), with_groups, strict=True))


def test_parameters_clone_repr_and_nesting(splitter):
    twin = clone(splitter)
    assert twin.get_params() == splitter.get_params()
    assert not hasattr(twin, "n_empty_")
    assert "n_splits=7" in repr(splitter)
    assert "random_state=3" in repr(splitter)
    assert type(splitter).__name__ in splitter._repr_html_()

    class Holder(BaseEstimator):
        def __init__(self, clients=None):
            self.clients = clients

    holder = clone(Holder(splitter)).set_params(clients__n_splits=4)
    assert holder.clients.n_splits == 4
    assert splitter.n_splits == 7
    assert holder.get_params()["clients__random_state"] == 3


def test_constructor_only_stores():
    splitter = DirichletSplit(n_splits="many", alpha=-1, method="no", min_rows=-3, random_state="x")
    assert splitter.get_params() == {
        "n_splits": "many",
        "alpha": -1,
        "method": "no",
        "min_rows": -3,
        "random_state": "x",
    }


def test_works_as_cv_of_scikit_learn(splitter):
    rng = np.random.default_rng(0)
    y = labels([80, 60])
    X = rng.normal(size=(140, 2)) + y[:, None]
    model = LogisticRegression()
    n_clients = len(clients(splitter, y))
    assert len(cross_val_score(model, X, y, cv=splitter)) == n_clients
    assert cross_val_predict(model, X, y, cv=splitter).shape == (140,)
    search = GridSearchCV(model, {"C": [0.1, 1.0]}, cv=splitter).fit(X, y)
    assert search.n_splits_ == n_clients


def test_n_splits_is_nominal_unless_the_split_is_known(splitter):
    y = labels([9, 1])
    sparse_clients = clone(splitter).set_params(n_splits=9)
    assert sparse_clients.get_n_splits() == 9
    if sparse_clients.get_params().get("min_rows"):
        sparse_clients.set_params(min_rows=0)
    assert sparse_clients.get_n_splits(y, y) == len(clients(sparse_clients, y))
    loose = sparse_clients.set_params(random_state=np.random.RandomState(0))
    before = loose.random_state.get_state()[2]
    assert loose.get_n_splits(y, y) == 9
    assert loose.random_state.get_state()[2] == before


def test_get_n_splits_leaves_no_trace():
    splitter = DirichletSplit(random_state=0)
    splitter.get_n_splits(np.zeros(20), labels([10, 10]))
    assert not hasattr(splitter, "n_empty_")


def test_errors_come_at_the_call_of_split_not_at_the_first_client(splitter):
    with pytest.raises(ValueError, match=r"'n_splits' parameter .* Got 0 instead"):
        splitter.set_params(n_splits=0).split([1], [1])


def test_no_rows(splitter):
    with pytest.raises(PartitionError, match=r"at least one row, got 0"):
        splitter.split([], [])


def test_lengths_must_agree(splitter):
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        splitter.split(np.zeros(3), [0, 1])


def test_labels_are_needed(by_class):
    with pytest.raises(LabelError, match=r"pass the class labels as y, got None"):
        by_class.split(np.zeros(80))


@pytest.mark.parametrize("value", [0.25, np.inf])
def test_numbers_that_are_no_classes(by_class, value):
    with pytest.raises(LabelError, match=rf"does not hold class labels: .*KFold.* got {value}"):
        by_class.split(np.zeros(80), np.r_[np.zeros(79), value])


def test_a_missing_label(by_class):
    with pytest.raises(LabelError, match="the label of row 79 is missing, got nan"):
        by_class.split(np.zeros(80), np.r_[np.zeros(79), np.nan])


def test_labels_of_mixed_types(by_class):
    with pytest.raises(LabelError, match=r"make them one type, got \['int', 'str'\]"):
        by_class.split(np.zeros(80), np.array([1, "a"] * 40, dtype=object))


def test_two_columns_of_labels(by_class):
    with pytest.raises(ValueError, match="1d array"):
        by_class.split(np.zeros(80), np.zeros((80, 2)))


@pytest.mark.parametrize("method", ["multinomial", "proportions", "equal_size"])
def test_a_thousand_clients_at_alpha_a_hundredth_take_no_time(method):
    y = labels(np.full(100, 500))
    start = time.perf_counter()
    splitter = DirichletSplit(1000, alpha=0.01, method=method, min_rows=10, random_state=0)
    owners = splitter._owners(y, y)
    assert time.perf_counter() - start < 10
    assert np.bincount(owners, minlength=1000).min() >= 10
