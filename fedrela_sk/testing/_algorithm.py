"""`check_algorithm`: the promises of a federated method, on short fits."""

from contextlib import suppress
from typing import Any

import numpy as np
import torch
from sklearn.base import clone

from fedrela_sk.algorithms import Algorithm
from fedrela_sk.exceptions import NotFiniteError
from fedrela_sk.testing._probe import probed
from fedrela_sk.testing._problem import Dense, Normed, answers, fit, furthest, made_rows
from fedrela_sk.testing._promise import (
    broken,
    check_parameters,
    no_global_draws,
    refused,
    seeded_globals,
    untouched,
)
from fedrela_sk.testing._stated import check_stated
from fedrela_sk.testing._traffic import check_traffic
from fedrela_sk.testing._walk import changes, snapshot
from fedrela_sk.testing._watching import BackToFront, SentBackToFront, Watching

# whole fits that do the same sums in another order, in float64
_ROUNDING = 1e-8


def check_algorithm(method: Any) -> None:
    """Check that a federated method keeps the promises that every method of `ALGORITHMS` keeps.

    It is fitted about fifteen times to 72 made rows of three features on five ragged clients, by nets of two dense
    layers, in a second or so.

    1. Its constructor only stores; it can be cloned and pickled.
    2. It equals FedAvg under `neutral`, or says by `neutral_reason` why there is no such setting, and differs from
       FedAvg otherwise (under `telling`, where its own hyper-parameters take longer than three rounds).
    3. A fit works, with BatchNorm too: hooks return what they should, and all of it is finite.
    4. Hooks write nothing to `self`, change nothing that they are given, and draw from no global generator.
    5. What clients send is what `history_` counts and `traffic` declares.
    6. Results depend neither on the order in which clients train nor on that in which updates and reports come.
    7. Both engines give the same, unless `loop_only` says why not.
    8. The criterion's class weights, label smoothing and row weights count where its loss says that they do.
    9. The net and everything else that the caller passed stay as they were.

    Parameters
    ----------
    method : Algorithm
        An instance, under the hyper-parameters that are to be checked.

    Raises
    ------
    CheckError
        At the first promise that is broken: which it is, what was seen, and how to mend it.
    TypeError
        If it is no instance of an `Algorithm`.

    Examples
    --------
    >>> from fedrela_sk.algorithms import FedProx
    >>> from fedrela_sk.testing import check_algorithm
    >>> check_algorithm(FedProx(mu=0.1))
    """
    if not isinstance(method, Algorithm):
        raise TypeError(
            f"check_algorithm takes an instance of an Algorithm, such as FedProx(mu=0.1), got {method!r}."
        )
    check_parameters(method)
    check_stated(method)
    plain = _check_hooks(method)
    for promise in (
        _check_order,
        _check_one_seed,
        _check_neutral,
        _check_difference,
        _check_batch_norm,
        _check_engines,
    ):
        promise(method, plain)
    _check_criterion(method)
    _check_callers_net(method)


def _fitted(method, **params):
    """A fit whose refusal is a broken promise."""
    promise, mend = "a fit works, and its hooks return what they should", "see the message"
    try:
        return fit(method, **params)
    except NotFiniteError as error:
        mend = "keep logarithms, roots and divisions away from 0, or lower the default strength"
        raise broken(method, "what it computes is finite", str(error).rstrip("."), mend) from error
    except Exception as error:
        with refused(method, promise, mend):
            raise error


def _check_hooks(method):
    """Fits with watched hooks, and one as it is, which is returned; what travels is counted in it."""
    with untouched(method, "a fit"):
        for module in (Dense, Normed):
            _fit_watched(method, module)
    engine = Watching()
    with untouched(method, "a fit"):
        plain = _fitted(method, engine=engine)
    check_traffic(method, plain, engine)
    _check_states(method, engine)
    if not np.isfinite(answers(plain)).all():
        raise broken(method, "its posteriors are finite", "a NaN or an infinity", "see predict_params")
    return plain


def _fit_watched(method, module):
    """Raise the first fault that watched hooks note; what stops the fit is told by later fits."""
    notes = []
    with suppress(Exception):
        fit(probed(method, notes), module=module)
    if notes:
        raise notes[0]


def _check_states(method, engine):
    """What clients keep is finite: the engines look only at what is sent."""
    for _, instructions, updates in engine.rounds:
        for update in updates:
            bad = [name for name, tensor in update.state.items() if not torch.isfinite(tensor).all()]
            if bad:
                raise broken(
                    method,
                    "what clients keep from round to round is finite",
                    f"{bad[0]!r} in the state of client {update.client.key} after round {instructions.round} is not",
                    "see what client_init and client_finish return",
                )


def _check_one_seed(method, plain):
    """The same bits whatever the global generators hold, which stay as they are."""
    with seeded_globals(1), no_global_draws(method, "a fit"):
        again = _fitted(method)
    if not np.array_equal(answers(plain), answers(again)):
        raise broken(
            method,
            "one seed gives one result, and no global random state matters",
            f"two fits with random_state=0 differ by {furthest(plain, again):.1g}",
            "draw from local.stream (and give loop_only a reason), never from random, np.random or torch.rand",
        )


