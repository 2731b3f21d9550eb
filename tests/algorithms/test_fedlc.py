"""FedLC: the margins of the formula, absent classes, equal counts, whose labels are counted."""

import math

import numpy as np
import pytest
import torch

from fedrela_sk import FedReLaRelabeler
from fedrela_sk.algorithms import FedAvg, FedLC, Local
from fedrela_sk.exceptions import NetError
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

Z = [[2.0, 1.0, 0.0]] * 3


def losses(algorithm, logits, y, counts):
    local = Local(anchor={}, state={}, server={}, counts=torch.tensor(counts, dtype=torch.float64))
    logits = torch.tensor(logits, dtype=torch.float64, requires_grad=True)
    return logits, algorithm.client_row_losses(logits, torch.tensor(y), local)


def test_a_round_at_the_default_strength_is_not_fedavgs():
    y = np.array([1, 0, 0, 0, 1, 0])
    by_hand = []
    for rows in (slice(0, 4), slice(4, 6)):
        n = np.bincount(y[rows], minlength=2)
        w, shift = 0.5, n[0] ** -0.25 - n[1] ** -0.25
        for _ in range(2):
            x = X[rows].ravel()
            w -= 0.5 * np.mean((1 / (1 + np.exp(-(w * x + shift))) - y[rows]) * x)
        by_hand.append(w)
    expected = np.average(by_hand, weights=(4, 2))
    fed = fit("fedlc", data=(X, y, GROUPS))
    assert weight(fed) == pytest.approx(expected, abs=1e-14)
    assert abs(weight(fit("fedavg", data=(X, y, GROUPS))) - expected) > 1e-3


@pytest.mark.parametrize(
    ("tau", "expected"),
    [
        (0.0, (0.407606, 1.407606, 2.407606)),
        (0.5, (0.374970, 1.444170, 2.567227)),
        (1.0, (0.345336, 1.483736, 2.729850)),
    ],
)
def test_printed_losses(tau, expected):
    _, got = losses(FedLC(tau), Z, [0, 1, 2], [1000, 100, 10])
    np.testing.assert_allclose(got.detach(), expected, atol=5e-7)


def test_a_rare_class_by_hand():
    _, got = losses(FedLC(), [[0.0, 0.0]], [1], [16, 1])
    assert got.item() == pytest.approx(math.log(1 + math.exp(0.5)), abs=1e-15)


def test_equal_counts_are_the_cross_entropy_bit_by_bit():
    """Each client of `Y` holds as many rows of one class as of the other."""
    assert weight(fit("fedlc")) == weight(fit("fedavg"))
    assert weight(fit("fedlc")) == pytest.approx(fedavg_weight(), abs=1e-14)


def test_twice_the_rows_are_another_loss():
    few, many = (losses(FedLC(), Z, [0, 1, 2], counts)[1] for counts in ([8, 4, 2], [16, 8, 4]))
    assert abs(few - many).min() > 1e-3


def test_an_absent_class_is_masked_and_its_logit_does_not_move():
    logits, got = losses(FedLC(absent="mask"), Z, [0, 1, 0], [16, 1, 0])
    got.sum().backward()
    assert (logits.grad[:, 2] == 0).all()
    assert got[0].item() == pytest.approx(math.log1p(math.exp(-1.0 - 0.5)), abs=1e-15)


def test_a_row_relabeled_into_an_absent_class_counts_as_one_of_the_rarest():
    _, got = losses(FedLC(absent="mask"), [[2.0, 1.0, 0.5]], [2], [16, 1, 0])
    z = np.array([2.0 - 0.5, 1.0 - 1.0, 0.5 - 1.0])
    assert got.item() == pytest.approx(np.log(np.exp(z).sum()) - z[2], abs=1e-14)


def test_an_absent_class_counts_as_one_row():
    _, masked_none = losses(FedLC(), Z, [0, 1, 2], [16, 16, 0])
    _, one = losses(FedLC(), Z, [0, 1, 2], [16, 16, 1])
    np.testing.assert_array_equal(masked_none.detach(), one.detach())


@pytest.mark.parametrize("absent", ["mask", "one"])
@pytest.mark.parametrize("engine", ["loop", "stacked"])
def test_no_strength_is_fedavg_bit_by_bit_with_classes_absent(engine, absent):
    data = three_classes()
    plain, off = (
        fit(algorithm, TwoLayers, data, n_rounds=3, engine=engine).predict_proba(data[0])
        for algorithm in (FedAvg(), FedLC(0.0, absent))
    )
    np.testing.assert_array_equal(plain, off)


@pytest.mark.parametrize("absent", ["mask", "one"])
def test_both_engines_agree_on_ragged_clients_one_of_one_row_and_one_of_one_class(absent):
    X, y, groups = ragged_classes()
    runs = [
        fit(
            FedLC(absent=absent), TwoLayers, (X, y, groups), n_rounds=4, engine=engine, participation=0.5,
            net={"optimizer__momentum": 0.9, "batch_size": 8, "iterator_train__shuffle": True},
        ).predict_proba(X)
        for engine in ("loop", "stacked")
    ]  # fmt: skip
    np.testing.assert_allclose(*runs, rtol=0, atol=1e-10)


def test_relabeled_rows_count_where_asked():
    data = three_classes()
    settings = {"n_rounds": 4, "relabeler": FedReLaRelabeler(0.2), "relabel_at": 2}
    by_original, by_new = (
        fit(FedLC(counts=counts), TwoLayers, data, **settings) for counts in ("original", "relabeled")
    )
    assert by_original.relabeled_mask_.any()
    np.testing.assert_array_equal(by_original.y_relabeled_, by_new.y_relabeled_)
    assert abs(by_original.predict_proba(data[0]) - by_new.predict_proba(data[0])).max() > 1e-6


def test_nothing_but_the_model_travels():
    fed = fit("fedlc", TwoLayers, three_classes(), n_rounds=2)
    n_bytes = 8 * (3 * 4 + 4 + 4 * 3 + 3)
    assert fed.history_.column("bytes_up").tolist() == [3 * (n_bytes + 8)] * 2  # and a weight each
    assert fed.history_.column("bytes_down").tolist() == [3 * n_bytes] * 2


def test_batch_norm_runs_in_the_loop():
    fed = fit("fedlc", WithBatchNorm, three_classes(), n_rounds=2)
    assert fed.net_.module_[1].num_batches_tracked.item() == 4
    assert np.isfinite(fed.predict_proba(three_classes()[0])).all()


@pytest.mark.parametrize("tau", [-1.0, math.inf, None])
def test_a_strength_out_of_range(tau):
    with pytest.raises(ValueError, match="tau must be a finite number >= 0, got "):
        fit(FedLC(tau))


@pytest.mark.parametrize("bad", [{"absent": "floor"}, {"counts": "new"}])
def test_unknown_choices(bad):
    with pytest.raises(ValueError, match=f"{next(iter(bad))} must be one of '"):
        fit(FedLC(**bad))


@pytest.mark.parametrize("name", ["fedlc", "ratio_loss", "balancefl", "fedgrab"])
def test_what_a_loss_of_its_own_would_leave_out_of_the_criterion_is_refused(name):
    with pytest.raises(NetError, match=r"criterion__label_smoothing=0\.1 would not be used"):
        fit(name, TwoLayers, three_classes(), net={"criterion__label_smoothing": 0.1})
