"""What all rules of participation share: their parameters, their checks, their answer."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from fedrela_sk._checks import as_float
from fedrela_sk._sklearn import Interval
from fedrela_sk._typing import Array


@dataclass(frozen=True)
class Choice:
    """The clients of one round.

    Attributes
    ----------
    groups : tuple of tuples of int
        Positions of clients. Those of one group train one after the other, the model being handed on; the
        groups train side by side. Ordinary clients are groups of one.
    weights : tuple of float, one per group, or None
        What the groups' models are averaged with; None for the algorithm's usual weights, added up in a group.
    total : float
        The averaged displacement is multiplied with it: the sum of the absolute weights. 1 is the ordinary
        mean.

    Raises
    ------
    ValueError
        If nobody takes part, a group is empty, a client is named twice, or weights and total are no weights.
    """

    groups: tuple
    weights: tuple | None = None
    total: float = 1.0

    def __post_init__(self):
        positions = [position for group in self.groups for position in group]
        if not positions or not all(self.groups):
            raise ValueError(
                f"A round needs at least one group, and every group a client, got {self.groups}."
            )
        if len(set(positions)) < len(positions):
            raise ValueError(f"A client takes part in a round once: give it more weight, got {self.groups}.")
        if self.weights is not None:
            _check_weights(self.weights, len(self.groups))
        if not 0 < self.total < math.inf:
            raise ValueError(f"total must be finite and > 0, got {self.total}.")


def _check_weights(weights, n_groups):
    if len(weights) != n_groups:
        raise ValueError(f"Every group needs one weight: got {len(weights)} weights for {n_groups} groups.")
    if not all(0 <= weight < math.inf for weight in weights) or not sum(weights) > 0:
        raise ValueError(f"Weights of groups must be finite, >= 0 and not all 0, got {weights}.")


class Participation(BaseEstimator, ABC):
    """Base of the rules by which clients take part; children write only `_choose`.

    A rule is a `BaseEstimator`: its constructor stores its parameters, so that `GridSearchCV` over
    ``participation__share`` works. All chance comes from the stream that is passed in.

    Attributes
    ----------
    needs_counts : bool
        Whether the clients that are asked reveal their class histograms to the server, original labels,
        never the new ones.
    trains_all : bool
        Whether all clients of `choose` train first and report a norm, upon which `select` picks those that
        send their update. Derived: where a rule has a `select`.
    """

    needs_counts = False

    @property
    def trains_all(self) -> Any:
        """Whether there is a `select` to call."""
        return callable(getattr(type(self), "select", None))

    _parameter_constraints = {"share": [Interval(Real, 0, 1, closed="right")]}

    def choose(
        self, round: int, stream: np.random.Generator, sizes: ArrayLike, counts: ArrayLike | None = None
    ) -> Any:
        """The clients of one round.

        Parameters
        ----------
        round : int
            Index of the round.
        stream : numpy.random.Generator
            The only source of chance, one for this round.
        sizes : array-like of shape (n_clients,)
            Rows of every client that has any, sample weights counted.
        counts : array-like of shape (n_clients, n_classes), default=None
            Rows of every class; read only where `needs_counts`.

        Returns
        -------
        choice : Choice
            Its positions refer to `sizes`.

        Raises
        ------
        ValueError
            If a parameter of the rule is out of range, if `sizes` or `counts` are no such numbers, or if
            `counts` are needed and missing.
        """
        self._validate_params()
        sizes = check_numbers(sizes, "sizes", round)
        if self.needs_counts:
            counts = self._check_counts(counts, len(sizes), round)
        return self._choose(round, stream, sizes, counts)

    def report_nbytes(self, n_classes: int) -> Any:
        """Bytes that a client sends, before its update, every round in which it is asked.

        By default those of what it is asked for: one float64 number per class where `needs_counts`, and one for its
        norm where `trains_all`.
        """
        return 8 * ((n_classes if self.needs_counts else 0) + self.trains_all)

    @abstractmethod
    def _choose(self, round, stream, sizes, counts):
        """`choose` on checked arrays."""

    def _check_counts(self, counts, n_clients, round):
        if counts is None:
            raise ValueError(
                f"{type(self).__name__} groups clients by their class histograms: pass counts of shape "
                f"({n_clients}, n_classes), got None in round {round}."
            )
        counts = np.asarray(counts, dtype=np.float64)
        if counts.ndim != 2 or len(counts) != n_clients or not counts.size:
            raise ValueError(
                f"counts must be of shape ({n_clients}, n_classes), one row per client, got {counts.shape} "
                f"in round {round}."
            )
        check_numbers(counts.ravel(), "counts", round)
        return counts


def check_numbers(values, name, round) -> Array:
    """`values` as a float64 array of one dimension, finite and at least 0; ValueError otherwise."""
    values = np.asarray(values, dtype=np.float64)
    if values.ndim != 1 or not len(values):
        raise ValueError(f"{name} must be one number per client, got shape {values.shape} in round {round}.")
    wrong = ~(np.isfinite(values) & (values >= 0))
    if wrong.any():
        raise ValueError(f"{name} must be finite and >= 0, got {values[wrong][0]} in round {round}.")
    return values


def n_chosen(share, n_clients):
    """max(1, round half up(share x n_clients)); 0.145 x 100 is meant to be 14.5."""
    return max(1, math.floor(as_float(share) * n_clients + 0.5 + 1e-9))


def alone(positions):
    """Every client a group of its own."""
    return tuple((int(position),) for position in positions)