def _check_neutral(method, plain):
    if method.neutral is None:
        return
    neutral = clone(method).set_params(**method.neutral)
    for module in (Dense, Normed) if method.neutral_reason == "not stated" else (Dense,):
        params = {"module": module, "client_weight": method.neutral_weights}
        feds = _fitted(neutral, **params), fit("fedavg", **params)
        distance = abs(np.subtract(*(answers(fed)[0] for fed in feds))).max()
        if distance > _ROUNDING:
            raise broken(
                method,
                f"under neutral = {method.neutral} it equals FedAvg",
                f"posteriors differ by {distance:.1g} with the net {module.__name__}",
                "mend the hook that still acts (a second pass may move BatchNorm's statistics: give it "
                "model.copied_buffers()), or state neutral_reason",
            )


def _check_difference(method, plain):
    if method.neutral is not None and _has(method, method.neutral):
        return
    told = _fitted(clone(method).set_params(**method.telling)) if method.telling else plain
    if furthest(told, fit("fedavg")) < 1e-12:
        raise broken(
            method,
            "it is another method than FedAvg",
            "three rounds of both end in the same posteriors",
            "check the spelling of your hooks, or state in telling = {...} what differs within three rounds",
        )


def _has(method, params):
    own = method.get_params(deep=False)
    return all(own[name] == value for name, value in params.items())


def _check_batch_norm(method, plain):
    """Also in training mode, for batches that hold more than one row."""
    with refused(
        method,
        "it trains nets with BatchNorm",
        "give a second pass of a step copies of the statistics: model.with_params(params | model.copied_buffers())",
    ):
        fit(method, module=Normed, engine="auto")


def _check_order(method, plain):
    turned = _fitted(method, engine=BackToFront())
    if not np.array_equal(answers(plain), answers(turned)):
        raise broken(
            method,
            "a client's training depends on nothing that another client left, so that client order does not matter",
            f"trained from the last to the first, posteriors differ by {furthest(plain, turned):.1g}",
            "keep a client's state in what client_finish returns, not in a global, a class or a closure",
        )
    for what, fed in (
        ("updates", _fitted(method, engine=SentBackToFront())),
        ("reports", _fitted(probed(method, [], reverse=True))),
    ):
        distance = furthest(plain, fed)
        if distance > _ROUNDING:
            raise broken(
                method,
                "results do not depend on client order",
                f"{what} that come from the last client to the first move posteriors by {distance:.1g}",
                "treat all updates alike in server_aggregator, and go by the key of a report, not by its place",
            )


def _check_engines(method, plain):
    if method.loop_only is not None:
        return
    mend = (
        "write hooks for one client in torch operations only (no .item(), no if on a tensor) and take means by "
        "batch.share, which is 0 for rows that only fill up; or state loop_only with the reason"
    )
    promise = "both engines give the same"
    params = {"participation": 0.8}
    with refused(method, promise, mend):
        stacked = fit(method, engine="stacked", **params)
    loop = _fitted(method, **params)
    distance = furthest(loop, stacked)
    if distance > _ROUNDING:
        raise broken(method, promise, f"loop and stacked engine differ by {distance:.1g}", mend)
    for column in ("bytes_up", "bytes_down"):
        if not np.array_equal(loop.history_.column(column), stacked.history_.column(column)):
            raise broken(method, promise, f"{column} of the loop and of the stacked engine differ", mend)


def _check_criterion(method):
    """A loss that says that it goes by the criterion's does."""
    if not method.uses("client_loss") or method.bare_loss:
        return
    _, y, _ = made_rows()
    weights = np.random.default_rng(0).uniform(0.5, 2, len(y))
    plain = _fitted(method, client_weight="uniform")
    for what, params in {
        "label smoothing": {"net_params": {"criterion__label_smoothing": 0.3}},
        "class weights": {"net_params": {"criterion__weight": torch.tensor([0.5, 1.0, 3.0]).double()}},
        "row weights": {"sample_weight": weights},
    }.items():
        if furthest(plain, _fitted(method, client_weight="uniform", **params)) < 1e-12:
            raise broken(
                method,
                "its loss goes by the criterion, as bare_loss = False says",
                f"{what} of the criterion change nothing: client_loss drops them",
                "use batch.criterion_loss(logits), or batch.mean(batch.row_losses(logits)); or leave bare_loss out",
            )


def _check_callers_net(method):
    """Neither a module that the caller made nor a parameter of the method's is changed."""
    torch_state = torch.get_rng_state()
    module = Dense()
    torch.set_rng_state(torch_state)
    given = {"the caller's net": module, "parameters": method.get_params(deep=False)}
    given["its buffers"] = dict(module.named_buffers())
    before = snapshot(given)
    _fitted(method, module=module)
    changed = changes(before, snapshot(given))
    if changed:
        raise broken(
            method,
            "the caller's net, and all that was passed, stay as they were",
            changed[0],
            "work on copies (copy.deepcopy of a module), and return tensors instead of writing to modules",
        )
