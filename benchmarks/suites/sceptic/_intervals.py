"""Means over seeds, and paired intervals of differences."""

import numpy as np
from scipy.stats import t


def paired_interval(values, reference, overlap):
    """Mean difference and half the width of its 95 % interval, from values of the same seeds.

    With `overlap` > 0 seeds cut the same rows anew, and the variance of the mean is s^2 (1/n + overlap).

    Parameters
    ----------
    values, reference : array-like of shape (n_seeds,)
    overlap : float
        Test rows over training rows; 0 where seeds are independent.

    Returns
    -------
    mean, half : float
        `half` is NaN for a single seed.

    References
    ----------
    Nadeau and Bengio, "Inference for the generalization error", Machine Learning 52, 2003.
    """
    differences = np.asarray(values, dtype=float) - np.asarray(reference, dtype=float)
    n = len(differences)
    if n < 2:
        return float(differences.mean()), float("nan")
    spread = differences.std(ddof=1) * np.sqrt(1 / n + overlap)
    return float(differences.mean()), float(t.ppf(0.975, n - 1) * spread)
