"""BatchNorm in the loop engine: batches and clients of one row, running statistics."""

import numpy as np
import pytest
from torch import nn

from tests.training.helpers import OneWeight, make_loop, make_task, train, train_one


def batch_norm_loop(n_rows, *, norm=True, **settings):
    """Standard rows x = 0, 1, 2, ... before one weight."""
    layers = [nn.BatchNorm1d(1).double()] if norm else []
    module = nn.Sequential(*layers, OneWeight())
    return make_loop(np.arange(float(n_rows)), module=module, **settings)


@pytest.mark.parametrize(("norm", "n_steps"), [(True, 2), (False, 3)])
def test_a_last_batch_of_one_row_is_merged_only_under_batch_norm(norm, n_steps):
    update = train_one(batch_norm_loop(9, norm=norm, batch_size=4), np.arange(9), [0] * 9)
    assert update.n_steps == n_steps


def test_running_statistics_follow_the_batches():
    update = train_one(batch_norm_loop(3), [0, 1, 2], [0, 1, 0])
    # momentum 0.1 from mean 0 and variance 1 towards mean 1 and unbiased variance 1
    assert update.tensors["0.running_mean"].item() == pytest.approx(0.1)
    assert update.tensors["0.running_var"].item() == pytest.approx(1.0)
    assert update.tensors["0.num_batches_tracked"].item() == 1


def test_a_client_of_one_row_trains_with_the_running_statistics():
    loop = batch_norm_loop(4, max_epochs=2)
    tasks = [make_task(loop, [2], [0], key="one"), make_task(loop, [0, 1, 2], [0, 1, 0], key="more")]
    updates = train(loop, tasks)
    one, more = updates["one"], updates["more"]
    assert one.notes == ("client 'one' has one row: BatchNorm in evaluation mode",)
    assert one.tensors["0.running_mean"].item() == 0.0
    assert one.tensors["0.num_batches_tracked"].item() == 0
    assert one.tensors["1.w"].item() != 1.0
    assert one.tensors["0.weight"].item() != 1.0
    # the next client's layers are in training mode again
    assert more.notes == ()
    assert more.tensors["0.num_batches_tracked"].item() == 2
    # the gradient of the first step: x = 2 is normalized to 2 / sqrt(1 + eps)
    x = 2 / (1 + 1e-5) ** 0.5
    once = train_one(batch_norm_loop(4), [2], [0], key="one")
    assert once.tensors["1.w"].item() == pytest.approx(1 - 0.5 * x * x)


def test_a_client_of_one_row_without_batch_norm_is_nothing_special():
    update = train_one(batch_norm_loop(4, norm=False), [1], [0])
    assert update.notes == ()
    assert update.tensors["0.w"].item() == 0.5
