"""Local class counts to prior weights: how much rarer than another class a class is at this client."""

import numpy as np

# weighted counts that differ by less than this share of the largest are equal: it is rounding of the sums
EQUAL_COUNTS = 1e-9


def rows_by_label(codes):
    """The rows of every label that occurs, labels and rows ascending.

    Parameters
    ----------
    codes : ndarray of shape (n_rows,), int
        Positions of the labels in the class list.

    Returns
    -------
    groups : list of (int, ndarray of int)
        Label and its rows.
    """
    order = np.argsort(codes, kind="stable")
    labels, starts = np.unique(codes[order], return_index=True)
    return list(zip(labels.tolist(), np.split(order, starts[1:]), strict=True))


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


def prior_weights(counts):
    """``v = 1 - minmax(counts)``: 1 for the rarest class of this client, 0 for the most frequent.

    Absent classes count 0 and so are the rarest. Where all counts are equal v is 1 for every class, so no class
    is rarer than another and nothing is relabelled (the paper leaves 0/0 open; this is the released code's value).

    Parameters
    ----------
    counts : ndarray of shape (n_classes,)
        Local counts, or sums of weights, over all classes.

    Returns
    -------
    v : ndarray of shape (n_classes,), float64, in [0, 1]

    References
    ----------
    FedReLa (arXiv 2606.26037), equations 5 and 6.
    """
    low, high = counts.min(), counts.max()
    if high - low <= EQUAL_COUNTS * high:
        return np.ones(len(counts))
    return 1.0 - (counts - low) / (high - low)


def rarity_gain(v, label):
    """``w_label[j] = max(v[j] - v[label], 0)``: how much rarer class j is than class `label`.

    Returns
    -------
    w : ndarray of shape (n_classes,), float64, in [0, 1]
        0 for `label` itself and for every class that is no rarer.
    """
    return np.maximum(v - v[label], 0.0)
