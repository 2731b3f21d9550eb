"""Checks of what a user passes to a loss: strengths, counts, choices."""

from numbers import Real
from typing import Any

import numpy as np
import torch

from fedrela_sk._typing import Array


def check_strength(name, value, high=np.inf):
    """`value` as a float, if it is a finite number in [0, high].

    Raises
    ------
    ValueError
    """
    number = isinstance(value, Real) and not isinstance(value, bool)
    if number and np.isfinite(value) and 0 <= value <= high:
        return float(value)
    expected = f"in [0, {high:g}]" if np.isfinite(high) else "of at least 0"
    raise ValueError(f"{name} must be a finite number {expected}, got {value!r}.")


def check_choice(name: Any, value: Any, choices: Any) -> Any:
    """`value`, if it is one of `choices`, strings.

    Raises
    ------
    ValueError
    """
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}; got {value!r}.")
    return value


def check_counts(counts) -> Array:
    """Rows per class, as numbers.

    Parameters
    ----------
    counts : array-like or tensor of shape (n_classes,)
        Whole numbers or sums of row weights.

    Returns
    -------
    counts : ndarray of shape (n_classes,), float64

    Raises
    ------
    ValueError
        Another shape, entries that are negative, infinite or no numbers, or nothing but zeros.
    """
    array = np.asarray(counts.detach().cpu() if isinstance(counts, torch.Tensor) else counts)
    hint = "Pass one number of rows per class, in the order of the columns of logits."
    if array.ndim != 1 or array.dtype.kind not in "iuf":
        raise ValueError(
            f"counts must be numbers of shape (n_classes,), got shape {array.shape} of {array.dtype}. {hint}"
        )
    wrong = ~(np.isfinite(array) & (array >= 0))
    if wrong.any():
        column = int(wrong.argmax())
        raise ValueError(
            f"counts must be finite and not negative, got {array[column]} for class {column}. {hint}"
        )
    if not array.any():
        raise ValueError(f"counts hold no rows at all, got {array.tolist()}. {hint}")
    return array.astype(np.float64)


def check_length(counts, n_classes):
    """Refuse counts that do not have one entry per column.

    Raises
    ------
    ValueError
    """
    if counts.shape[-1] != n_classes:
        raise ValueError(
            f"counts have {counts.shape[-1]} classes, but there are {n_classes} columns. "
            "Pass one number of rows per class, 0 for a class that has none."
        )


def check_batch(logits, y):
    """Refuse what is not one row of logits and one class per row.

    Raises
    ------
    ValueError
    """
    if logits.ndim != 2 or y.ndim != 1 or len(y) != len(logits):
        raise ValueError(
            "Logits must have shape (rows, n_classes) and targets shape (rows,), "
            f"got {tuple(logits.shape)} and {tuple(y.shape)}."
        )
    if y.is_floating_point():
        raise ValueError(f"Targets must be classes (int64), got {y.dtype}: soft targets have no class count.")
