"""Posteriors in evaluation mode, and as a relabeling collects them: modes, passes, buffers, batches."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from fedrela_sk.exceptions import NetError
from fedrela_sk.nets import Augmentation
from fedrela_sk.training._net import tensors_of
from fedrela_sk.training._posteriors import client_posteriors, posteriors
from tests.training.helpers import OneWeight, make_net

ROWS = torch.tensor([[0.0], [1.0], [-1.0], [2.0], [0.5]], dtype=torch.float64)


def sigmoid(z):
    return 1 / (1 + np.exp(-np.asarray(z, dtype=float)))


def collect(net, X=ROWS, seed=0, **options):
    settings = {"passes": 1, "augment": False, "mode": "eval", "batch_size": 2}
    return client_posteriors(net, X, 2, **(settings | options), stream=np.random.default_rng(seed))


# -------------------------------------------------------------------------------------- posteriors


@pytest.mark.parametrize("batch_size", [1, 2, 1024])
def test_posteriors_of_a_one_weight_net(batch_size):
    Q = posteriors(make_net(OneWeight(math.log(3))), ROWS, 2, batch_size)
    assert Q.dtype == np.float64
    p = [1 / 2, 3 / 4, 1 / 4, 9 / 10, math.sqrt(3) / (1 + math.sqrt(3))]
    np.testing.assert_allclose(Q[:, 1], p, rtol=1e-14)
    np.testing.assert_allclose(Q.sum(axis=1), 1, rtol=0, atol=1e-15)


def test_no_rows_have_no_posteriors():
    assert posteriors(make_net(), ROWS[:0], 2).shape == (0, 2)


def test_posteriors_are_in_evaluation_mode_and_carry_no_gradient():
    net = make_net(nn.Sequential(OneWeight(), nn.Dropout(0.5), nn.BatchNorm1d(2).double()))
    before = {name: tensor.clone() for name, tensor in tensors_of(net.module_).items()}
    net.module_.train()
    first, second = posteriors(net, ROWS, 2), posteriors(net, ROWS, 2)
    np.testing.assert_array_equal(first, second)
    for name, tensor in tensors_of(net.module_).items():
        assert torch.equal(tensor, before[name])


class Overwrites(nn.Module):
    def forward(self, X):
        return X.add_(1)


@pytest.mark.parametrize("mode", ["eval", "train"])
def test_a_module_that_writes_to_its_input_changes_no_row(mode):
    net, X = make_net(nn.Sequential(Overwrites(), OneWeight())), ROWS.clone()
    posteriors(net, X, 2)
    collect(net, X, mode=mode)
    assert torch.equal(X, ROWS)


def test_output_that_does_not_fit_is_refused():
    with pytest.raises(NetError, match=r"shape \(rows, 3\); got \(5, 2\)"):
        posteriors(make_net(), ROWS, 3)


def test_posteriors_under_nll_are_the_modules_output():
    net = make_net(nn.Sequential(OneWeight(math.log(3)), nn.Softmax(dim=1)), criterion=nn.NLLLoss)
    np.testing.assert_allclose(posteriors(net, ROWS[:2], 2), [[0.5, 0.5], [0.25, 0.75]], rtol=1e-14)


# ------------------------------------------------------------------------- as a relabeling collects


class Shift(Augmentation):
    """Adds 1, 2, 3, ... to x, one more in every batch in which it augments."""

    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, X):
        if not self.training:
            return X
        self.calls += 1
        return X + self.calls


class Modes(nn.Module):
    """Passes x through and notes the modes of two layers, for all its copies."""

    seen = set()

    def __init__(self):
        super().__init__()
        self.augment, self.inner, self.weight = Shift(), nn.Dropout(0.0), OneWeight()

    def forward(self, X):
        self.seen.add((self.training, self.augment.training, self.inner.training))
        return self.weight(X)


def test_plain_posteriors_draw_nothing_however_many_passes():
    net, stream = make_net(OneWeight()), np.random.default_rng(0)
    state = stream.bit_generator.state
    Q = client_posteriors(net, ROWS, 2, passes=7, augment=False, mode="eval", batch_size=2, stream=stream)
    np.testing.assert_array_equal(Q, posteriors(net, ROWS, 2))
    assert stream.bit_generator.state == state


@pytest.mark.parametrize("mode", ["eval", "train"])
@pytest.mark.parametrize("augment", [False, True])
def test_augmentation_layers_follow_augment_and_all_others_mode(mode, augment):
    net = make_net(Modes)
    modes = [layer.training for layer in net.module_.modules()]
    Modes.seen.clear()
    collect(net, mode=mode, augment=augment)
    train = mode == "train"
    assert Modes.seen == {(train, augment, train)}
    assert [layer.training for layer in net.module_.modules()] == modes


def test_passes_are_averaged_as_probabilities():
    net = make_net(nn.Sequential(Shift(), OneWeight()))
    Q = collect(net, ROWS[:2], passes=3, augment=True, batch_size=10)
    for row, x in enumerate((0, 1)):
        assert Q[row, 1] == pytest.approx(np.mean(sigmoid([x + 1, x + 2, x + 3])), rel=1e-14)
    np.testing.assert_allclose(Q.sum(axis=1), 1, rtol=0, atol=1e-15)


def test_every_pass_visits_every_row_once_in_an_order_of_its_own():
    # one row per batch: the shift tells when a row was visited
    net, passes = make_net(nn.Sequential(Shift(), OneWeight(0.01))), 4
    X = torch.zeros(5, 1, dtype=torch.float64)
    Q = collect(net, X, passes=passes, augment=True, batch_size=1)
    stream, visits = np.random.default_rng(0), np.zeros(5)
    for k in range(passes):
        order = stream.permutation(5)
        # batches of one row, the last of which joins its neighbor
        when = np.minimum(np.argsort(order), 3) + 1 + 4 * k
        visits += sigmoid(0.01 * when)
    np.testing.assert_allclose(Q[:, 1], visits / passes, rtol=1e-14)


def test_train_mode_uses_the_statistics_of_batches():
    net = make_net(nn.Sequential(OneWeight(), nn.BatchNorm1d(2, eps=0.0, affine=False).double()))
    net.module_[1].eps = 1e-12
    X = ROWS[:4]
    Q = collect(net, X, mode="train", batch_size=2)
    order = np.random.default_rng(0).permutation(4)
    # two rows of a batch are normalized to -1 and 1
    for pair in (order[:2], order[2:]):
        low, high = sorted(pair, key=lambda row: X[row].item())
        np.testing.assert_allclose(Q[[low, high], 1], sigmoid([-1, 1]), rtol=1e-9)


@pytest.mark.parametrize("mode", ["eval", "train"])
def test_buffers_come_back_as_they_were(mode):
    net = make_net(nn.Sequential(Shift(), OneWeight(), nn.BatchNorm1d(2).double()))
    before = {name: tensor.clone() for name, tensor in tensors_of(net.module_).items()}
    collect(net, mode=mode, augment=True, passes=2)
    for name, tensor in tensors_of(net.module_).items():
        assert torch.equal(tensor, before[name])


class Fails(nn.Module):
    def forward(self, X):
        raise ZeroDivisionError


def test_modes_and_buffers_come_back_after_an_error():
    net = make_net(nn.Sequential(OneWeight(), nn.BatchNorm1d(2).double(), Fails()))
    modes = [layer.training for layer in net.module_.modules()]
    with pytest.raises(ZeroDivisionError):
        collect(net, mode="train")
    assert [layer.training for layer in net.module_.modules()] == modes
    assert net.module_[1].num_batches_tracked == 0
    np.testing.assert_array_equal(net.module_[1].running_var, [1, 1])


def test_one_row_under_batch_norm_uses_the_running_statistics():
    net = make_net(nn.Sequential(OneWeight(), nn.BatchNorm1d(2).double(), nn.Dropout(0.5)))
    net.module_[1].running_mean.copy_(torch.tensor([0.0, 3.0]))
    torch.manual_seed(0)
    Q = collect(net, ROWS[3:4], mode="train", passes=40)
    # Dropout is in training mode still: both outputs doubled or dropped
    z = (2 - 3) / math.sqrt(1 + 1e-5)
    drawn = np.unique([collect(net, ROWS[3:4], mode="train")[0, 1] for _ in range(40)])
    np.testing.assert_allclose(drawn, sorted([sigmoid(2 * z), 0.5]), rtol=1e-12)
    assert sigmoid(2 * z) < Q[0, 1] < 0.5
