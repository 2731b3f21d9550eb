"""Data and helpers of the splitter tests."""

import numpy as np

# the counts of CIFAR-10-LT with imbalance factor 50
LONG_TAIL = np.array([5000, 3237, 2096, 1357, 878, 568, 368, 238, 154, 100])


def labels(counts, seed=0):
    """Shuffled integer labels with these counts."""
    return np.random.default_rng(seed).permutation(np.repeat(np.arange(len(counts)), counts))


def clients(splitter, y):
    """Test sets only."""
    return [test for _, test in splitter.split(np.zeros(len(y)), y)]


def count_table(splitter, y):
    """Rows of each class at each client that has rows, shape (n_clients, n_classes)."""
    return np.stack([np.bincount(y[test], minlength=y.max() + 1) for test in clients(splitter, y)])
