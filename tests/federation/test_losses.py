"""Losses of `fedrela_sk.losses` inside a federation: whose counts, how far training is, both engines."""

import numpy as np
import pytest
import torch
from torch import nn

from fedrela_sk import FedReLaRelabeler
from fedrela_sk.algorithms import ALGORITHMS
from fedrela_sk.exceptions import NetError
from fedrela_sk.losses import (
    BalancedSoftmaxLoss,
    ClassBalancedLoss,
    EqualizationLoss,
    FedLCLoss,
    FocalLoss,
    LDAMLoss,
    LogitAdjustedLoss,
)
from fedrela_sk.nets import CosineLinear
from tests.algorithms.helpers import TwoLayers, fit, three_classes

DATA = three_classes(n_clients=5)


class Cosines(nn.Sequential):
    """Features of 4 units and a cosine head, as LDAM needs it."""

    def __init__(self):
        super().__init__(nn.Linear(3, 4), nn.Tanh(), CosineLinear(4, 3))
        self.double()


def fit_loss(criterion, module=TwoLayers, **params):
    net = {"criterion": criterion, "batch_size": 7, "iterator_train__shuffle": True}
    net |= {name: params.pop(name) for name in list(params) if name.startswith("criterion__")}
    return fit("fedavg", module, DATA, n_rounds=4, net=net, **params)


@pytest.mark.parametrize(
    ("criterion", "module"),
    [
        (FocalLoss, TwoLayers),
        (ClassBalancedLoss, TwoLayers),
        (BalancedSoftmaxLoss, TwoLayers),
        (LogitAdjustedLoss, TwoLayers),
        (FedLCLoss, TwoLayers),
        (LDAMLoss, Cosines),
    ],
)
def test_engines_and_workers_agree(criterion, module):
    params = {"participation": 0.8, "relabeler": FedReLaRelabeler(0.3), "relabel_at": 2}
    deferral = {"criterion__defer": 0.5} if criterion is LDAMLoss else {}
    loop, stacked, workers = (
        fit_loss(criterion, module, **params, **deferral, **how).predict_proba(DATA[0])
        for how in ({"engine": "loop"}, {"engine": "stacked"}, {"engine": "stacked", "n_jobs": 2})
    )
    np.testing.assert_allclose(loop, stacked, atol=1e-10)
    np.testing.assert_array_equal(stacked, workers)
    assert not np.allclose(
        loop, fit_loss(nn.CrossEntropyLoss, module, **params, engine="loop").predict_proba(DATA[0])
    )


class Spy(BalancedSoftmaxLoss):
    """Writes down what it is told."""

    told = []

    def use(self, counts, progress):
        super().use(counts, progress)
        Spy.told.append((tuple(counts.tolist()), progress))


def test_every_client_counts_its_own_rows_and_progress_is_a_share_of_rounds():
    Spy.told.clear()
    fit_loss(Spy, engine="loop")
    _, y, groups = DATA
    counts = [tuple(np.bincount(y[groups == k], minlength=3).astype(float)) for k in range(5)]
    assert Spy.told == [(own, round / 4) for round in range(4) for own in counts]


@pytest.mark.parametrize("engine", ["loop", "stacked"])
def test_counts_are_of_original_labels_unless_told_otherwise(engine):
    params = {"relabeler": FedReLaRelabeler(0.4), "relabel_at": 2, "engine": engine}
    default, original, relabeled = (
        fit_loss(BalancedSoftmaxLoss, **params, **counts)
        for counts in ({}, {"criterion__counts": "original"}, {"criterion__counts": "relabeled"})
    )
    assert default.relabeled_mask_.sum() == relabeled.relabeled_mask_.sum() > 0
    np.testing.assert_array_equal(default.predict_proba(DATA[0]), original.predict_proba(DATA[0]))
    assert np.abs(default.predict_proba(DATA[0]) - relabeled.predict_proba(DATA[0])).max() > 1e-4


def test_the_counts_of_relabeled_rows_are_those_of_the_new_labels():
    Spy.told.clear()
    fed = fit_loss(
        Spy, criterion__counts="relabeled", relabeler=FedReLaRelabeler(0.4), relabel_at=2, engine="loop"
    )
    new = np.searchsorted(fed.classes_, fed.y_relabeled_)
    last = [tuple(np.bincount(new[DATA[2] == k], minlength=3).astype(float)) for k in range(5)]
    assert [own for own, progress in Spy.told if progress == 0.75] == last


def test_memory_knows_that_a_deferred_loss_depends_on_the_number_of_rounds(tmp_path):
    params = {"relabeler": FedReLaRelabeler(0.3), "relabel_at": 2, "memory": tmp_path}
    net = {"criterion": LDAMLoss, "criterion__defer": 0.3}
    for n_rounds, n_entries in ((4, 1), (5, 2), (4, 2)):
        fit("fedavg", Cosines, DATA, n_rounds=n_rounds, net=net, **params)
        assert len(list(tmp_path.glob("*.json"))) == n_entries


def test_a_loss_that_draws_runs_in_the_loop_and_is_reproducible():
    one, two = (fit_loss(EqualizationLoss, engine="auto") for _ in range(2))
    assert one.engine_.startswith("loop (criterion EqualizationLoss draws random numbers")
    torch.manual_seed(1)
    state = torch.get_rng_state()
    three = fit_loss(EqualizationLoss, engine="auto")
    assert torch.equal(state, torch.get_rng_state())
    for other in (two, three):
        np.testing.assert_array_equal(one.predict_proba(DATA[0]), other.predict_proba(DATA[0]))
    with pytest.raises(NetError, match="draws random numbers"):
        fit_loss(EqualizationLoss, engine="stacked")


@pytest.mark.parametrize("name", [name for name, kind in ALGORITHMS.items() if kind.own_loss])
def test_a_method_with_its_own_loss_refuses_a_criterion_that_it_would_not_use(name):
    with pytest.raises(NetError, match=r"criterion=FocalLoss would not be used: the algorithm has a loss"):
        fit(name, TwoLayers, DATA, net={"criterion": FocalLoss})


def test_given_counts_win():
    given, local = (
        fit_loss(BalancedSoftmaxLoss, engine="loop", **counts).predict_proba(DATA[0])
        for counts in ({"criterion__counts": [90.0, 9.0, 1.0]}, {})
    )
    assert np.abs(given - local).max() > 1e-3
