"""Logit adjustment after training, on posteriors."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import softmax

from fedrela_sk._checks import check_posteriors
from fedrela_sk._typing import Array
from fedrela_sk.losses._checks import check_counts, check_length, check_strength


def adjust_posteriors(posteriors: ArrayLike, counts: ArrayLike, tau: float = 1.0) -> Array:
    """Posteriors proportional to Q_c / pi_c^tau, pi the shares of the classes in training.

    For a net trained with plain cross-entropy: with tau = 1 these are the posteriors for classes that are equally
    common. The answer argmax Q_c / pi_c^tau is that of the logits z - tau log pi. For a net trained with
    `LogitAdjustedLoss` or `BalancedSoftmaxLoss` it would correct twice.

    Parameters
    ----------
    posteriors : array-like of shape (n_rows, n_classes)
        Checked as everywhere in the package; one column p stands for (1 - p, p). A zero stays exactly zero
        (as does an entry that is negative within the tolerance).
    counts : array-like of shape (n_classes,)
        Rows of each class in training; scaling all of them changes nothing. An absent class counts as the
        rarest present one.
    tau : float >= 0, default=1.0
        0 only divides each row by its sum.

    Returns
    -------
    posteriors : ndarray of shape (n_rows, n_classes), float64
        Rows sum to one.

    Raises
    ------
    PosteriorError
        If `posteriors` are not posteriors.
    ValueError
        If `counts` or `tau` are invalid, or there is not one count per column.

    References
    ----------
    Menon et al., Long-tail learning via logit adjustment, ICLR 2021.

    Examples
    --------
    >>> from fedrela_sk.losses import adjust_posteriors
    >>> adjust_posteriors([[0.9, 0.1], [1.0, 0.0]], counts=[90, 10]).round(3).tolist()
    [[0.5, 0.5], [1.0, 0.0]]
    """
    posteriors = check_posteriors(posteriors)
    counts = check_counts(counts)
    check_length(counts, posteriors.shape[1])
    tau = check_strength("tau", tau)
    rarest = counts[counts > 0].min()
    logs = np.full(posteriors.shape, -np.inf)
    np.log(posteriors, out=logs, where=posteriors > 0)
    return softmax(logs - tau * np.log(np.where(counts > 0, counts, rarest) / rarest), axis=1)
