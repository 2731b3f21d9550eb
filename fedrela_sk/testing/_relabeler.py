"""`check_relabeler`: the promises of an object that relabels a client's rows."""

import copy
from typing import Any

import numpy as np
from sklearn.base import clone

from fedrela_sk.exceptions import LabelError
from fedrela_sk.relabel import check_answer
from fedrela_sk.testing._problem import fit
from fedrela_sk.testing._promise import broken, no_global_draws, refused, untouched
from fedrela_sk.testing._walk import changes, snapshot

_N_ROWS = 40
_NAMES = {
    "integers": np.array([0, 1, 2]),
    "strings": np.array(["ant", "bee", "cow"]),
    "other integers": np.array([7, 8, 30]),
}


def check_relabeler(relabeler: Any) -> None:
    """Check that a relabeler can stand in `FederatedClassifier(relabeler=...)`.

    1. It can be copied; a copy is fitted for every client, and the one that was passed stays as it was.
    2. `relabel` answers with a known label for each row, or with the pair (labels, boolean mask of rows to keep), for
       labels of any type, for clients of one row, and for clients that lack a class.
    3. It leaves posteriors, labels and uniforms as they are, and its parameters.
    4. All chance comes from `uniforms` or from `random_state`: equal ones give equal labels.
    5. What one client's rows say does not reach another client's.
    6. A federation trains with it.

    Parameters
    ----------
    relabeler : object with `fit(Q, y)` and `relabel(Q, y, uniforms=...)`
        Its `classes`, where it has that parameter, must be None.

    Raises
    ------
    CheckError
        At the first promise that is broken: which it is, what was seen, and how to mend it.

    Examples
    --------
    >>> from fedrela_sk import FedReLaRelabeler
    >>> from fedrela_sk.testing import check_relabeler
    >>> check_relabeler(FedReLaRelabeler(0.1))
    """
    for names in _NAMES.values():
        for rows in (_rows(names), _rows(names, without=2), _rows(names, n_rows=1)):
            _check_rows(relabeler, names, *rows)
    _check_clients_apart(relabeler)
    with refused(relabeler, "a federation trains with it", "see the message"):
        fit(relabeler=relabeler, relabel_at=1)


def _rows(names, without=None, n_rows=_N_ROWS, seed=0):
    """(posteriors, labels, uniforms) of one client."""
    stream = np.random.default_rng(seed)
    codes = stream.choice(3, n_rows, p=[0.6, 0.3, 0.1])
    if without is not None:
        codes[codes == without] = 0
    return stream.dirichlet([2, 1, 0.5], n_rows), names[codes], stream.random((n_rows, 3))


def _copy(relabeler, names):
    """A copy as a federation makes it for each client: with all classes, and a seed."""
    with refused(
        relabeler, "it can be copied for every client", "store parameters as they come in the constructor"
    ):
        own = clone(relabeler, safe=False)
    params = own.get_params(deep=False) if hasattr(own, "get_params") else {}
    told = {"classes": names} if params.get("classes", "absent") is None else {}
    told |= {"random_state": 0} if "random_state" in params else {}
    return own.set_params(**told) if told else own


def _answer(relabeler, names, Q, y, uniforms):
    own = _copy(relabeler, names)
    with refused(
        relabeler,
        "it relabels rows of any client: of one row, without a class, with labels of any type",
        "expect fit(Q, y), then relabel(Q, y, uniforms=array of shape (n_rows, n_classes))",
    ):
        own.fit(Q, y)
        before = snapshot(_own_parameters(own))
        answer = own.relabel(Q, y, uniforms=uniforms)
    changed = changes(before, snapshot(_own_parameters(own)))
    if changed:
        raise broken(
            relabeler,
            "relabel changes no parameter",
            changed[0],
            'end the names of what is learned in "_", and learn it in fit',
        )
    return answer


def _own_parameters(relabeler):
    return {
        name: value for name, value in vars(relabeler).items() if not name.endswith("_") and name[0] != "_"
    }


def _check_rows(relabeler, names, Q, y, uniforms):
    given = {"posteriors": Q, "labels": y, "uniforms": uniforms}
    before, passed = snapshot(given), snapshot(vars(relabeler))
    with no_global_draws(relabeler, "relabel"), untouched(relabeler, "relabel", ("the class",)):
        answer = _answer(relabeler, names, **dict(zip(("Q", "y", "uniforms"), given.values(), strict=True)))
    changed = changes(before, snapshot(given)) + changes(passed, snapshot(vars(relabeler)))
    if changed:
        raise broken(
            relabeler,
            "what it is given, and the relabeler that was passed, stay as they are",
            changed[0],
            "return new labels (y.copy()), and keep what is learned in the copy that is fitted",
        )
    new, keep = _known(relabeler, answer, names, len(y))
    again = check_answer(_answer(relabeler, names, Q, y, uniforms), names, len(y))
    if not (np.array_equal(new, again[0]) and np.array_equal(keep, again[1])):
        raise broken(
            relabeler,
            "all chance comes from uniforms or random_state",
            "equal rows and equal uniforms were relabeled in two ways",
            "draw with the uniforms that relabel is given, or from a generator of random_state",
        )


def _known(relabeler, answer, names, n_rows):
    """(new labels, mask) of an answer with a known label for each row."""
    try:
        return check_answer(answer, names, n_rows)
    except LabelError as error:
        raise broken(
            relabeler,
            "relabel answers with a known label for each row, or with (labels, mask of rows to keep)",
            str(error).rstrip("."),
            "return an array of labels as y has them, in the order of the rows",
        ) from error


def _check_clients_apart(relabeler):
    """A client is relabeled as it would be without the client before it."""
    names = _NAMES["integers"]
    one, other = _rows(names), _rows(names, seed=1)
    alone = _answer(copy.deepcopy(relabeler), names, *one)
    _answer(relabeler, names, *other)
    after = _answer(relabeler, names, *one)
    first, second = (check_answer(answer, names, _N_ROWS) for answer in (alone, after))
    if not all(np.array_equal(a, b) for a, b in zip(first, second, strict=True)):
        raise broken(
            relabeler,
            "what one client's rows say does not reach another client's",
            "a client is relabeled in another way after another client",
            "keep what fit learns in the object itself, not in its class or in a global",
        )
