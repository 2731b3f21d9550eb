"""What a competitor hands over to be scored, and posteriors of balanced training put right."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Outcome:
    """Answers for the test rows of a job.

    Attributes
    ----------
    posteriors : ndarray of shape (n_rows, n_classes)
    predicted : ndarray of int
    corrected : ndarray like posteriors, or None
        Posteriors for the classes as common as they are; None where nobody knows how.
    correction : str
        How they were made.
    facts : dict
        More for the record: what was chosen, rows relabelled.
    """

    posteriors: Any
    predicted: Any
    corrected: Any = None
    correction: str = ""
    facts: dict = field(default_factory=dict)


def plain(posteriors, **facts):
    """Of a model trained on the rows as they are: the most probable class, nothing to correct."""
    return Outcome(posteriors, posteriors.argmax(axis=1), posteriors, "none needed", facts)


def uncorrected(posteriors, **facts):
    """Of a model for which no correction is known."""
    return Outcome(posteriors, posteriors.argmax(axis=1), None, "none known", facts)


def balanced(posteriors, counts, **facts):
    """Of a model trained as if classes were equally common: corrected by posteriors x shares, rows summing to 1."""
    return Outcome(posteriors, posteriors.argmax(axis=1), with_prior(posteriors, counts), "shares", facts)


def with_prior(posteriors, counts):
    """Posteriors proportional to Q_c pi_c, pi the shares of the classes (Elkan, 2001)."""
    weighted = posteriors * (counts / counts.sum())
    return weighted / weighted.sum(axis=1, keepdims=True)
