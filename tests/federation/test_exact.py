"""Federations whose result can be worked out another way: skorch alone, pooled descent, repeated rows."""

import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch import nn

from fedrela_sk import FedReLaRelabeler
from fedrela_sk.training._net import build_net
from tests.federation.helpers import (
    Logits,
    Probabilities,
    WithBatchNorm,
    assert_close_weights,
    assert_same_weights,
    make_fed,
    make_net,
    make_rows,
    weights_of,
)

X, Y = make_rows(50)


def initial(net, X=X, y=Y):
    """The net that a federation of seed 0 starts from."""
    return build_net(net, X, y, len(np.unique(y)), seed=0)


def skorch_alone(net, X=X, y=Y):
    """Weights after skorch's own `partial_fit` from the same initial weights."""
    alone = clone(net).set_params(train_split=None, verbose=0).initialize()
    alone.module_.load_state_dict(initial(net).module_.state_dict())
    alone.partial_fit(X, y)
    return {name: tensor.numpy() for name, tensor in alone.module_.state_dict().items()}


@pytest.mark.parametrize(
    ("optimizer", "options"),
    [
        (torch.optim.SGD, {}),
        (torch.optim.SGD, {"optimizer__momentum": 0.9, "optimizer__nesterov": True}),
        (torch.optim.SGD, {"optimizer__momentum": 0.5, "optimizer__weight_decay": 0.1}),
        (torch.optim.Adam, {}),
        (torch.optim.AdamW, {"optimizer__weight_decay": 0.3}),
        (torch.optim.RMSprop, {"optimizer__alpha": 0.5}),
        (torch.optim.Adagrad, {"optimizer__initial_accumulator_value": 0.5}),
        (torch.optim.LBFGS, {"optimizer__max_iter": 3}),
    ],
    ids=["sgd", "nesterov", "decay", "adam", "adamw", "rmsprop", "adagrad", "lbfgs"],
)
@pytest.mark.parametrize("batch_size", [-1, 16])
def test_one_client_equals_skorch(optimizer, options, batch_size):
    net = make_net(optimizer=optimizer, batch_size=batch_size, max_epochs=3, **options)
    fed = make_fed(net, clients=1, n_rounds=1).fit(X, Y)
    assert_close_weights(weights_of(fed), skorch_alone(net), atol=1e-12)


@pytest.mark.parametrize(
    "options",
    [
        {"module": Probabilities, "criterion": nn.NLLLoss},
        {"criterion__label_smoothing": 0.1},
        {"criterion__weight": torch.tensor([1.0, 2.0, 0.5], dtype=torch.float64)},
        {"criterion__reduction": "sum", "lr": 0.01},
        {"module": WithBatchNorm},
        {"optimizer__param_groups": [("bias", {"lr": 0.001})], "optimizer": torch.optim.SGD},
    ],
    ids=["nll", "smoothing", "weight", "sum", "batch-norm", "groups"],
)
def test_one_client_equals_skorch_with_other_parts(options):
    options = dict(options)
    net = make_net(options.pop("module", Logits), batch_size=16, max_epochs=2, **options)
    fed = make_fed(net, clients=1, n_rounds=1).fit(X, Y)
    assert_close_weights(weights_of(fed), skorch_alone(net), atol=1e-12)


def test_one_client_over_rounds_starts_its_optimizer_afresh():
    net = make_net(optimizer__momentum=0.9, batch_size=16)
    fed = make_fed(net, clients=1, n_rounds=2).fit(X, Y)
    alone = clone(net).set_params(train_split=None, verbose=0).initialize()
    alone.module_.load_state_dict(initial(net).module_.state_dict())
    for _ in range(2):
        alone.initialize_optimizer()
        alone.partial_fit(X, Y)
    expected = {name: tensor.numpy() for name, tensor in alone.module_.state_dict().items()}
    assert_close_weights(weights_of(fed), expected, atol=1e-12)


def pooled_descent(steps, weights, lr=0.1):
    """Gradient descent on the weighted mean cross-entropy of all rows, written in NumPy."""
    module = initial(make_net()).module_
    W, b = module.weight.detach().numpy().copy(), module.bias.detach().numpy().copy()
    share = weights / weights.sum()
    for _ in range(steps):
        logits = X @ W.T + b
        P = np.exp(logits - logits.max(1, keepdims=True))
        P /= P.sum(1, keepdims=True)
        error = share[:, None] * (P - np.eye(3)[Y])
        W, b = W - lr * error.T @ X, b - lr * error.sum(0)
    return {"weight": W, "bias": b}


