"""`check_participation`: the promises of a rule of who takes part in a round."""

from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import clone

from fedrela_sk.participation import Choice, Participation
from fedrela_sk.testing._problem import fit
from fedrela_sk.testing._promise import broken, check_parameters, no_global_draws, refused, untouched
from fedrela_sk.testing._walk import changes, snapshot

_SIZES = np.array([40.0, 5, 5, 20, 30, 1])
_COUNTS = np.array([[40, 0, 0], [0, 5, 0], [2, 2, 1], [0, 0, 20], [15, 15, 0], [0, 1, 0]], dtype=float)
_NORMS = np.array([1.0, 0.0, 3.0, 0.5, 2.0, 1.0])


def check_participation(rule: Any) -> None:
    """Check that a rule of participation keeps the promises of ours.

    1. Its constructor only stores; it can be cloned and pickled.
    2. `choose` gives a `Choice` of clients that exist, one or many, in any round; `select` positions and weights.
    3. It goes by what it is told: class counts only where `needs_counts` says so.
    4. All chance comes from the stream; it writes nothing to itself, and nothing to what it is given.
    5. A federation trains with it, and counts `report_nbytes`.

    Parameters
    ----------
    rule : Participation

    Raises
    ------
    CheckError
        At the first promise that is broken: which it is, what was seen, and how to mend it.
    TypeError
        If it is no instance of a `Participation`.

    Examples
    --------
    >>> from fedrela_sk.participation import UniformSampling
    >>> from fedrela_sk.testing import check_participation
    >>> check_participation(UniformSampling(share=0.5))
    """
    if not isinstance(rule, Participation):
        raise TypeError(f"check_participation takes an instance of a Participation, got {rule!r}.")
    check_parameters(rule)
    for sizes, counts in ((_SIZES, _COUNTS), (_SIZES[:1], _COUNTS[:1])):
        for round in range(4):
            _check_choice(rule, round, sizes, counts)
    if rule.trains_all:
        _check_select(rule)
    _check_nbytes(rule)
    _check_fit(rule)


def _asked(rule, round, sizes, counts, seed=0):
    return rule.choose(round, np.random.default_rng(seed), sizes, counts if rule.needs_counts else None)


def _check_choice(rule, round, sizes, counts):
    """One round: a choice that can be, twice the same, without traces."""
    given = {"sizes": sizes.copy(), "counts": counts.copy()}
    before = snapshot(given)
    with no_global_draws(rule, "choose"), untouched(rule, "choose"), _choosing(rule):
        choice = _asked(rule, round, *given.values())
    _check_changes(rule, "choose", before, given)
    _check_positions(rule, choice, round, len(sizes))
    for other in (rule, clone(rule)):
        if _asked(other, round, sizes, counts) != choice:
            raise broken(
                rule,
                "all chance comes from the stream",
                f"two calls in round {round} with equal streams choose differently",
                "draw from stream only, and keep nothing from call to call: the round's number is an argument",
            )


def _check_positions(rule, choice, round, n_clients):
    """It is a choice among the clients that there are."""
    if not isinstance(choice, Choice):
        raise broken(
            rule,
            "choose gives a Choice",
            f"it gave {type(choice).__name__}",
            "return fedrela_sk.participation.Choice(groups), groups being tuples of positions",
        )
    positions = [position for group in choice.groups for position in group]
    bad = [one for one in positions if not isinstance(one, Integral) or not 0 <= one < n_clients]
    if bad:
        raise broken(
            rule,
            "it chooses positions of clients that exist, as integers",
            f"position {bad[0]!r} of {n_clients} clients in round {round}",
            "choose among range(len(sizes)), which has the clients of this fit that have rows",
        )


def _choosing(rule):
    return refused(
        rule,
        "it chooses among any clients, one or many, with counts only where needs_counts says so",
        "state needs_counts = True where counts are read, and expect a single client",
    )


def _check_changes(rule, what, before, given):
    changed = changes(before, snapshot(given))
    if changed:
        raise broken(
            rule,
            f"{what} changes nothing that it is given",
            changed[0],
            "work on copies: sizes.copy(), sorted(...) in the place of .sort()",
        )


def _check_select(rule):
    given = {"weights": _SIZES.copy(), "norms": _NORMS.copy()}
    before = snapshot(given)
    with no_global_draws(rule, "select"), untouched(rule, "select"), _selecting(rule):
        pair = rule.select(0, np.random.default_rng(0), *given.values())
        positions, weights = (np.asarray(part) for part in pair)
        _check_senders(rule, positions, weights)
    _check_changes(rule, "select", before, given)
    again = rule.select(0, np.random.default_rng(0), _SIZES, _NORMS)
    if not all(np.array_equal(one, other) for one, other in zip(pair, again, strict=True)):
        raise broken(
            rule,
            "all chance comes from the stream",
            "two calls of select with equal streams differ",
            "draw from stream only",
        )


def _selecting(rule):
    return refused(
        rule,
        "select gives two arrays, positions of those that send and their absolute weights",
        "return (np.array of positions, np.array of weights)",
    )


def _check_senders(rule, positions, weights):
    inside = len(positions) and positions.dtype.kind in "iu" and (positions >= 0).all()
    inside = inside and (positions < len(_SIZES)).all() and len(set(positions.tolist())) == len(positions)
    sound = weights.shape == positions.shape and np.isfinite(weights).all() and (weights >= 0).all()
    if not (inside and sound and weights.sum() > 0):
        raise broken(
            rule,
            "select gives two arrays, different positions of at least one client and finite weights >= 0 for them",
            f"positions {positions.tolist()} and weights {weights.tolist()} of {len(_SIZES)} clients",
            "let somebody send in any case, and give every sender its weight",
        )


def _check_nbytes(rule):
    nbytes = rule.report_nbytes(3)
    if not isinstance(nbytes, Real) or nbytes < 0:
        raise broken(
            rule, "report_nbytes counts bytes", f"it gave {nbytes!r}", "return a number of bytes >= 0"
        )
    if not nbytes and (rule.needs_counts or rule.trains_all):
        raise broken(
            rule,
            "what clients report is counted",
            "report_nbytes gives 0, though clients tell their class counts or a norm",
            "leave report_nbytes to the base, or return what one asked client sends",
        )


def _check_fit(rule):
    with refused(rule, "a federation trains with it, and every round has an update", "see the message"):
        fit(participation=rule)
