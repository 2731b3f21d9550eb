"""Where relabeled rows put a boundary: a polynomial fitted to new labels near a point, with standard errors."""

from dataclasses import dataclass
from itertools import product

import numpy as np

DEGREE = 3
SIGMAS = 4


@dataclass(frozen=True)
class Crossing:
    """How far beyond the point, along the normal, the fitted excess is zero, and the standard error of that."""

    offset: float
    error: float


def crossing(samples, point, normal, radius, weights=(1.0,)):
    """The zero of the weighted mean of local fits.

    Parameters
    ----------
    samples : list of (ndarray of shape (n_rows, n_features), ndarray of shape (n_rows,))
        Features and values, one pair per client.
    point, normal : array-like of shape (n_features,)
    radius : float
        Rows farther from the point are left out.
    weights : sequence of float
        One per client.
    """
    fits = [_fit(x, values, np.asarray(point), np.asarray(normal), radius) for x, values in samples]
    value, slope = np.array(weights) @ np.array([fit[:2] for fit in fits])
    variance = np.square(weights) @ np.array([fit[2] for fit in fits])
    return Crossing(-value / slope, np.sqrt(variance) / abs(slope))


def _fit(x, values, point, normal, radius):
    """Value at the point, slope along the normal, and the variance of the value (for unequal variances)."""
    shift = (x - point) / radius
    near = np.einsum("ij,ij->i", shift, shift) < 1
    across = shift[near] @ _axes(normal)
    powers = [p for p in product(range(DEGREE + 1), repeat=across.shape[1]) if sum(p) <= DEGREE]
    A = np.column_stack([np.prod(across**p, axis=1) for p in map(np.array, powers)])
    inverse = np.linalg.inv(A.T @ A)
    coefficients = inverse @ (A.T @ values[near])
    residuals = values[near] - A @ coefficients
    constant, along = powers.index((0,) * across.shape[1]), powers.index((1,) + (0,) * (across.shape[1] - 1))
    influence = (A @ inverse[constant]) * residuals
    return coefficients[constant], coefficients[along] / radius, influence @ influence


def _axes(normal):
    """Columns: the unit normal, then the directions across it (one or two features)."""
    unit = normal / np.linalg.norm(normal)
    return unit[:, np.newaxis] if len(unit) == 1 else np.column_stack([unit, [-unit[1], unit[0]]])


def assert_crosses_at(
    point, clients, rng, *, normal=(1.0,), radius=0.3, n_rows=500_000, weights=(1.0,), pair=(0, 1)
):
    """Relabeled samples of the clients agree with a boundary at `point`, to four standard errors.

    Rows are drawn, relabeled and fitted; the share of the second class of the pair less that of the first is
    zero at the point. The error that the polynomial makes on exact values must be a small part of that, so that
    the standard error tells all. Returns the standard error.
    """
    samples, exact = [], []
    for client in clients:
        x, _, y_new = client.sample(n_rows, rng)
        new = client.new_posteriors(x)
        samples.append((x, (y_new == pair[1]) - (y_new == pair[0]).astype(float)))
        exact.append((x, new[:, pair[1]] - new[:, pair[0]]))
    found = crossing(samples, point, normal, radius, weights)
    bias = crossing(exact, point, normal, radius, weights).offset
    assert abs(bias) < 0.5 * found.error, (bias, found)
    assert abs(found.offset) < SIGMAS * found.error, found
    return found.error
