"""Global generators, which modules that draw (Dropout) and initializers use, under our streams."""

import random
import threading
from contextlib import contextmanager

import numpy as np
import torch
from skorch.callbacks import GradientNormClipping
from torch import nn

from fedrela_sk._random import integer_seed

# The generators belong to the process: fits that run in several threads take turns.
_turn = threading.RLock()


# Layers of torch.nn.modules that are known to draw nothing; of any other module we cannot know.
_DRAWING = ("Dropout", "RReLU", "RNNBase", "Transformer", "MultiheadAttention", "FractionalMaxPool")


def module_draws(module):
    """Whether a module may draw random numbers in its forward pass: it has such a layer, or code of its own."""
    containers = (nn.Sequential, nn.ModuleList, nn.ModuleDict)
    for layer in module.modules():
        kinds = [kind.__name__ for kind in type(layer).__mro__]
        if any(word in kind for kind in kinds for word in _DRAWING):
            return True
        plain_container = isinstance(layer, containers) and type(layer).forward in _INHERITED_FORWARDS
        if not (type(layer).__module__.startswith("torch.nn.modules") or plain_container):
            return True
    return False


_INHERITED_FORWARDS = {nn.Sequential.forward, nn.ModuleList.forward, nn.ModuleDict.forward}

# Packages whose losses, optimizers and algorithms draw nothing from torch's generators.
_QUIET_PACKAGES = ("torch", "skorch", "fedrela_sk")


def training_draws(net, callbacks, algorithm):
    """Whether local training may draw random numbers: the module may, or code of the user's takes part.

    Parameters
    ----------
    net : initialized skorch net
    callbacks : sequence of skorch callbacks
        The user's own; all but clipping may run code that draws (`skorch.callbacks.Initializer`).
    algorithm : Algorithm
    """
    if getattr(net.criterion_, "draws", False):
        return True
    parts = (net, net.criterion_, net.optimizer_, algorithm)
    foreign = any(type(part).__module__.split(".")[0] not in _QUIET_PACKAGES for part in parts)
    own_callbacks = any(type(callback) is not GradientNormClipping for callback in callbacks)
    return foreign or own_callbacks or module_draws(net.module_)


@contextmanager
def forked_generators(device):
    """Run a block whose draws leave global generators as they were, and no other thread's draws in between.

    Those of torch, and NumPy's and Python's global ones, which code of the user's may draw from.

    Parameters
    ----------
    device : str or torch.device
        Where the module draws; the CPU's generator is kept as well.
    """
    with _turn, torch.random.fork_rng(devices=[device] if _is_cuda(device) else []):
        numpy_state, python_state = np.random.get_state(), random.getstate()  # noqa: NPY002 - the global one
        try:
            yield
        finally:
            np.random.set_state(numpy_state)  # noqa: NPY002
            random.setstate(python_state)


def seed_generators(device, seed, purpose, round=0, client=0):
    """Set torch's generators, and the global ones of NumPy and Python, to one stream.

    `torch.manual_seed` would also queue a call, with its stack trace, for every accelerator that is never
    used: slow, and a leak over many rounds.
    """
    number = integer_seed(seed, purpose, round, client)
    torch.default_generator.manual_seed(number)
    np.random.seed(number % 2**32)  # noqa: NPY002
    random.seed(number)
    if _is_cuda(device):
        torch.cuda.manual_seed(number)


def _is_cuda(device):
    return str(device).startswith("cuda")
