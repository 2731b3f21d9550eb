"""Normalization: how a value is compared with the others of its own class and column (equations 2 to 4).

Every normalization is center, scale and strength. A value becomes ``z = (value - center) / scale``, 0 where the
scale is 0; above the threshold t, ``strength(z, t)`` times the gain in rarity is rho. Centers and scales are those
of groups of rows: a group is a class of one client. The sums are made by `Groups`, in NumPy or in torch.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

# the squares of smaller ranges leave float64
TINY_RANGE = 1e-140
SMALLEST = 5e-324
# a softmax passes on an error of its logits, which is that many units in the last place of them
UNITS = 32
FLOAT64_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Rounding:
    """How far apart values may be that are equal but for the rounding of the arithmetic that made them.

    One row that a net sees in batches of two widths gives two posteriors: sums inside the net are made in
    another order. The posterior q = exp(logit - ...) then moves by a few units in the last place of its logit,
    which is about |ln q|.

    Attributes
    ----------
    eps : float
        Unit in the last place of that arithmetic; 0 lets nothing but equal values be equal.
    scores : bool
        The values are scores, not posteriors.
    """

    eps: float = 0.0
    scores: bool = False

    def reach(self, low, high):
        """``high - low``, and 0 where that is rounding.

        Parameters
        ----------
        low, high : ndarray
            Smallest and largest value of every group.

        Returns
        -------
        reach : ndarray of the same shape, >= 0
        """
        gap = high - low
        return np.where(gap > self._bound(low, high), gap, 0.0)

    def _bound(self, low, high):
        if self.scores:
            return UNITS * self.eps * np.maximum(np.abs(low), np.abs(high))
        size = np.abs(np.log(np.maximum(high, SMALLEST)))
        # posteriors may lie below 0 by the tolerance of their rows: where none is above, all count as 0
        return np.where(high > 0, UNITS * self.eps * (1.0 + size) * high, np.inf)


EXACT = Rounding(scores=True)


def rounding_of(dtype, scores):
    """`Rounding` of values that came in a dtype; integers and wider floats count as float64."""
    narrower = np.dtype(dtype) in (np.float16, np.float32)
    return Rounding(float(np.finfo(dtype).eps) if narrower else FLOAT64_EPS, scores)


@dataclass(frozen=True)
class Normalization:
    """One row of the table.

    Attributes
    ----------
    statistics : callable (values, groups, ddof, min_scale, rounding) -> (center, scale)
        Per group and column. A scale of 0 says that z is 0 for every row.
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
    strength: Callable
    rising: Callable
    unit: bool = False
    thresholded: bool = True


def mean_and_std(values, groups, ddof, min_scale, rounding=EXACT):
    """Mean and standard deviation of every group.

    Parameters
    ----------
    values : ndarray or tensor of shape (n_rows, n_columns)
    groups : Groups
        Of the rows, with their weights. W is the sum of a group's weights.
    ddof : int
        The divisor is W - ddof; where that is not positive the spread is unknown and the scale 0.
    min_scale : float
        Floor on positive spreads.
    rounding : Rounding
        Values no further apart count as equal.

    Returns
    -------
    mean, scale : ndarray of shape (n_groups, n_columns)
        The scale is exactly 0 where all values are equal: largest and smallest are compared, since a computed
        standard deviation of equal values is rounding noise.
    """
    low, high = groups.range(values)
    reach = rounding.reach(low, high)
    mean, std = _moments(values, groups, ddof)
    differ = reach > 0
    tiny = differ & (reach < TINY_RANGE)
    if tiny.any():  # stretched by exact powers of two first
        base, power = np.where(tiny, low, 0.0), np.where(tiny, np.frexp(reach)[1], 0)
        stretched_mean, stretched_std = _moments(groups.stretch(values, base, power), groups, ddof)
        mean = np.where(tiny, base + np.ldexp(stretched_mean, power), mean)
        std = np.where(tiny, np.ldexp(stretched_std, power), std)
    return mean, np.where(differ & (std > 0), np.maximum(std, min_scale), 0.0)


def _moments(values, groups, ddof):
    """Mean and standard deviation of every group, the latter 0 where no more than `ddof` rows are there."""
    total = groups.total
    mean = groups.sum(values) / total
    deviations = groups.deviations(values, mean)
    first, second = groups.sum(deviations), groups.sum(deviations * deviations)
    mean = mean + first / total  # `first` is what rounding left of it
    divisor = np.where(total > ddof, total - ddof, np.inf)
    return mean, np.sqrt(np.maximum(second - first**2 / total, 0.0) / divisor)


def lowest_and_range(values, groups, ddof, min_scale, rounding=EXACT):
    """Smallest value and range of every group. Repeating rows changes neither; `ddof` is not used."""
    low, high = groups.range(values)
    reach = rounding.reach(low, high)
    return low, np.where(reach > 0, np.maximum(reach, min_scale), 0.0)


def zero_and_one(values, groups, ddof, min_scale, rounding=EXACT):
    """Center 0 and scale 1: the value itself."""
    shape = (groups.n_groups, values.shape[1])
    return np.zeros(shape), np.ones(shape)


def standardize(values, center, scale, unit=False):
    """``(values - center) / scale``, and 0 where the scale is 0.

    Parameters
    ----------
    values : ndarray of shape (n_rows, n_columns) or (n_entries,)
    center, scale : ndarray of shape (n_columns,) or (n_entries,)
    unit : bool
        Cut the result to [0, 1].

    Returns
    -------
    z : ndarray of the shape of `values`, float64
    """
    flat = scale == 0
    z = values - center
    z /= np.where(flat, 1.0, scale)
    z[..., flat] = 0.0
    return np.clip(z, 0.0, 1.0, out=z) if unit else z


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
    "zscore_tanh": Normalization(mean_and_std, strength=excess, rising=rising_excess),
    "minmax": Normalization(lowest_and_range, strength=share, rising=share, unit=True),
    "none": Normalization(zero_and_one, strength=probability, rising=probability, thresholded=False),
}
