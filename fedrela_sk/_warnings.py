"""Warnings that point at the line of the user, not at one of ours or of a library in between."""

import sys
import warnings
from contextlib import contextmanager

from fedrela_sk.exceptions import FedReLaWarning

# packages and modules of the standard library through which calls reach us
_BETWEEN = {
    "fedrela_sk", "sklearn", "imblearn", "skorch", "torch", "joblib", "loky", "contextlib", "functools",
    "concurrent", "threading", "multiprocessing",
}  # fmt: skip


def warn_user(message, category=FedReLaWarning):
    """``warnings.warn`` at the innermost line that lies outside the package and outside what calls it.

    Parameters
    ----------
    message : str or Warning
    category : type, default=FedReLaWarning
    """
    warnings.warn(message, category, stacklevel=_level())


@contextmanager
def pointing_at_the_user():
    """Let warnings that a library issues inside point at the user's line."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for warning in caught:
        warnings.warn(warning.message, warning.category, stacklevel=_level())


def _level():
    """`stacklevel` for the function that called the caller of this one; the outermost frame if all are ours."""
    frame, level = sys._getframe(2), 2
    while frame.f_back is not None and _is_between(frame):
        frame, level = frame.f_back, level + 1
    return level


def _is_between(frame):
    return frame.f_globals.get("__name__", "").partition(".")[0] in _BETWEEN
