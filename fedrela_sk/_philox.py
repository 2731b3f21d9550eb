"""Any entries of many Philox streams at once, with NumPy only: bit for bit what the streams themselves give.

`numpy.random.Philox` is a function of (key, counter), so entry i of a stream needs none of the entries before it;
NumPy offers no door to that for many keys at once. Its key is made by `numpy.random.SeedSequence`, which is
written out here, too, since a sequence and a generator per client cost more than the entries themselves.

References
----------
Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011). O'Neill, "Developing a
seed_seq alternative" (2015).
"""

import numpy as np

_MULTIPLIERS = np.array([[0xD2E7470EE14C6C93], [0xCA5A826395121157]], dtype=np.uint64)
_KEY_STEPS = np.array([[0x9E3779B97F4A7C15], [0xBB67AE8584CAA73B]], dtype=np.uint64)
_ROUNDS = 10
_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)
_FACTOR_LOW, _FACTOR_HIGH = _MULTIPLIERS & _LOW, _MULTIPLIERS >> _HALF
_LANES = 4  # 64-bit words of one block
_CHUNK = 8192  # entries worked on at once, so that they stay in the cache

_POOL = 4  # 32-bit words of a seed sequence's pool


def philox_words(keys, positions):
    """Raw 64-bit words of streams, each at one position.

    Parameters
    ----------
    keys : ndarray of shape (n, 2), uint64
        The key of every entry's stream, see `philox_keys`.
    positions : ndarray of shape (n,), integers >= 0
        Position of every entry in its stream, in any order.

    Returns
    -------
    words : ndarray of shape (n,), uint64
        What ``Philox.random_raw`` of a fresh generator with this key gives at this position.
    """
    words = np.empty(len(positions), dtype=np.uint64)
    for start in range(0, len(positions), _CHUNK):
        part = slice(start, start + _CHUNK)
        block, lane = np.divmod(positions[part].astype(np.uint64), np.uint64(_LANES))
        four = _block(np.ascontiguousarray(keys[part].T), block)
        words[part] = four[lane.astype(np.intp), np.arange(len(lane))]
    return words


def _block(key, block):
    """The four words of given blocks, ndarray of shape (4, n)."""
    # words 0 and 2 of the counter, and words 1 and 3; NumPy counts up before it makes a block
    even, odd = np.zeros((2, 2, len(block)), dtype=np.uint64)
    even[0] = block + np.uint64(1)
    for step in range(_ROUNDS):
        if step:
            key = key + _KEY_STEPS
        high, low = _product(even)
        even, odd = high[::-1] ^ odd ^ key, low[::-1]
    return np.stack([even[0], odd[0], even[1], odd[1]])


def _product(words):
    """High and low 64 bits of the products with the two multipliers, from products of 32-bit halves."""
    low, high = words & _LOW, words >> _HALF
    middle = high * _FACTOR_LOW + (low * _FACTOR_LOW >> _HALF)
    other = low * _FACTOR_HIGH + (middle & _LOW)
    return high * _FACTOR_HIGH + (middle >> _HALF) + (other >> _HALF), words * _MULTIPLIERS


def philox_keys(words):
    """Keys that ``Philox(SeedSequence(words))`` has, for many lists of words.

    Parameters
    ----------
    words : ndarray of shape (n, n_words), uint32
        At least four words a list.

    Returns
    -------
    keys : ndarray of shape (n, 2), uint64
    """
    entropy = list(words.T)
    absorb = _Hash(0x43B0D7E5, 0x931E8875)
    pool = [absorb(word) for word in entropy[:_POOL]]
    for source in range(_POOL):
        for target in range(_POOL):
            if source != target:
                pool[target] = _mix(pool[target], absorb(pool[source]))
    for word in entropy[_POOL:]:
        pool = [_mix(kept, absorb(word)) for kept in pool]
    give = _Hash(0x8B51F9DD, 0x58F38DED)
    low0, high0, low1, high1 = (give(word).astype(np.uint64) for word in pool)
    return np.stack([low0 | high0 << _HALF, low1 | high1 << _HALF], axis=1)


class _Hash:
    """Multiplicative hash of 32-bit words whose constant moves on at every call."""

    def __init__(self, constant, multiplier):
        self.constant = constant
        self.multiplier = multiplier

    def __call__(self, word):
        word = word ^ np.uint32(self.constant)
        self.constant = self.constant * self.multiplier & 0xFFFFFFFF
        word = word * np.uint32(self.constant)
        return word ^ word >> np.uint32(16)


def _mix(one, other):
    mixed = one * np.uint32(0xCA01F9DD) - other * np.uint32(0x4973F715)
    return mixed ^ mixed >> np.uint32(16)
