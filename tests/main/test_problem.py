import dataclasses

import numpy as np
import pytest

from fedrela_sk import DirichletSplit
from fedrela_sk._main import _problem
from fedrela_sk._main._arguments import Clients
from fedrela_sk._main._problem import load_problem


def test_loans(options):
    problem = load_problem(options)
    assert (len(problem.X), problem.rare, problem.binary) == (9857, 1, True)
    assert len(np.unique(problem.groups)) == 50
    assert problem.clients is None
    tested = np.sort(np.concatenate([test for _, test in problem.folds]))
    np.testing.assert_array_equal(tested, np.arange(9857))


def test_payments_are_judged_after_training(options, monkeypatch):
    monkeypatch.setattr(_problem, "N_PAYMENTS", 3500)
    problem = load_problem(dataclasses.replace(options, data="payments"))
    assert len(problem.X) == 3500
    assert problem.class_names == {0: "genuine", 1: "fraud"}
    assert len(np.unique(problem.groups)) == 20
    for train, test in problem.folds:
        assert test.min() - train.max() > 3500 // 5
        assert len(test) == 500


def test_crashes_are_drawn_by_class(options, monkeypatch):
    monkeypatch.setattr(_problem, "N_CRASHES", 1000)
    problem = load_problem(dataclasses.replace(options, data="fars"))
    assert len(problem.X) == len(problem.y) == len(problem.groups) == 1000
    np.testing.assert_allclose(
        np.bincount(problem.y) / 1000, np.array([20007, 8674, 13890, 15072, 42116]) / 99759, atol=2e-3
    )
    assert problem.class_names[problem.rare] == "Possible_Injury"
    assert not problem.binary
    other = load_problem(dataclasses.replace(options, data="fars", seed=1))
    assert not problem.X.equals(other.X)


@pytest.mark.parametrize(
    ("clients", "who"), [(Clients(4), "even IID clients"), (Clients(4, 0.5), "Dirichlet clients (alpha 0.5)")]
)
def test_made_clients_need_no_groups(options, clients, who):
    problem = load_problem(dataclasses.replace(options, clients=clients))
    assert problem.groups is None
    assert problem.who == who
    if clients.alpha is None:
        assert problem.clients == 4
    else:
        assert isinstance(problem.clients, DirichletSplit)
        assert problem.clients.get_params()["alpha"] == 0.5