@pytest.mark.parametrize("n_clients", [1, 4, 7])
@pytest.mark.parametrize("rounds", [1, 5])
def test_one_full_batch_step_each_equals_pooled_descent(n_clients, rounds):
    fed = make_fed(clients=n_clients, n_rounds=rounds).fit(X, Y)
    assert_close_weights(weights_of(fed), pooled_descent(rounds, np.ones(len(X))), atol=1e-12)


def test_one_full_batch_step_each_equals_weighted_pooled_descent():
    weights = np.random.default_rng(0).gamma(1.0, size=len(X))
    fed = make_fed(clients=4, n_rounds=3).fit(X, Y, sample_weight=weights)
    assert_close_weights(weights_of(fed), pooled_descent(3, weights), atol=1e-12)


def test_clients_of_one_class_too():
    fed = make_fed(clients=None, n_rounds=3).fit(X, Y, groups=Y)
    assert_close_weights(weights_of(fed), pooled_descent(3, np.ones(len(X))), atol=1e-12)


GROUPS = np.arange(50) % 4
REPEATS = np.random.default_rng(3).integers(0, 4, size=50)
REPEATS[GROUPS == 2] = 0  # a client whose rows all count nothing is no client


@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 0.5, 2: 3.0}], ids=str)
@pytest.mark.parametrize("module", [Logits, Probabilities])
@pytest.mark.parametrize("relabeler", [None, FedReLaRelabeler(tau=0.0)], ids=["plain", "tau=0"])
def test_an_integer_weight_equals_repeated_rows(class_weight, module, relabeler):
    criterion = nn.CrossEntropyLoss if module is Logits else nn.NLLLoss
    net = make_net(module, criterion=criterion, max_epochs=2, optimizer=torch.optim.Adam)
    fed = make_fed(net, clients=None, class_weight=class_weight, relabeler=relabeler)
    weighted = clone(fed).fit(X, Y, groups=GROUPS, sample_weight=REPEATS)
    repeated = clone(fed).fit(*(np.repeat(a, REPEATS, axis=0) for a in (X, Y, GROUPS)))
    assert_close_weights(weights_of(weighted), weights_of(repeated), atol=1e-12)
    np.testing.assert_array_equal(weighted.class_count_, repeated.class_count_)
    assert weighted.history_.empty_cell_share == repeated.history_.empty_cell_share
    assert weighted.history_.empty_clients == (2,)
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), rtol=0, atol=1e-12)


def test_a_fit_with_participation_counts_no_client_without_weight():
    fed = make_fed(clients=None, participation=0.5, n_rounds=20)
    weighted = clone(fed).fit(X, Y, groups=GROUPS, sample_weight=REPEATS)
    repeated = clone(fed).fit(*(np.repeat(a, REPEATS, axis=0) for a in (X, Y, GROUPS)))
    assert [record.participants for record in weighted.history_] == [
        record.participants for record in repeated.history_
    ]
    assert_close_weights(weights_of(weighted), weights_of(repeated), atol=1e-12)


def test_weights_of_one_change_nothing():
    assert_same_weights(make_fed().fit(X, Y), make_fed().fit(X, Y, sample_weight=np.ones(len(X))))


def test_a_schedule_equals_rates_set_by_hand():
    scheduled = make_fed(make_net(lr=0.4), clients=2, n_rounds=1, lr_schedule=lambda round: 0.25).fit(X, Y)
    by_hand = make_fed(make_net(lr=0.1), clients=2, n_rounds=1).fit(X, Y)
    assert_same_weights(scheduled, by_hand)
    by_number = make_fed(make_net(lr=0.4), lr_schedule=0.5).fit(X, Y)
    by_callable = make_fed(make_net(lr=0.4), lr_schedule=lambda round: [1, 0.5, 0.25][round]).fit(X, Y)
    assert_same_weights(by_number, by_callable)


