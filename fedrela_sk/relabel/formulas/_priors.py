"""Prior weights: from class counts to how much rarer one class is than another at this client."""

import numpy as np

# counts that differ by less than this share of the largest are equal: it is rounding of summed weights
EQUAL_COUNTS = 1e-9


def class_counts(codes, n_classes, weights=None):
    """Rows, or summed weights, of every class; 0 for an absent class.

    Parameters
    ----------
    codes : ndarray of shape (n_rows,), int
    n_classes : int
    weights : ndarray of shape (n_rows,) or None

    Returns
    -------
    counts : ndarray of shape (n_classes,), float64
    """
    return np.bincount(codes, weights=weights, minlength=n_classes).astype(np.float64)


def prior_weights(counts, targets=None):
    """``v = 1 - minmax(counts)``: 1 for the rarest class of this client, 0 for the most frequent.

    Absent classes count 0 and so are the rarest. Where all counts are equal the paper's minmax is 0/0; v is
    then 1 for every class, as in the released code: no class is rarer than another, nothing is relabeled.

    Parameters
    ----------
    counts : ndarray of shape (..., n_classes)
        Local counts, or sums of weights, over all classes; one client per line.
    targets : ndarray of shape (n_classes,), bool, or None
        Classes that exist anywhere; the others are not compared, and have v = 1. None means all.

    Returns
    -------
    v : ndarray of shape (..., n_classes), float64, in [0, 1]

    References
    ----------
    FedReLa (arXiv 2606.26037), prior weights of section 3.1.
    """
    compared = counts if targets is None else counts[..., targets]
    low, high = compared.min(axis=-1, keepdims=True), compared.max(axis=-1, keepdims=True)
    equal = high - low <= EQUAL_COUNTS * high
    v = np.where(equal, 1.0, 1.0 - (counts - low) / np.where(equal, 1.0, high - low))
    return v if targets is None else np.where(targets, v, 1.0)


def rarity_gains(v):
    """``w_l[j] = max(v[j] - v[l], 0)``: how much rarer class j is than the own class l.

    Parameters
    ----------
    v : ndarray of shape (n_classes,)
        Prior weights.

    Returns
    -------
    w : ndarray of shape (n_classes, n_classes), float64, in [0, 1]
        Row: own class; 0 on the diagonal and for every class that is no rarer.
    """
    return np.maximum(v[np.newaxis, :] - v[:, np.newaxis], 0.0)
