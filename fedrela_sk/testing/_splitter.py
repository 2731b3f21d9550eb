"""`check_splitter`: the promises of a splitter whose test sets are the clients."""

import copy
import warnings
from typing import Any

import numpy as np

from fedrela_sk.testing._problem import fit, made_rows
from fedrela_sk.testing._promise import broken, no_global_draws, refused, untouched
from fedrela_sk.testing._walk import changes, snapshot


def check_splitter(splitter: Any, X: Any = None, y: Any = None, groups: Any = None) -> None:
    """Check that a splitter cuts rows into clients as `FederatedClassifier(clients=splitter)` needs it.

    1. Its test sets are index arrays; every row lies in exactly one of them, and in none of their training sets.
    2. The same splitter cuts the same rows in the same way, without a draw from a global generator.
    3. It leaves X, y and groups as they are, and writes to itself only attributes that end in "_".
    4. `get_n_splits` gives the number of test sets, or a number that it was told where some are empty.
    5. It cuts rows whose labels are strings, and a federation trains on its clients.

    Parameters
    ----------
    splitter : object with `split(X, y, groups)` and `get_n_splits`
        With an integer `random_state`, where it has one.
    X, y, groups : arrays, default=None
        Rows to cut, for splitters that are made for certain rows (`PredefinedSplit`); None: 72 made rows of three
        classes in five groups. A federation is trained on made rows only.

    Raises
    ------
    CheckError
        At the first promise that is broken: which it is, what was seen, and how to mend it.

    Examples
    --------
    >>> from fedrela_sk import DirichletSplit
    >>> from fedrela_sk.testing import check_splitter
    >>> check_splitter(DirichletSplit(4, random_state=0))
    """
    made = X is None
    rows = made_rows() if made else (X, y, groups)
    parts = _check_traces(splitter, rows)
    _check_partition(splitter, parts, len(rows[0]))
    _check_same(splitter, parts, rows)
    _check_number(splitter, parts, rows)
    if made:
        _check_names(splitter, rows)
        with refused(splitter, "a federation trains on its clients", "see the message"):
            fit(clients=splitter, n_rounds=1, by_groups=_needs_groups(splitter, rows))


def _split(splitter, rows):
    X, y, groups = rows
    with (
        refused(
            splitter,
            "split(X, y, groups) yields pairs of index arrays",
            "yield (train, test) for each client, both arrays of row numbers",
        ),
        warnings.catch_warnings(),
    ):
        warnings.filterwarnings("ignore", message="The groups parameter is ignored")
        warnings.filterwarnings("ignore", message="The least populated class")
        return [tuple(np.asarray(part) for part in pair) for pair in splitter.split(X, y, groups)]


def _check_names(splitter, rows):
    """Labels are names: nothing can be computed with them."""
    X, y, groups = rows
    promise, mend = (
        "it cuts rows with labels of any type",
        "number them first: np.unique(y, return_inverse=True)",
    )
    with refused(splitter, promise, mend), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        list(splitter.split(X, np.array(["ant", "bee", "cow"])[y], groups))


def _needs_groups(splitter, rows):
    """Whether it cannot cut rows that come without groups."""
    try:
        list(splitter.split(*rows[:2]))
    except ValueError as error:
        return "groups" in str(error)
    return False


def _check_traces(splitter, rows):
    """What it yields, once; it draws, changes and writes nothing that it should not."""
    given = dict(zip(("X", "y", "groups"), rows, strict=True))
    before, own = snapshot(given), snapshot(_parameters(splitter))
    with no_global_draws(splitter, "split"), untouched(splitter, "split", ("the class",)):
        parts = _split(splitter, rows)
    for thing, changed in (("X, y and groups", changes(before, snapshot(given))), ("its parameters",
                           changes(own, snapshot(_parameters(splitter))))):  # fmt: skip
        if changed:
            raise broken(
                splitter,
                f"split leaves {thing} as they are",
                changed[0],
                'work on copies, and end what is learned in "_"',
            )
    return parts


def _parameters(splitter):
    return {
        name: value
        for name, value in vars(splitter).items()
        if not (name.endswith("_") or isinstance(value, np.random.RandomState | np.random.Generator))
    }


def _check_partition(splitter, parts, n_rows):
    mend = "let test sets be disjoint and cover all rows, each as an array of row numbers from 0"
    promise = "test sets are the clients: every row lies in exactly one of them"
    if not parts:
        raise broken(splitter, promise, "there is no test set", mend)
    for client, (train, test) in enumerate(parts):
        if test.ndim != 1 or test.dtype.kind not in "iu":
            raise broken(splitter, promise, f"test set {client} is {test.dtype} of shape {test.shape}", mend)
        outside = test[(test < 0) | (test >= n_rows)]
        if len(outside):
            raise broken(splitter, promise, f"test set {client} holds row {outside[0]} of {n_rows}", mend)
        if np.intersect1d(train, test).size:
            seen = f"row {np.intersect1d(train, test)[0]} is in training and test set {client}"
            raise broken(splitter, "training sets hold no row of their test set", seen, mend)
    holders = np.bincount(np.concatenate([test for _, test in parts]), minlength=n_rows)
    for wrong, problem in ((holders > 1, "more than one test set"), (holders == 0, "no test set")):
        if wrong.any():
            raise broken(splitter, promise, f"row {np.flatnonzero(wrong)[0]} is in {problem}", mend)


def _check_same(splitter, parts, rows):
    again = _split(copy.deepcopy(splitter), rows)
    twice = _split(splitter, rows)
    for other in (again, twice):
        same = len(parts) == len(other) and all(
            np.array_equal(a[1], b[1]) for a, b in zip(parts, other, strict=True)
        )
        if not same:
            raise broken(
                splitter,
                "the same splitter cuts the same rows in the same way",
                "two calls of split yield other test sets",
                "make a generator from random_state in every call of split, and pass an integer",
            )


def _check_number(splitter, parts, rows):
    promise, mend = (
        "get_n_splits gives the number of test sets",
        "return the number of pairs that split yields",
    )
    with refused(splitter, promise, mend):
        n_splits = splitter.get_n_splits(*rows)
    if n_splits != len(parts) + getattr(splitter, "n_empty_", 0) and n_splits != len(parts):
        raise broken(splitter, promise, f"it gives {n_splits}, and split yields {len(parts)}", mend)