def test_a_rate_of_zero_leaves_the_model_as_it_is():
    frozen = make_fed(n_rounds=4, lr_schedule=lambda round: float(round < 2)).fit(X, Y)
    short = make_fed(n_rounds=2).fit(X, Y)
    assert_close_weights(weights_of(frozen), weights_of(short), atol=1e-15)


def test_the_released_codes_drop_at_the_relabel_round_is_one_setting():
    drop = lambda round: 0.1 if round >= 2 else 1.0  # noqa: E731
    fed = make_fed(n_rounds=3, relabeler=FedReLaRelabeler(0.1), relabel_at=2, lr_schedule=drop).fit(X, Y)
    full = make_fed(n_rounds=3, relabeler=FedReLaRelabeler(0.1), relabel_at=2).fit(X, Y)
    before = make_fed(n_rounds=2).fit(X, Y)
    start, slow, fast = (weights_of(one)["weight"] for one in (before, fed, full))
    np.testing.assert_allclose(slow - start, 0.1 * (fast - start), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("client_weight", "given"),
    [("uniform", [1, 1]), ([1, 3], [1, 3]), (lambda sizes: sizes**2, [30**2, 20**2]), ("size", [30, 20])],
    ids=["uniform", "array", "callable", "size"],
)
def test_client_weights_are_those_of_the_mean(client_weight, given):
    groups = np.where(np.arange(50) < 30, "a", "b")
    fed = make_fed(clients=None, n_rounds=1, client_weight=client_weight).fit(X, Y, groups=groups)
    alone = [make_fed(clients=1, n_rounds=1).fit(X[groups == key], Y[groups == key]) for key in "ab"]
    first, second = (weights_of(one) for one in alone)
    mean = {name: (given[0] * first[name] + given[1] * second[name]) / sum(given) for name in first}
    assert_close_weights(weights_of(fed), mean, atol=1e-12)


def test_weights_change_no_number_of_steps():
    weights = np.random.default_rng(0).integers(0, 5, len(X)).astype(float)
    net = make_net(batch_size=8, max_epochs=2)
    plain, weighted = make_fed(net).fit(X, Y), make_fed(net).fit(X, Y, sample_weight=weights)
    assert [r.n_steps for r in weighted.history_] == [r.n_steps for r in plain.history_]
    assert [r.n_samples for r in weighted.history_] == [r.n_samples for r in plain.history_]


def test_a_class_that_a_client_lacks_has_no_weight_there_also_once_relabeled():
    class ToLast(FedReLaRelabeler):
        """Every row to the last class."""

        def relabel(self, Q, y, uniforms=None):
            return np.full_like(y, 2)

    some = Y < 2
    rows, labels, groups = X[some], Y[some], np.arange(some.sum()) % 2
    rows, labels, groups = (
        np.r_[rows, X[~some]],
        np.r_[labels, Y[~some]],
        np.r_[groups, np.full((~some).sum(), 2)],
    )
    common = {"clients": None, "class_weight": "balanced", "n_rounds": 3, "client_weight": [1, 1, 0]}
    relabeled = make_fed(relabeler=ToLast(), relabel_at=2, **common).fit(rows, labels, groups=groups)
    before = make_fed(**common | {"n_rounds": 2}).fit(rows, labels, groups=groups)
    assert relabeled.relabeled_mask_[groups < 2].all()
    # clients 0 and 1 lack class 2: all of their rows have weight 0 now, and nothing moves
    assert_close_weights(weights_of(relabeled), weights_of(before), atol=1e-15)


def test_balanced_class_weights_use_each_clients_own_counts():
    groups = np.arange(50) % 2
    fed = make_fed(clients=None, n_rounds=1, class_weight="balanced").fit(X, Y, groups=groups)
    by_row = np.empty(50)
    for group in (0, 1):
        own = groups == group
        counts = np.bincount(Y[own], minlength=3)
        by_row[own] = (own.sum() / (np.count_nonzero(counts) * counts[counts > 0]))[
            np.searchsorted(np.flatnonzero(counts), Y[own])
        ]
    # the same rows with those weights; each client still counts its rows in the mean
    other = make_fed(clients=None, n_rounds=1, client_weight=[25, 25])
    other.fit(X, Y, groups=groups, sample_weight=by_row)
    assert_close_weights(weights_of(fed), weights_of(other), atol=1e-12)
