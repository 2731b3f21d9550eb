"""torch's number of threads: set for a block, then what it was, whoever else is in such a block."""

import threading

import numpy as np
import pytest
import torch
from skorch import NeuralNetClassifier
from torch import nn

from fedrela_sk.nets import MLP
from fedrela_sk.training import _threads as room
from fedrela_sk.training._net import build_net
from fedrela_sk.training._threads import one_thread_is_enough, threads_for, torch_threads


@pytest.fixture(autouse=True)
def five_threads():
    """Start from 5, which no test sets; leave torch, and the books, as they were."""
    before = torch.get_num_threads()
    torch.set_num_threads(5)
    yield
    torch.set_num_threads(before)
    assert room._holders == 0


def in_new_thread(function, *arguments):
    """Result of a function in a Python thread of its own."""
    results = []
    thread = threading.Thread(target=lambda: results.append(function(*arguments)))
    thread.start()
    thread.join(10)
    (result,) = results
    return result


class Visitor:
    """A thread that enters and leaves a block when told to."""

    def __init__(self, n_threads):
        self.events = {name: threading.Event() for name in ("entered", "leave")}
        self.seen = {}
        self.thread = threading.Thread(target=self._run, args=(n_threads,))
        self.thread.start()
        assert self.events["entered"].wait(10)

    def _run(self, n_threads):
        with torch_threads(n_threads):
            self.seen["inside"] = torch.get_num_threads()
            self.events["entered"].set()
            self.events["leave"].wait(10)
        self.seen["after"] = torch.get_num_threads()

    def leave(self):
        self.events["leave"].set()
        self.thread.join(10)


def test_none_leaves_everything():
    with torch_threads(None):
        assert torch.get_num_threads() == 5
        assert room._holders == 0


def test_a_block_sets_and_restores():
    with torch_threads(2):
        assert torch.get_num_threads() == 2
    assert torch.get_num_threads() == 5


def test_nested_blocks_restore_step_by_step():
    with torch_threads(3):
        with torch_threads(1):
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 3
        with torch_threads(None):
            assert torch.get_num_threads() == 3
    assert torch.get_num_threads() == 5


def test_an_error_restores():
    with pytest.raises(KeyError), torch_threads(1), torch_threads(2):
        raise KeyError
    assert torch.get_num_threads() == 5


def test_a_number_that_torch_refuses_leaves_nothing_held():
    with pytest.raises(RuntimeError, match="positive"), torch_threads(0):
        pass
    assert room._holders == 0
    assert torch.get_num_threads() == 5
    with torch_threads(2):
        assert torch.get_num_threads() == 2
    assert torch.get_num_threads() == 5


def test_the_first_one_in_may_leave_first():
    with torch_threads(2):
        other = Visitor(1)
    assert torch.get_num_threads() == 5
    other.leave()
    assert other.seen == {"inside": 1, "after": 5}
    assert torch.get_num_threads() == 5
    assert in_new_thread(torch.get_num_threads) == 5


def test_the_first_one_in_may_leave_last():
    with torch_threads(2):
        other = Visitor(1)
        other.leave()
        assert torch.get_num_threads() == 2
    assert other.seen == {"inside": 1, "after": 5}
    assert torch.get_num_threads() == 5
    assert in_new_thread(torch.get_num_threads) == 5


def test_threads_that_come_and_go_restore_the_first_callers_number():
    first, second = Visitor(1), Visitor(1)
    first.leave()
    third = Visitor(1)
    second.leave()
    third.leave()
    assert [visitor.seen["after"] for visitor in (first, second, third)] == [5, 5, 5]
    assert torch.get_num_threads() == 5
    assert in_new_thread(torch.get_num_threads) == 5


def test_small_batches_need_one_thread():
    module = MLP(10, 2)
    weights = 10 * 64 + 64 + 64 * 32 + 32 + 32 * 2 + 2
    assert one_thread_is_enough(module, 32)
    assert one_thread_is_enough(module, 20_000_000 // weights)
    assert not one_thread_is_enough(module, 20_000_000 // weights + 1)


def test_convolutions_count_as_large():
    assert not one_thread_is_enough(nn.Sequential(nn.Conv1d(1, 1, 1), nn.Flatten()), 1)


@pytest.mark.parametrize(
    ("batch_size", "n_rows", "n_threads"), [(32, 10**9, 1), (10**7, 1, None), (-1, 10, 1), (-1, 10**7, None)]
)
def test_batches_of_a_net_count_and_all_rows_where_it_takes_them_at_once(batch_size, n_rows, n_threads):
    estimator = NeuralNetClassifier(
        nn.Linear, module__in_features=2, module__out_features=2, batch_size=batch_size
    )
    net = build_net(estimator, np.zeros((4, 2)), np.array([0, 1, 0, 1]), 2, 0)
    assert threads_for(net, n_rows) == n_threads  # 6 weights: 20 million / 6 rows are one batch
