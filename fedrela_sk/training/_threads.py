"""How many torch threads a fit uses: settled by facts, held by a guard, restored when the last fit ends."""

import threading
from contextlib import contextmanager

import torch
from torch import nn

from fedrela_sk.training._net import read_settings

# Below this many multiply-adds a batch, waking a second thread costs more than it saves.
_SMALL_BATCH_WORK = 20_000_000

_lock = threading.Lock()
_holders = 0
_before = None
_own = threading.local()  # .depth: blocks that this Python thread is in


def one_thread_is_enough(module, batch_size):
    """Whether batches are so small that more torch threads only get in each other's way.

    Convolutions reuse each weight many times and count as large. Depends on the module and the batch size
    alone, so every run of a job decides alike.
    """
    if any(isinstance(layer, nn.modules.conv._ConvNd) for layer in module.modules()):
        return False
    weights = sum(p.numel() for p in module.parameters())
    return weights * max(batch_size, 1) < _SMALL_BATCH_WORK


def threads_for(net, n_rows):
    """One torch thread where batches are tiny, else None: what torch is set to.

    Parameters
    ----------
    net : initialized skorch net
    n_rows : int
        Rows of a batch where the net takes all rows at once.
    """
    size = read_settings(net).batch_size
    return 1 if one_thread_is_enough(net.module_, n_rows if size == -1 else size) else None


@contextmanager
def torch_threads(n_threads):
    """Run a block with `n_threads` torch threads (None: leave them), then go back to the number before.

    torch keeps one number per Python thread, and a new thread starts with what was set last in any other.
    So where blocks overlap in several threads, all of them go back to the number of the first one.
    """
    if n_threads is None:
        yield
        return
    outer = _enter(n_threads)
    try:
        yield
    finally:
        _leave(outer)


def _enter(n_threads):
    """Set the number of threads; returns the one to go back to."""
    global _holders, _before
    depth = getattr(_own, "depth", 0)
    with _lock:
        # torch reads a thread's number lazily: unread, one set here could yet be replaced by another thread's
        current = torch.get_num_threads()
        if _holders == 0:
            _before = current
        outer = current if depth else _before
        torch.set_num_threads(n_threads)
        _holders += 1
    _own.depth = depth + 1
    return outer


def _leave(outer):
    global _holders
    _own.depth -= 1
    with _lock:
        _holders -= 1
        torch.set_num_threads(outer)
