"""Means and spreads of the posteriors of one class, and the z-scores made of them (equations 2 to 4)."""

from dataclasses import dataclass

import numpy as np

# the squares of smaller ranges leave float64
TINY_RANGE = 1e-140
# a softmax passes on an error of its logits, which is that many units in the last place of them
UNITS = 32


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
        return np.where(high - low > self._bound(low, high), high - low, 0.0)

    def _bound(self, low, high):
        if self.scores:
            return UNITS * self.eps * np.maximum(np.abs(low), np.abs(high))
        positive = np.where(high > 0, high, 1.0)
        # posteriors may lie below 0 by the tolerance of their rows: where none is above, all count as 0
        return np.where(high > 0, UNITS * self.eps * (1.0 + np.abs(np.log(positive))) * high, np.inf)


EXACT = Rounding(scores=True)


def rounding_of(dtype, scores):
    """`Rounding` of values that came in a dtype; integers and wider floats count as float64."""
    float64 = np.finfo(np.float64).eps
    eps = max(float(np.finfo(dtype).eps), float64) if np.dtype(dtype).kind == "f" else float64
    return Rounding(eps, scores)


def standardize(values, centre, scale, unit=False):
    """``(values - centre) / scale``, and 0 where the scale is 0.

    Parameters
    ----------
    values : ndarray of shape (n_rows, n_columns) or (n_entries,)
    centre, scale : ndarray of shape (n_columns,) or (n_entries,)
    unit : bool
        Cut the result to [0, 1].

    Returns
    -------
    z : ndarray of the shape of `values`, float64
    """
    flat = scale == 0
    z = values - centre
    z /= np.where(flat, 1.0, scale)
    z[..., flat] = 0.0
    return np.clip(z, 0.0, 1.0, out=z) if unit else z


def mean_and_std(values, weights, ddof, min_scale, rounding=EXACT):
    """Mean and standard deviation of each column.

    Parameters
    ----------
    values : ndarray of shape (n_rows, n_columns)
        Rows of one class.
    weights : ndarray of shape (n_rows,) or None
        Repetitions; None means one each. W is their sum.
    ddof : int
        The divisor is W - ddof; where that is not positive the spread is unknown and the scale 0.
    min_scale : float
        Floor on positive spreads.
    rounding : Rounding
        Values no further apart count as equal.

    Returns
    -------
    mean, scale : ndarray of shape (n_columns,)
        The scale is exactly 0 where all values are equal: largest and smallest are compared, since a computed
        standard deviation of equal values is rounding noise.
    """
    low = values.min(axis=0)
    reach = rounding.reach(low, values.max(axis=0))
    mean, std = _moments(values, weights, ddof)
    tiny = (reach > 0) & (reach < TINY_RANGE)
    if tiny.any():  # stretched by exact powers of two first
        power = np.frexp(reach[tiny])[1]
        stretched = np.ldexp(values[:, tiny] - low[tiny], -power)
        mean_tiny, std_tiny = _moments(stretched, weights, ddof)
        mean[tiny] = low[tiny] + np.ldexp(mean_tiny, power)
        std[tiny] = np.ldexp(std_tiny, power)
    spread = (reach > 0) & (std > 0)
    return mean, np.where(spread, np.maximum(std, min_scale), 0.0)


def _moments(values, weights, ddof):
    if weights is None:
        total, mean = len(values), values.sum(axis=0) / len(values)
        deviations = values - mean
        first, second = deviations.sum(axis=0), np.einsum("ij,ij->j", deviations, deviations)
    else:
        total = weights.sum()
        mean = np.einsum("i,ij->j", weights, values) / total
        deviations = values - mean
        first = np.einsum("i,ij->j", weights, deviations)
        second = np.einsum("i,ij,ij->j", weights, deviations, deviations)
    mean = mean + first / total  # `first` is what rounding left of it
    if total <= ddof:
        return mean, np.zeros_like(mean)
    return mean, np.sqrt(np.maximum(second - first**2 / total, 0.0) / (total - ddof))
