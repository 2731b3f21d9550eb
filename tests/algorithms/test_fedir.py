"""FedIR: rows weighed from a client's class shares to those of a target."""

import numpy as np
import pytest
import torch
from torch import nn

from fedrela_sk import FedReLaRelabeler
from fedrela_sk.algorithms import FedIR, Local
from fedrela_sk.algorithms._fedir import class_weights
from fedrela_sk.training import Batch
from tests.algorithms.heads import WithBatchNorm
from tests.algorithms.helpers import (
    GROUPS,
    TwoLayers,
    X,
    fedavg_weight,
    fit,
    ragged_classes,
    three_classes,
    weight,
)

Y = np.array([1, 0, 0, 0, 1, 0])  # shares (3/4, 1/4) and (1/2, 1/2), together (2/3, 1/3)
MODEL_NBYTES = 8 * (3 * 4 + 4 + 4 * 3 + 3)


def by_hand(prior, start=0.5, lr=0.5, n_steps=2):
    ends = []
    for rows in (slice(0, 4), slice(4, 6)):
        x, y = X[rows].ravel(), Y[rows]
        w, own = start, np.array(prior)[y] / (np.bincount(y, minlength=2) / len(y))[y]
        for _ in range(n_steps):
            w -= lr * np.average((1 / (1 + np.exp(-w * x)) - y) * x, weights=own)
        ends.append(w)
    return np.average(ends, weights=(4, 2))


@pytest.mark.parametrize(
    ("algorithm", "prior"), [("fedir", (2 / 3, 1 / 3)), (FedIR(target="uniform"), (0.5, 0.5))]
)
@pytest.mark.parametrize("engine", ["loop", "stacked"])
def test_a_round_by_hand(algorithm, prior, engine):
    fed = fit(algorithm, data=(X, Y, GROUPS), engine=engine)
    assert weight(fed) == pytest.approx(by_hand(prior), abs=1e-14)
    assert abs(weight(fit("fedavg", data=(X, Y, GROUPS))) - weight(fed)) > 1e-3


@pytest.mark.parametrize("target", ["global", "uniform"])
def test_shares_like_the_targets_are_the_plain_mean(target):
    """In the helpers' labels both clients are half and half."""
    assert weight(fit(FedIR(target))) == pytest.approx(fedavg_weight(), abs=1e-14)


@pytest.mark.parametrize("counts", [[6.0, 3.0, 1.0], [6.0, 3.0, 0.0], [0.0, 0.0, 2.5]])
def test_the_weights_move_the_shares_to_the_targets_on_the_classes_that_are_there(counts):
    counts, prior = (torch.tensor(row, dtype=torch.float64) for row in (counts, [0.2, 0.3, 0.5]))
    own = counts / counts.sum() * class_weights(counts, prior)
    np.testing.assert_allclose(own, torch.where(counts > 0, prior, 0.0), rtol=0, atol=1e-15)
    assert torch.isfinite(class_weights(counts, prior)).all()


def test_histograms_go_up_once_and_the_prior_comes_down_once_to_each():
    """4 clients, half of them in a round: 4 reports before round 0, the prior to those that are new."""
    X, y, _ = three_classes()
    groups = np.arange(len(y)) % 4
    fed = fit("fedir", TwoLayers, (X, y, groups), n_rounds=6, participation=0.5)
    new, known = [], set()
    for record in fed.history_:
        new.append(len(set(record.participants) - known))
        known |= set(record.participants)
    assert (new[0], sum(new)) == (2, 4)
    update = MODEL_NBYTES + 8  # and its weight
    assert fed.history_.column("bytes_up").tolist() == [2 * update + 4 * 24] + [2 * update] * 5
    assert fed.history_.column("bytes_down").tolist() == [2 * MODEL_NBYTES + 24 * n for n in new]


def test_a_uniform_target_needs_no_reports():
    X, y, groups = three_classes()
    fed = fit(FedIR("uniform"), TwoLayers, (X, y, groups), n_rounds=2)
    assert fed.history_.column("bytes_up").tolist() == [3 * (MODEL_NBYTES + 8)] * 2
    assert fed.history_.column("bytes_down").tolist() == [3 * MODEL_NBYTES] * 2


@pytest.mark.parametrize("target", ["global", "uniform"])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_both_engines_agree_on_ragged_clients_one_of_one_row_and_one_of_one_class(target, reduction):
    X, y, groups = ragged_classes()
    settings = {"optimizer__momentum": 0.9, "batch_size": 8, "iterator_train__shuffle": True}
    runs = [
        fit(
            FedIR(target),
            TwoLayers,
            (X, y, groups),
            lr=0.05,
            n_rounds=4,
            engine=engine,
            participation=0.6,
            net=settings | {"criterion__reduction": reduction},
        ).predict_proba(X)
        for engine in ("loop", "stacked")
    ]
    np.testing.assert_allclose(*runs, rtol=0, atol=1e-10)


def test_a_criterion_that_sums_counts_every_row_of_the_batch():
    """The weighted mean times the rows: a step of rate r equals one of the mean at rate r n."""
    summed = fit("fedir", data=(X, Y, GROUPS), lr=0.1, net={"criterion__reduction": "sum"}, epochs=1)
    ends = []
    for rows, lr in ((slice(0, 4), 0.4), (slice(4, 6), 0.2)):
        x, y = X[rows].ravel(), Y[rows]
        own = np.array([2 / 3, 1 / 3])[y] / (np.bincount(y) / len(y))[y]
        ends.append(0.5 - lr * np.average((1 / (1 + np.exp(-0.5 * x)) - y) * x, weights=own))
    assert weight(summed) == pytest.approx(np.average(ends, weights=(4, 2)), abs=1e-14)


def test_rows_relabeled_into_an_absent_class_count_and_by_new_labels_where_asked():
    data = three_classes()  # client 0 lacks class 2
    settings = {"n_rounds": 4, "relabeler": FedReLaRelabeler(0.2), "relabel_at": 2}
    by_original, by_new = (
        fit(FedIR(counts=counts), TwoLayers, data, **settings) for counts in ("original", "relabeled")
    )
    assert by_original.relabeled_mask_.any()
    assert np.isfinite(by_original.predict_proba(data[0])).all()
    assert abs(by_original.predict_proba(data[0]) - by_new.predict_proba(data[0])).max() > 1e-6


def test_a_batch_without_weight_has_no_gradient():
    class Plain:
        def __call__(self, x):
            return torch.stack([torch.zeros_like(x), x], dim=1)

    x = torch.tensor([1.0, 2.0], requires_grad=True)
    batch = Batch(x, torch.tensor([0, 1]), torch.zeros(2), nn.CrossEntropyLoss())
    local = Local(anchor={}, state={}, server={}, counts=torch.tensor([3.0, 1.0]))
    loss = FedIR("uniform").client_loss(Plain(), batch, local)
    loss.backward()
    assert loss.item() == 0
    assert (x.grad == 0).all()


def test_batch_norm_runs_in_the_loop():
    fed = fit("fedir", WithBatchNorm, three_classes(), n_rounds=2)
    assert fed.net_.module_[1].num_batches_tracked.item() == 4


@pytest.mark.parametrize("bad", [{"target": "mean"}, {"counts": "new"}])
def test_unknown_choices(bad):
    with pytest.raises(ValueError, match=f"{next(iter(bad))} must be one of '"):
        fit(FedIR(**bad))
