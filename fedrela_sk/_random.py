"""Random streams as a function of (seed, purpose, round, client).

Nothing else decides what is drawn: not the order of clients, not the number of workers, not what was
drawn before. Every stream is NumPy's counter-based Philox generator, keyed through `SeedSequence`.
"""

import hashlib
from enum import IntEnum
from numbers import Integral

import numpy as np
from sklearn.utils import check_random_state

from fedrela_sk._philox import philox_keys, philox_words


class Purpose(IntEnum):
    """What a stream is for. Numbers are part of every result: append, never renumber."""

    SPLIT = 1  # cutting rows into clients
    INIT = 2  # initial weights of the net
    PARTICIPATION = 3  # which clients take part in a round
    BATCHES = 4  # order of rows in local training
    MODULE = 5  # draws of the module itself (Dropout)
    RELABEL = 6  # uniforms of a relabeling
    VALIDATION = 7  # rows set aside at each client
    AUGMENT = 8  # passes that collect posteriors
    LOCAL_DATA = 9  # samplers run on a client's own rows
    FOLDS = 10  # folds for out-of-fold posteriors
    DATA = 11  # simulated data
    METHOD = 12  # a method's own draws at a client
    SERVER = 13  # a method's own draws at the server
    REPORT = 14  # a method's draws where a client is asked before training
    SELECTION = 15  # which updates a participation scheme keeps once it knows them


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


def client_stream_id(key):
    """A 64-bit integer for a client's key (its group label or position), the same in every process.

    Parameters
    ----------
    key : int, str, bool, float, bytes or datetime
        NumPy scalars count as the Python value they hold.

    Returns
    -------
    stream_id : int in [0, 2**64)
    """
    key = key.item() if isinstance(key, np.generic) else key
    text = f"{type(key).__name__}:{key!r}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


def bit_generator(seed, purpose, round=0, client=0):
    """The Philox bit generator of one stream; `client` is an integer, see `client_stream_id`."""
    return np.random.Philox(np.random.SeedSequence(_entropy(seed, purpose, round, client)))


def _entropy(seed, purpose, round, client):
    """Each number spelled as a fixed count of 32-bit words, so that no two streams share their entropy."""
    numbers = [int(seed), int(Purpose(purpose)), int(round), int(client)]
    return [(number >> shift) & 0xFFFFFFFF for number in numbers for shift in (0, 32)]


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


def stream_keys(seed, purpose, round, clients):
    """Keys of the streams of many clients at once, for `uniforms_at` and `integer_seeds`.

    Parameters
    ----------
    seed, purpose, round
        As everywhere here.
    clients : sequence of int
        See `client_stream_id`.

    Returns
    -------
    keys : ndarray of shape (n_clients, 2), uint64
    """
    words = np.empty((len(clients), 8), dtype=np.uint32)
    words[:, :6] = _entropy(seed, purpose, round, 0)[:6]
    codes = np.array(clients, dtype=np.uint64)
    words[:, 6], words[:, 7] = codes & np.uint64(0xFFFFFFFF), codes >> np.uint64(32)
    return philox_keys(words)


def uniforms_at(keys, positions):
    """Entries of `uniforms` without the others: the same bits as if all had been drawn.

    Parameters
    ----------
    keys : ndarray of shape (n, 2), uint64
        Of every entry's stream, rows of `stream_keys`.
    positions : ndarray of shape (n,), int >= 0
        Position of every entry in its stream's `uniforms`, counted in C order; in any order, repeated or not.

    Returns
    -------
    u : ndarray of shape (n,), float64
    """
    return (philox_words(keys, positions) >> np.uint64(11)) * 2.0**-53


def integer_seeds(keys):
    """`integer_seed` of many streams, ndarray of shape (n,), uint64, from rows of `stream_keys`."""
    return philox_words(keys, np.zeros(len(keys), dtype=np.uint64)) >> np.uint64(1)
