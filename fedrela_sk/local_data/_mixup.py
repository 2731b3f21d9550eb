"""mixup (Zhang et al. 2018): rows and labels of a batch are mixed with those of another one."""

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from fedrela_sk._sklearn import Interval
from fedrela_sk._typing import Array


@dataclass(frozen=True)
class Mix:
    """How the rows of one batch are mixed.

    Attributes
    ----------
    partner : ndarray of shape (n_rows,), int64
        Row of the batch that each row is mixed with.
    x_share : float in [0, 1]
        Share of the row itself in its features; the rest is its partner's.
    y_share : ndarray of shape (n_rows,), float64, in [0, 1]
        Share of its own label in the loss.
    """

    partner: np.ndarray
    x_share: float
    y_share: np.ndarray


class Mixup(BaseEstimator):
    """``x~ = l x + (1 - l) x', loss = l loss(., y) + (1 - l) loss(., y')`` with l ~ Beta(alpha, alpha).

    One l for every batch, partners by a random permutation of the batch, as in the authors' code. Pass it as
    ``FederatedClassifier(local_data=Mixup())``: each client mixes its own rows only.

    Parameters
    ----------
    alpha : float >= 0, default=1.0
        0: l = 1, nothing is mixed.

    References
    ----------
    Zhang, Cisse, Dauphin, Lopez-Paz, "mixup: Beyond Empirical Risk Minimization", ICLR 2018, arXiv 1710.09412.

    Examples
    --------
    >>> import numpy as np
    >>> from fedrela_sk.local_data import Mixup
    >>> mix = Mixup(alpha=1.0).mix(np.array([0, 1, 1]), np.array([1.0, 2.0]), np.random.default_rng(0))
    >>> sorted(mix.partner.tolist()), bool((mix.y_share == mix.x_share).all())
    ([0, 1, 2], True)
    """

    _parameter_constraints = {"alpha": [Interval(Real, 0, None, closed="left")]}

    def __init__(self, alpha: float = 1.0) -> None:
        self.alpha = alpha

    def mix(self, y: Array, counts: Array, stream: np.random.Generator) -> Any:
        """The `Mix` of one batch.

        Parameters
        ----------
        y : ndarray of shape (n_rows,), int64
            Labels of the batch.
        counts : ndarray of shape (n_classes,)
            The client's rows of each class.
        stream : numpy.random.Generator
        """
        share = 1.0 if self.alpha == 0 else float(stream.beta(self.alpha, self.alpha))
        partner = stream.permutation(len(y))
        return Mix(partner, share, self._label_shares(counts, y, y[partner], share))

    def _label_shares(self, counts, y, other, share):
        return np.full(len(y), share)
