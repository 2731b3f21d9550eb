"""What the posteriors of one class are compared with: z-scores, min-max shares, or nothing at all.

Every normalization is centre, scale and strength. A row's value becomes ``z = (value - centre) / scale``, 0 where
scale is 0; where z exceeds the threshold t, ``strength(z, t)`` times the gain in rarity is rho.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Normalization:
    """One row of the table below.

    Attributes
    ----------
    statistics : callable (values, weights, ddof, min_scale) -> (centre, scale)
        Of the rows of one class, per column. A scale of 0 says that z is 0 for every row.
    strength : callable (z, t) -> ndarray in [0, 1]
        rho before the gain in rarity, for values above their threshold; increasing in z.
    rising : callable (z, t) -> ndarray in [0, 1]
        The same in arithmetic that never decreases in z when rounded: what two classes need.
    unit : bool
        z is cut to [0, 1], which only rows outside `fit` need.
    thresholded : bool
        False: every row is above the threshold (unless tau = 0).
    """

    statistics: Callable
    strength: Callable
    rising: Callable
    unit: bool = False
    thresholded: bool = True


def standardize(values, centre, scale, unit=False):
    """``(values - centre) / scale``, and 0 in columns whose scale is 0.

    Parameters
    ----------
    values : ndarray of shape (n_rows, n_columns)
    centre, scale : ndarray of shape (n_columns,)
    unit : bool
        Cut the result to [0, 1].

    Returns
    -------
    z : ndarray of shape (n_rows, n_columns), float64
    """
    flat = scale == 0
    z = (values - centre) / np.where(flat, 1.0, scale)
    z[..., flat] = 0.0
    return np.clip(z, 0.0, 1.0, out=z) if unit else z


def mean_and_std(values, weights, ddof, min_scale):
    """Mean and standard deviation of each column; equations 2 and 3 of the paper.

    Parameters
    ----------
    values : ndarray of shape (n_rows, n_columns)
        Rows of one class.
    weights : ndarray of shape (n_rows,) or None
        Repetitions; None means one each. W is their sum.
    ddof : int
        The divisor is W - ddof; the spread is unknown, and its scale 0, where that is not positive.
    min_scale : float
        Floor on positive spreads.

    Returns
    -------
    mean, scale : ndarray of shape (n_columns,)
        Scale is exactly 0 where all values are equal: largest and smallest are compared, since a computed
        standard deviation of equal values is rounding noise.
    """
    low, reach = values.min(axis=0), np.ptp(values, axis=0)
    mean, std = _moments(values, weights, ddof)
    # squares of very small spreads leave float64: there the columns are stretched first, by exact powers of two
    tiny = (reach > 0) & (reach < 1e-140)
    if tiny.any():
        power = np.frexp(reach[tiny])[1]
        stretched = np.ldexp(values[:, tiny] - low[tiny], -power)
        mean_tiny, std_tiny = _moments(stretched, weights, ddof)
        mean[tiny] = low[tiny] + np.ldexp(mean_tiny, power)
        std[tiny] = np.ldexp(std_tiny, power)
    known = (reach > 0) & (std > 0)
    return np.where(reach > 0, mean, low), np.where(known, np.maximum(std, min_scale), 0.0)


def _moments(values, weights, ddof):
    if weights is None:
        weights = np.ones(len(values))
    total = weights.sum()
    mean = np.einsum("i,ij->j", weights, values) / total
    deviations = values - mean
    rest = np.einsum("i,ij->j", weights, deviations) / total  # what rounding left of the mean
    squares = np.einsum("i,ij,ij->j", weights, deviations, deviations) - total * rest**2
    divisor = total - ddof
    variance = np.maximum(squares, 0.0) / divisor if divisor > 0 else np.zeros_like(squares)
    return mean + rest, np.sqrt(variance)


def lowest_and_range(values, weights, ddof, min_scale):
    """Smallest value and range of each column; weights repeat rows and so change neither, ddof is not used."""
    low, reach = values.min(axis=0), np.ptp(values, axis=0)
    return low, np.where(reach > 0, np.maximum(reach, min_scale), 0.0)


def zero_and_one(values, weights, ddof, min_scale):
    """Centre 0 and scale 1: the value itself."""
    return np.zeros(values.shape[1]), np.ones(values.shape[1])


def rising_tanh(x):
    """tanh of positive numbers, correct to 1e-14 and never decreasing from one float to a larger one.

    Library implementations of tanh are accurate but may step back by one unit in the last place. Here ``e^2x - 1``
    is a polynomial with positive coefficients followed by five squarings, and every operation keeps order.
    """
    u = np.minimum(x, 20.0) / 16.0  # 2x / 2**5
    m = np.ones_like(u)
    for k in range(24, 1, -1):
        m = 1.0 + u / k * m
    m = u * m
    for _ in range(5):
        m = m * (m + 2.0)  # (1 + m)^2 - 1
    with np.errstate(divide="ignore"):
        return 1.0 / (1.0 + 2.0 / m)


def _own_value(z, t):
    return z


def _clipped(z, t):
    return np.clip(z, 0.0, 1.0)


# "zscore_tanh": the paper. "minmax": our reading of its Table 4. "none": Table 12, "without z-score".
NORMALIZATIONS = {
    "zscore_tanh": Normalization(mean_and_std, lambda z, t: np.tanh(z - t), lambda z, t: rising_tanh(z - t)),
    "minmax": Normalization(lowest_and_range, _own_value, _own_value, unit=True),
    "none": Normalization(zero_and_one, _clipped, _clipped, thresholded=False),
}
