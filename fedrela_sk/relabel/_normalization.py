"""What a posterior is compared with inside its own class: the table of normalizations.

Every normalization is centre, scale and strength. A value becomes ``z = (value - centre) / scale``, 0 where the
scale is 0; above the threshold t, ``strength(z, t)`` times the gain in rarity is rho.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fedrela_sk.relabel._groups import group_lowest_and_range, group_mean_and_std, group_zero_and_one
from fedrela_sk.relabel._zscore import EXACT, mean_and_std


@dataclass(frozen=True)
class Normalization:
    """One row of the table.

    Attributes
    ----------
    statistics : callable (values, weights, ddof, min_scale, rounding) -> (centre, scale)
        Of the rows of one class, per column. A scale of 0 says that z is 0 for every row.
    of_groups : callable (values, groups, ddof, min_scale, rounding) -> (centre, scale)
        The same of one column, per group of rows.
    strength : callable (z, t) -> ndarray in [0, 1]
        rho before the gain in rarity, for values above their threshold; increasing in z.
    rising : callable (z, t) -> ndarray in [0, 1]
        The same in arithmetic that never decreases in z when rounded: what two classes need.
    unit : bool
        z is cut to [0, 1], which only rows outside `fit` need.
    thresholded : bool
        False: tau is not used (but tau = 0 still relabels nothing), and the threshold is 0.
    """

    statistics: Callable
    of_groups: Callable
    strength: Callable
    rising: Callable
    unit: bool = False
    thresholded: bool = True


def lowest_and_range(values, weights, ddof, min_scale, rounding=EXACT):
    """Smallest value and range of each column. Repeating rows changes neither; `ddof` is not used."""
    low = values.min(axis=0)
    reach = rounding.reach(low, values.max(axis=0))
    return low, np.where(reach > 0, np.maximum(reach, min_scale), 0.0)


def zero_and_one(values, weights, ddof, min_scale, rounding=EXACT):
    """Centre 0 and scale 1: the value itself."""
    return np.zeros(values.shape[1]), np.ones(values.shape[1])


def excess(z, t):
    """``tanh(z - t)``."""
    return np.tanh(z - t)


def rising_excess(z, t):
    """``tanh(z - t)`` for z > t, correct to 1e-14 and never decreasing from one float to a larger one.

    Library implementations of tanh are accurate but may step back by one unit in the last place. Here
    ``m = e^2x - 1`` is a polynomial with positive coefficients followed by five squarings of 1 + m, and
    ``tanh x = 1 / (1 + 2 / m)``: every operation keeps order when rounded.
    """
    u = np.minimum(z - t, 20.0) / 16.0  # 2 x / 2**5; tanh(20) is 1
    m = np.ones_like(u)
    for k in range(24, 1, -1):
        m = 1.0 + u / k * m
    m = u * m
    for _ in range(5):
        m = m * (m + 2.0)
    with np.errstate(over="ignore", divide="ignore"):
        return 1.0 / (1.0 + 2.0 / m)


def share(z, t):
    """The min-max share itself."""
    return z


def probability(z, t):
    """The posterior itself; rows may leave [0, 1] by the tolerance of their sums."""
    return np.clip(z, 0.0, 1.0)


# "zscore_tanh": the paper. "minmax": our reading of its Table 4. "none": its Table 12, "without z-score".
NORMALIZATIONS = {
    "zscore_tanh": Normalization(mean_and_std, group_mean_and_std, strength=excess, rising=rising_excess),
    "minmax": Normalization(
        lowest_and_range, group_lowest_and_range, strength=share, rising=share, unit=True
    ),
    "none": Normalization(
        zero_and_one, group_zero_and_one, strength=probability, rising=probability, thresholded=False
    ),
}
