"""Random streams as a function of (seed, purpose, round, client).

Nothing else decides what is drawn: not the order of clients, not the number of workers, not what was
drawn before. Every stream is NumPy's counter-based Philox generator, keyed through `SeedSequence`.
"""

import hashlib
from enum import IntEnum
from numbers import Integral

import numpy as np
from sklearn.utils import check_random_state


class Purpose(IntEnum):
    """What a stream is for. Numbers are part of every result: append, never renumber."""

    SPLIT = 1  # cutting rows into clients
    INIT = 2  # initial weights of the net
    PARTICIPATION = 3  # which clients take part in a round
    BATCHES = 4  # order of rows in local training
    MODULE = 5  # draws of the module itself (Dropout)
    RELABEL = 6  # uniforms of a relabelling
    VALIDATION = 7  # rows set aside at each client
    AUGMENT = 8  # passes that collect posteriors
    LOCAL_DATA = 9  # samplers run on a client's own rows
    FOLDS = 10  # folds for out-of-fold posteriors
    DATA = 11  # simulated data


def seed_from(random_state):
    """The integer that keys all streams of one fit.

    Parameters
    ----------
    random_state : int, RandomState instance or None
        An int is the seed itself; a `RandomState` draws one (so two fits differ); None draws one from
        NumPy's global state, as everywhere in scikit-learn.

    Returns
    -------
    seed : int >= 0
    """
    if isinstance(random_state, Integral) and not isinstance(random_state, bool):
        if random_state < 0:
            raise ValueError(f"random_state must be >= 0, got {random_state}.")
        return int(random_state)
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


def client_code(key):
    """A 64-bit integer for a client's key (its group label or position), the same in every process.

    Parameters
    ----------
    key : int, str, bool, float or bytes
        NumPy scalars count as the Python value they hold.

    Returns
    -------
    code : int in [0, 2**64)
    """
    key = key.item() if isinstance(key, np.generic) else key
    text = f"{type(key).__name__}:{key!r}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


def bit_generator(seed, purpose, round=0, client=0):
    """The Philox bit generator of one stream; `client` is an integer, see `client_code`."""
    entropy = [int(seed), int(Purpose(purpose)), int(round), int(client)]
    # each number is spelt as a fixed count of 32-bit words, so no two streams share their entropy
    words = [(number >> shift) & 0xFFFFFFFF for number in entropy for shift in (0, 32)]
    return np.random.Philox(np.random.SeedSequence(words))


def numpy_stream(seed, purpose, round=0, client=0):
    """NumPy generator of one stream."""
    return np.random.Generator(bit_generator(seed, purpose, round, client))


def integer_seed(seed, purpose, round=0, client=0):
    """A 63-bit seed for generators that are not NumPy's (torch, estimators with `random_state`)."""
    return int(numpy_stream(seed, purpose, round, client).integers(2**63))


def uniforms(seed, purpose, shape, round=0, client=0):
    """Uniform draws in [0, 1) of one stream, filled in C order: entry (row, class) never depends on rho.

    Returns
    -------
    u : ndarray of shape `shape`, float64
    """
    return numpy_stream(seed, purpose, round, client).random(shape)
