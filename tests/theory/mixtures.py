"""Classes with Gaussian features, whose densities and posteriors are known exactly."""

from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from scipy.stats import multivariate_normal

# rows that the population of `fit_on_population` stands for
POPULATION = 1e6


@dataclass(frozen=True)
class Mixture:
    """Class j has prior ``priors[j]`` and density P_j, normal with ``means[j]`` and ``covariances[j]``.

    Attributes
    ----------
    priors : ndarray of shape (n_classes,)
    means : ndarray of shape (n_classes, n_features)
    covariances : ndarray of shape (n_classes, n_features, n_features)
    """

    priors: np.ndarray
    means: np.ndarray
    covariances: np.ndarray

    def densities(self, x):
        """P_j(x), ndarray of shape (n_rows, n_classes)."""
        normals = zip(self.means, self.covariances, strict=True)
        return np.column_stack([multivariate_normal(*normal).pdf(x).reshape(-1) for normal in normals])

    def marginal(self, x):
        """m(x) = sum_j priors[j] P_j(x), ndarray of shape (n_rows,)."""
        return self.densities(x) @ self.priors

    def posteriors(self, x):
        """priors[j] P_j(x) / m(x), ndarray of shape (n_rows, n_classes)."""
        joint = self.densities(x) * self.priors
        return joint / joint.sum(axis=1, keepdims=True)

    def sample(self, n_rows, rng):
        """Features (n_rows, n_features) and labels (n_rows,)."""
        y = rng.choice(len(self.priors), n_rows, p=self.priors)
        x = rng.normal(size=(n_rows, self.means.shape[1]))
        for label, covariance in enumerate(self.covariances):
            own = y == label
            x[own] = self.means[label] + x[own] @ np.linalg.cholesky(covariance).T
        return x, y

    def with_priors(self, *priors):
        return replace(self, priors=np.array(priors))


def two_normals(minority, distance=2.0):
    """The majority, class 0, is N(0, 1), the minority, class 1, N(distance, 1)."""
    return Mixture(np.array([1 - minority, minority]), np.array([[0.0], [distance]]), np.ones((2, 1, 1)))


THREE = Mixture(
    np.array([0.7, 0.2, 0.1]),
    np.array([[0.0, 0.0], [1.5, 0.5], [0.5, 1.8]]),
    np.array([[[1.0, 0.3], [0.3, 1.0]], [[0.6, 0.0], [0.0, 1.2]], [[0.8, -0.2], [-0.2, 0.5]]]),
)


def grid_of(mixture, step):
    """Points that cover all classes out to six standard deviations, (n_points, n_features)."""
    reach = 6 * np.sqrt(np.diagonal(mixture.covariances, axis1=1, axis2=2).max(axis=0))
    low, high = mixture.means.min(axis=0) - reach, mixture.means.max(axis=0) + reach
    return np.array(list(product(*(np.arange(a, b, step) for a, b in zip(low, high, strict=True)))))


def fit_on_population(relabeler, mixture, posteriors=None, step=0.002):
    """Fit on the mixture itself instead of a sample: points of a grid, weighted by their density.

    `posteriors` are those that the model gives, by default the true ones.
    """
    x = grid_of(mixture, step)
    weights = POPULATION * step ** x.shape[1] * mixture.densities(x) * mixture.priors
    Q = (posteriors or mixture.posteriors)(x)
    n_classes = len(mixture.priors)
    y = np.repeat(np.arange(n_classes), len(x))
    return relabeler.fit(np.tile(Q, (n_classes, 1)), y, sample_weight=weights.T.ravel())
