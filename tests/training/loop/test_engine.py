"""The loop engine on one-weight models whose steps can be worked out by hand.

The loss of a row is 1/2 (w x - y)^2 (see `tests.training.helpers`), w starts at 1, the rate is 1/2 and
batches are full where nothing else is said: with x = 1 and y = 0 every step halves w.
"""

import numpy as np
import pytest
import torch
from skorch import NeuralNetClassifier
from torch import nn

from fedrela_sk._update import WEIGHT_NBYTES
from fedrela_sk.training import Instructions
from fedrela_sk.training._net import tensors_of
from tests.training.helpers import TwoWeights, make_loop, make_task, same, train, train_one


def test_one_step():
    loop = make_loop([1.0])
    update = train_one(loop, [0], [0], weight=7.0, key="north")
    assert update.client.key == "north"
    assert update.tensors["w"].tolist() == [0.5]
    assert (update.loss, update.n_steps, update.weight, update.notes) == (0.5, 1, 7.0, ())
    assert (update.kept, update.state) == ({}, {})
    assert update.nbytes == 8 + WEIGHT_NBYTES


def test_the_factor_of_the_round_scales_the_rate():
    loop = make_loop([1.0])
    for factor, w in ((0.5, 0.75), (1.0, 0.5), (2.0, 0.0)):
        params = {"w": torch.ones(1, dtype=torch.float64)}
        assert train_one(loop, [0], [0], lr_factor=factor, params=params).tensors["w"].item() == w


def test_the_factor_scales_the_rate_of_every_parameter_group():
    # w is in a group of rate 1/4, v in the one of rate 1/2
    loop = make_loop([1.0], module=TwoWeights, optimizer__param_groups=[("w", {"lr": 0.25})])
    update = train_one(loop, [0], [1], lr_factor=0.5)
    # output w + v = 0, label 1, gradient -1 for both
    assert (update.tensors["w"].item(), update.tensors["v"].item()) == (1 + 0.125, -1 + 0.25)


def test_batches_follow_each_other():
    # y = 0, 0: w = 1/2; then y = 1, 1: gradient -1/2, w = 3/4
    update = train_one(make_loop([1.0] * 4, batch_size=2), [0, 1, 2, 3], [0, 0, 1, 1])
    assert update.tensors["w"].item() == 0.75
    assert update.loss == (1 / 2 + 1 / 8) / 2
    assert update.n_steps == 2


def test_epochs_follow_each_other():
    update = train_one(make_loop([1.0], max_epochs=3), [0], [0])
    assert update.tensors["w"].item() == 1 / 8
    assert update.loss == pytest.approx((1 / 2 + 1 / 8 + 1 / 32) / 3)
    assert update.n_steps == 3


def test_the_loss_is_a_mean_over_rows_not_over_batches():
    update = train_one(make_loop([1.0] * 3, batch_size=2), [0, 1, 2], [0, 0, 0])
    assert update.tensors["w"].item() == 1 / 4
    assert update.loss == pytest.approx((2 * 1 / 2 + 1 / 8) / 3)


def test_a_client_trains_on_its_own_rows():
    # rows 1 and 2: the gradient is the mean of 2 (2 w - 1) = 2 and 3 (3 w - 0) = 9
    update = train_one(make_loop([1.0, 2.0, 3.0], lr=0.1), [1, 2], [1, 0])
    assert update.tensors["w"].item() == pytest.approx(1 - 0.55)


@pytest.mark.parametrize(
    ("weights", "class_weights", "w"),
    [
        # rows with y = 0 and y = 1: gradients 1 and 0
        (None, None, 0.75),
        ([3.0, 1.0], None, 0.625),
        (None, [3.0, 1.0], 0.625),
        ([1.0, 3.0], [3.0, 1.0], 0.75),
        ([1.0, 3.0], [0.0, 1.0], 1.0),
        ([0.0, 0.0], None, 1.0),
    ],
)
def test_row_and_class_weights_multiply(weights, class_weights, w):
    loop = make_loop([1.0, 1.0], weights=weights)
    update = train_one(loop, [0, 1], [0, 1], class_weights=class_weights)
    assert update.tensors["w"].item() == w


