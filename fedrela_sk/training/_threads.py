"""How many torch threads a fit uses: settled by facts, held by a guard, restored when the last fit ends."""

import threading
from contextlib import contextmanager

import torch
from torch import nn

# Below this many multiply-adds a batch, waking a second thread costs more than it saves.
_SMALL_BATCH_WORK = 20_000_000

_lock = threading.Lock()
_holders = 0
_before = None


def one_thread_is_enough(module, batch_size):
    """Whether batches are so small that more torch threads only get in each other's way.

    Convolutions reuse each weight many times and count as large. Depends on the module and the batch size
    alone, so every run of a job decides alike.
    """
    if any(isinstance(layer, nn.modules.conv._ConvNd) for layer in module.modules()):
        return False
    weights = sum(p.numel() for p in module.parameters())
    return weights * max(batch_size, 1) < _SMALL_BATCH_WORK


@contextmanager
def torch_threads(n_threads):
    """Run a block with `n_threads` torch threads (None: leave them), then restore the first caller's number.

    Fits that overlap in one process (threads) share the setting: the last one out restores it.
    """
    if n_threads is None:
        yield
        return
    global _holders, _before
    with _lock:
        if _holders == 0:
            _before = torch.get_num_threads()
        _holders += 1
        torch.set_num_threads(n_threads)
    try:
        yield
    finally:
        with _lock:
            _holders -= 1
            if _holders == 0:
                torch.set_num_threads(_before)
