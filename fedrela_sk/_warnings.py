"""Warnings that point at the user's own line."""

import os
import sys
import warnings

_PACKAGE = os.path.dirname(__file__) + os.sep
# whose frames lie between a user's line and ours
_BETWEEN = ("sklearn", "joblib", "imblearn", "skorch", "contextlib", "threading", "functools")


def warn_user(message, category):
    """`warnings.warn` at the innermost line that is neither ours nor of a library that called us.

    Parameters
    ----------
    message : str
    category : type of Warning
    """
    level, frame = 1, sys._getframe(0)
    while frame is not None and _is_inside(frame):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level if frame is not None else 2)


def _is_inside(frame):
    root = frame.f_globals.get("__name__", "").split(".")[0]
    return frame.f_code.co_filename.startswith(_PACKAGE) or root in _BETWEEN