def test_weights_go_with_their_rows_through_shuffled_batches():
    # a row with x = 0 moves nothing; the row of weight 0 must not either, in whichever batch it lands
    weights = [5.0, 1.0, 0.0, 1.0, 1.0, 1.0]
    X = [9.0, 0.0, 2.0, 0.0, 0.0, 0.0]
    loop = make_loop(X, weights=weights, batch_size=2, iterator_train__shuffle=True, max_epochs=5)
    update = train_one(loop, [1, 2, 3, 4, 5], [0, 1, 0, 0, 0])
    assert update.tensors["w"].item() == 1.0
    assert train_one(loop, [0, 1, 2, 3, 4], [0] * 5).tensors["w"].item() != 1.0


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam])
@pytest.mark.parametrize("criterion", [nn.CrossEntropyLoss, nn.NLLLoss])
def test_one_client_equals_skorchs_own_training(criterion, optimizer):
    stream = np.random.default_rng(0)
    X, y = stream.normal(size=(23, 3)), stream.integers(2, size=23)
    layers = [nn.Linear(3, 4).double(), nn.Tanh(), nn.Linear(4, 2).double()]
    module = nn.Sequential(*layers, *([nn.Softmax(dim=1)] if criterion is nn.NLLLoss else []))
    settings = {"criterion": criterion, "optimizer": optimizer, "batch_size": 5, "max_epochs": 3, "lr": 0.05}
    update = train_one(make_loop(X, module=module, **settings), np.arange(23), y)
    net = NeuralNetClassifier(module, train_split=None, verbose=0, **settings).initialize().partial_fit(X, y)
    for name, tensor in tensors_of(net.module_).items():
        assert torch.equal(update.tensors[name], tensor)
    losses = net.history[:, "train_loss"]
    assert update.loss == pytest.approx(np.mean(losses), rel=1e-12)


def test_updates_share_no_memory_with_anything():
    loop = make_loop([1.0, 1.0])
    task = make_task(loop, [0], [0])
    (first,) = loop.train([task], Instructions(0))
    train_one(loop, [1], [1], params={"w": torch.tensor([8.0], dtype=torch.float64)})
    loop.net.module_.w.data.fill_(5)
    assert first.tensors["w"].item() == 0.5
    assert task.params["w"].item() == 1.0


def test_clients_are_trained_when_asked_for():
    loop = make_loop([1.0])
    asked = []

    def tasks():
        for key in "abc":
            asked.append(key)
            yield make_task(loop, [0], [0], key=key)

    updates = loop.train(tasks(), Instructions(0))
    assert asked == []
    assert next(updates).client.key == "a"
    assert asked == ["a"]


def test_units_of_work_change_no_result():
    loop = make_loop(np.linspace(0.1, 1.0, 20))
    params = {"w": torch.ones(1, dtype=torch.float64)}
    tasks = [make_task(loop, [k], [k % 2], key=k, params=params) for k in range(20)]
    units = loop.units(tasks)
    assert [task for unit in units for task in unit] == tasks
    assert [len(unit) for unit in units] == [10, 10]
    sizes = lambda n, n_workers: [len(unit) for unit in loop.units(tasks[:n], n_workers)]  # noqa: E731
    assert sizes(20, 2) == [10, 10]
    assert sizes(20, 3) == [7, 6, 7]
    assert sizes(11, 1) == [6, 5]
    assert sizes(3, 8) == [1, 1, 1]
    assert sizes(0, 2) == []
    together = [update for unit in units for update in loop.train_unit(unit, Instructions(3, lr_factor=0.5))]
    loop.close()
    apart = train(loop, tasks, 3, lr_factor=0.5)
    assert [update.client.key for update in together] == list(apart)
    for update in together:
        assert same(update, apart[update.client.key])
