"""torch's own generators, which modules that draw (Dropout) and initialisers use, under our streams."""

import threading
from contextlib import contextmanager

import torch

from fedrela_sk._random import integer_seed

# The generators belong to the process: fits that run in several threads take turns.
_turn = threading.RLock()


@contextmanager
def forked_generators(device):
    """Run a block whose draws leave torch's generators as they were, and no other thread's draws in between.

    Parameters
    ----------
    device : str or torch.device
        Where the module draws; the CPU's generator is kept as well.
    """
    with _turn, torch.random.fork_rng(devices=[device] if _is_cuda(device) else []):
        yield


def seed_generators(device, seed, purpose, round=0, client=0):
    """Set torch's generators to one stream.

    `torch.manual_seed` would also queue a call, with its stack trace, for every accelerator that is never
    used: slow, and a leak over many rounds.
    """
    number = integer_seed(seed, purpose, round, client)
    torch.default_generator.manual_seed(number)
    if _is_cuda(device):
        torch.cuda.manual_seed(number)


def _is_cuda(device):
    return str(device).startswith("cuda")
