"""Algorithm 1 written row by row, as a reader of the paper would: the reference that speed is measured against."""

import math

import numpy as np


def relabel_rows(Q, y, tau, uniforms):
    """New labels of one client at the paper's setting, one row after the other.

    Parameters
    ----------
    Q : ndarray of shape (n_rows, n_classes)
    y : ndarray of shape (n_rows,), int
        Labels 0 to n_classes - 1.
    tau : float
    uniforms : ndarray of shape (n_rows, n_classes)

    Returns
    -------
    y_new : ndarray of shape (n_rows,), int
    """
    n_rows, n_classes = Q.shape
    counts = np.bincount(y, minlength=n_classes)
    spread = counts.max() - counts.min()
    v = 1 - (counts - counts.min()) / spread
    mean = np.stack([Q[y == c].mean(0) if counts[c] else np.zeros(n_classes) for c in range(n_classes)])
    std = np.stack(
        [Q[y == c].std(0, ddof=1) if counts[c] > 1 else np.ones(n_classes) for c in range(n_classes)]
    )
    z = np.empty_like(Q)
    for i in range(n_rows):
        z[i] = (Q[i] - mean[y[i]]) / std[y[i]]
    threshold = np.quantile(z, 1 - tau, axis=0)
    y_new = y.copy()
    for i in range(n_rows):
        rho = np.zeros(n_classes)
        for j in range(n_classes):
            weight = max(v[j] - v[y[i]], 0.0)
            rho[j] = max(math.tanh(z[i, j] - threshold[j]) * weight, 0.0)
        if (uniforms[i] < rho).any():
            y_new[i] = rho.argmax()
    return y_new
