"""Ranges of hyper-parameters."""

import math
from numbers import Integral, Real
from typing import Any

import numpy as np

from fedrela_sk.losses._checks import check_choice

__all__ = ["check_at_least", "check_choice", "check_flag", "check_whole"]


def check_at_least(
    name: str, value: float, low: float, high: float = math.inf, *, above: bool = False, below: bool = False
) -> None:
    """Refuse a hyper-parameter outside ``[low, high]``.

    Parameters
    ----------
    name : str
    value : float
    low, high : float
    above : bool
        Whether `low` itself is refused as well.
    below : bool
        Whether `high` itself is.

    Raises
    ------
    ValueError
        With the name and what was got.
    """
    number = isinstance(value, Real) and not isinstance(value, bool)
    inside = (
        number and low <= value <= high and not (above and value == low) and not (below and value == high)
    )
    if inside and math.isfinite(value):
        return
    relation = f"> {low}" if above else f">= {low}"
    limit = "" if high == math.inf else f" and {'<' if below else '<='} {high}"
    raise ValueError(f"{name} must be a finite number {relation}{limit}, got {value!r}.")


def check_flag(name: Any, value: Any) -> None:
    """Refuse a hyper-parameter that is neither True nor False.

    Raises
    ------
    ValueError
        With the name and what was got.
    """
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False, got {value!r}.")


def check_whole(name: Any, value: Any, low: Any) -> None:
    """Refuse a hyper-parameter that is no whole number of at least `low`.

    Raises
    ------
    ValueError
        With the name and what was got.
    """
    if not isinstance(value, Integral) or isinstance(value, bool) or value < low:
        raise ValueError(f"{name} must be a whole number >= {low}, got {value!r}.")
