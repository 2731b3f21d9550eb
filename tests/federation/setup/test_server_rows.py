"""Rows that the server holds: which they are, who gets them, what is refused."""

import numpy as np
import pytest
import torch

from fedrela_sk.algorithms import Algorithm
from fedrela_sk.exceptions import LabelError, NotFiniteError
from fedrela_sk.federation.setup._server_rows import auxiliary_rows
from tests.algorithms.helpers import TwoLayers, fit

X = np.arange(36.0).reshape(12, 3) / 10
Y = np.array(list("abcabcaabbba"))
GROUPS = np.arange(12) % 3
OWN = X[:4] + 0.05, np.array(["c", "a", "b", "a"])


class Keeper(Algorithm):
    """FedAvg whose server remembers what it was given."""

    def __init__(self, auxiliary=None):
        self.auxiliary = auxiliary

    def server_init(self, params, job):
        seen.append(job.auxiliary)
        return {}

    def server_train(self, model, params, server_state, facts):
        seen.append(facts)
        return params, server_state


seen = []


def given(auxiliary, **params):
    """(X, codes) that `init_server` got."""
    seen.clear()
    fit(Keeper(auxiliary), TwoLayers, (X, Y, GROUPS), **params)
    return seen[0]


def test_a_number_takes_the_first_rows_of_each_class_or_all_that_there_are():
    rows, codes = given(3)
    of_class = [0, 3, 6, 1, 4, 8, 2, 5]
    np.testing.assert_array_equal(rows, X[of_class])
    assert codes.tolist() == [0, 0, 0, 1, 1, 1, 2, 2]
    assert rows.dtype == torch.float64


def test_rows_without_weight_are_none_of_the_training_data():
    seen.clear()
    weights = np.ones(12)
    weights[0] = 0
    fed = fit(Keeper(1), TwoLayers, (X, Y, GROUPS))
    fed.fit(X, Y, groups=GROUPS, sample_weight=weights)
    first = [entry for entry in seen if isinstance(entry, tuple)]
    np.testing.assert_array_equal(first[0][0], X[[0, 1, 2]])
    np.testing.assert_array_equal(first[1][0], X[[3, 1, 2]])


def test_a_pair_is_taken_as_it_is_in_the_modules_dtype():
    rows, codes = given((OWN[0].astype(np.float32), OWN[1]))
    np.testing.assert_allclose(rows, OWN[0], rtol=1e-6)
    assert codes.tolist() == [2, 0, 1, 0]
    assert (rows.dtype, codes.dtype) == (torch.float64, torch.int64)


def test_nothing_is_given_where_nothing_is_asked():
    assert given(None) is None


def test_no_client_gets_them():
    plain, held = (fit(Keeper(auxiliary), TwoLayers, (X, Y, GROUPS), n_rounds=2) for auxiliary in (None, OWN))
    np.testing.assert_array_equal(plain.predict_proba(X), held.predict_proba(X))
    for name in ("bytes_up", "bytes_down"):
        np.testing.assert_array_equal(plain.history_.column(name), held.history_.column(name))


def test_the_server_knows_the_recipe_and_where_the_round_began():
    net = {"optimizer__momentum": 0.9, "optimizer__weight_decay": 0.1, "batch_size": 5}
    seen.clear()
    fed = fit(Keeper(), TwoLayers, (X, Y, GROUPS), n_rounds=2, epochs=3, net=net)
    first, second = seen[1:]
    recipe = first.recipe
    assert (recipe.epochs, recipe.batch_size, recipe.momentum, recipe.weight_decay) == (3, 5, 0.9, 0.1)
    last = fed.net_.module_.state_dict()
    assert all(not torch.equal(first.anchor[name], second.anchor[name]) for name in last)
    assert all(not torch.equal(second.anchor[name], last[name]) for name in last)


def test_a_pair_without_a_class():
    with pytest.raises(LabelError, match=r"no row of class 'c'.*every class of y, here \['a', 'b', 'c'\]"):
        given((X[:3], ["a", "b", "a"]))


def test_a_class_without_a_row_in_training():
    """All of it may be set aside for validation."""
    codes, rows = np.array([0, 1, 2, 0]), np.array([0, 2, 3])
    with pytest.raises(LabelError, match="auxiliary has no row of class 'b'"):
        auxiliary_rows(1, torch.zeros(4, 2), codes, rows, np.array(["a", "b", "c"]), net=None, check=None)


def test_an_unknown_label():
    with pytest.raises(LabelError, match="auxiliary y has the label 'd' in row 1"):
        given((X[:2], ["a", "d"]))


@pytest.mark.parametrize("pair", [(X[:3], ["a", "b"]), (np.ones((3, 3, 1)), ["a", "b", "c"])])
def test_shapes_that_differ(pair):
    with pytest.raises(
        ValueError, match=r"rows shaped as the training data, \(3,\)|fitted on rows of shape \(3,\)"
    ):
        given(pair)


def test_other_features():
    with pytest.raises(ValueError, match="X has 2 features"):
        given((X[:3, :2], ["a", "b", "c"]))


def test_rows_that_are_not_finite():
    bad = OWN[0].copy()
    bad[1, 0] = np.nan
    with pytest.raises(NotFiniteError, match="auxiliary X contains NaN in row 1"):
        given((bad, OWN[1]))


@pytest.mark.parametrize("asked", [0, -1, True, 2.5, "some", (X,)])
def test_neither_a_number_nor_a_pair(asked):
    with pytest.raises(
        ValueError, match=r"auxiliary must be a whole number >= 1 of rows per class or a pair"
    ):
        given(asked)
