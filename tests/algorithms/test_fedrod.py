"""FedROD: balanced softmax for the shared head, a personal head that nobody else sees."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from fedrela_sk.algorithms import FedROD
from fedrela_sk.exceptions import NetError
from fedrela_sk.nets import MLP, MultiHead
from tests.algorithms.heads import (
    GROUPS,
    B,
    OneLayer,
    W,
    X,
    Y,
    batch_of,
    cross_entropy_gradients,
    fit_small,
    local_of,
    model_of,
    softmax,
)


def by_hand(absent="one", gamma=1.0, n_rounds=1, lr=0.5, n_steps=2):
    """(W, b of G averaged; per client P and its bias) after rounds of full-batch steps."""
    generic, personal = np.column_stack([W, B]), np.zeros((2, 3, 3))
    x1 = np.column_stack([X, np.ones(len(X))])
    for _ in range(n_rounds):
        ends = []
        for k in (0, 1):
            x, y = x1[k == GROUPS], Y[k == GROUPS]
            counts = np.bincount(y, minlength=3).astype(float)
            with np.errstate(divide="ignore"):
                shift = (
                    gamma * np.log(counts if absent == "mask" else np.maximum(counts, 1)) if gamma else 0.0
                )
            g, p = generic.copy(), personal[k].copy()
            for _ in range(n_steps):
                dg, _ = cross_entropy_gradients(x @ g.T + shift, y, x)
                dp, _ = cross_entropy_gradients(x @ (g + p).T, y, x)
                g, p = g - lr * dg, p - lr * dp
            ends.append(g)
            personal[k] = p
        generic = np.average(ends, axis=0, weights=(5, 2))
    return generic, personal


def posterior(x, head):
    return softmax(x @ head[:, :2].T + head[:, 2])


@pytest.mark.parametrize("absent", ["mask", "one"])
def test_a_round_by_hand(absent):
    fed = fit_small("fedrod") if absent == "one" else fit_small(FedROD(absent=absent))
    generic, personal = by_hand(absent)
    head = fed.net_.module_.main
    np.testing.assert_allclose(head.weight.detach(), generic[:, :2], atol=1e-14)
    np.testing.assert_allclose(head.bias.detach(), generic[:, 2], atol=1e-14)
    np.testing.assert_allclose(fed.predict_proba(X), posterior(X, generic), atol=1e-14)
    groups = np.array([0, 1, 0, 1, 7, 7, 1])
    expected = [
        posterior(x[None], generic + (personal[k] if k < 2 else 0))[0] for x, k in zip(X, groups, strict=True)
    ]
    own = fed.predict_proba(X, groups=groups)
    np.testing.assert_allclose(own, expected, atol=1e-14)
    moved = np.abs(own - fed.predict_proba(X)).max(1)
    assert (moved[groups < 2] > 0.01).all()
    assert (moved[groups == 7] == 0).all()


def test_one_absent_class_counts_as_one_row_or_leaves():
    assert np.abs(by_hand("mask")[0] - by_hand("one")[0]).max() > 0.01


def test_a_client_that_never_trained_predicts_with_the_generic_head():
    fed = fit_small("fedrod", participation=0.5)
    moved = [np.abs(fed.predict_proba(X, groups=np.full(7, k)) - fed.predict_proba(X)).max() for k in (0, 1)]
    assert min(moved) == 0
    assert max(moved) > 0.01


@pytest.mark.parametrize("gamma", [0.0, 1.0, 2.5])
def test_personal_heads_go_on_where_they_were(gamma):
    fed = fit_small(FedROD(gamma), n_rounds=3)
    generic, personal = by_hand(gamma=gamma, n_rounds=3)
    for k in (0, 1):
        own = fed.predict_proba(X, groups=np.full(7, k))
        np.testing.assert_allclose(own, posterior(X, generic + personal[k]), atol=1e-13)


def test_current_labels_are_counted_on_demand():
    class Last:
        """Relabels every row of class 0 but the first into class 2."""

        def get_params(self, deep=True):
            return {}

        def fit(self, Q, y):
            return self

        def relabel(self, Q, y, uniforms=None):
            zeros = np.flatnonzero(y == 0)[1:]
            return np.where(np.isin(np.arange(len(y)), zeros), 2, y)

    def head(counts):
        return fit_small(
            FedROD(counts=counts), n_rounds=2, relabeler=Last(), relabel_at=1
        ).net_.module_.main.weight

    assert (head("original") - head("relabeled")).abs().max() > 0.01


def loss_of(counts, y, gamma=1.0, absent="mask"):
    algorithm = FedROD(gamma, absent)
    layer = nn.Linear(2, 3, dtype=torch.float64)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    model = model_of(layer, algorithm)
    return algorithm.client_loss(model, batch_of(np.ones((1, 2)), [y]), local_of(counts)).item()


@pytest.mark.parametrize(
    ("counts", "y", "expected"),
    [((8, 1, 1), 1, 2.302585), ((8, 1, 1), 0, 0.223144), ((5, 5, 5), 2, 1.098612)],
)
def test_the_balanced_softmax_of_zero_logits(counts, y, expected):
    # the personal part is log 3 at equal logits
    assert loss_of(counts, y) - math.log(3) == pytest.approx(expected, abs=5e-7)


def test_the_exponent_of_the_counts():
    assert loss_of((8, 1, 1), 0, gamma=2.0) - math.log(3) == pytest.approx(math.log(66 / 64), abs=1e-14)
    assert loss_of((8, 1, 1), 0, gamma=0.0) == pytest.approx(2 * math.log(3), abs=1e-14)


def gradients(counts, y, absent="mask"):
    algorithm, torch_seed = FedROD(absent=absent), torch.Generator().manual_seed(0)
    x = torch.randn(6, 5, dtype=torch.float64, generator=torch_seed)
    model = model_of(MLP(5, 3, hidden=(4,)).double(), algorithm)
    with torch.no_grad():
        # not the same for all classes: what such a head sends back to the features would cancel
        model.module[2].personal_head.weight.normal_(generator=torch_seed)
    algorithm.client_loss(model, batch_of(x, y), local_of(counts)).backward()
    return {name: p.grad for name, p in model.module.named_parameters()}, model, x


def test_the_personal_loss_moves_the_personal_head_alone():
    y = torch.tensor([0, 1, 2, 0, 1, 0])
    found, model, x = gradients((3, 2, 1), y)
    model.module.zero_grad()
    shift = torch.log(torch.tensor([3.0, 2.0, 1.0], dtype=torch.float64))
    nn.functional.cross_entropy(model.module(x) + shift, y).backward()
    for name, p in model.module.named_parameters():
        if "personal" in name:
            assert found[name].abs().max() > 0.01
            assert p.grad is None
        else:
            torch.testing.assert_close(found[name], p.grad, rtol=0, atol=1e-15)


def test_absent_classes_get_exactly_no_gradient_under_the_mask():
    found, _, _ = gradients((4, 2, 0), torch.tensor([0, 1, 0, 0, 1, 0]))
    assert found["2.main.weight"][2].tolist() == [0.0] * 4
    assert found["2.main.bias"][2].item() == 0.0
    assert found["2.personal_head.weight"][2].abs().max() > 0
    found, _, _ = gradients((4, 2, 0), torch.tensor([0, 1, 0, 0, 1, 0]), absent="one")
    assert found["2.main.weight"][2].abs().max() > 0.001


def test_a_head_without_bias_has_a_personal_one_without():
    module = FedROD().prepare_module(nn.Sequential(nn.Linear(5, 3, bias=False)), 3)
    assert module[0].personal_head.bias is None
    assert FedROD().shared(module.state_dict()) == ("0.main.weight",)


def test_what_stays_at_a_client():
    names = list(FedROD().prepare_module(OneLayer(), 3).state_dict())
    assert names == ["main.weight", "main.bias", "personal_head.weight", "personal_head.bias"]
    assert FedROD().shared(names) == ("main.weight", "main.bias")


def test_a_net_with_heads_of_its_own():
    with pytest.raises(NetError, match=r"'0' is of kind MultiHead, .* Let the net end in nn.Linear"):
        FedROD().prepare_module(nn.Sequential(MultiHead(nn.Linear(5, 3))), 3)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"gamma": -1}, "gamma must be a finite number >= 0"),
        ({"absent": "zero"}, "absent must be one of 'mask', 'one'"),
        ({"counts": "new"}, "counts must be one of 'original', 'relabeled'"),
    ],
)
def test_bad_values(params, message):
    with pytest.raises(ValueError, match=message):
        fit_small(FedROD(**params))
