"""The relabelling step of one client: posteriors in, new labels out, original labels kept."""

from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from fedrela_sk._labels import array_of, positions_in
from fedrela_sk._random import Purpose, integer_seed, numpy_stream, uniforms
from fedrela_sk._warnings import warn_user
from fedrela_sk.exceptions import ClientError, LabelError, NotFiniteError
from fedrela_sk.relabel import FedReLaRelabeler, check_answer
from fedrela_sk.relabel._repetition import check_sums, describe, weights_switch_off, without_weight
from fedrela_sk.relabel._told import fit_told
from fedrela_sk.report import RelabelingReport
from fedrela_sk.training._posteriors import client_posteriors
from fedrela_sk.training.runtime._generator import forked_generators, seed_generators

POSTERIOR_DEFAULTS = {"passes": 1, "augment": False, "mode": "eval", "late": "next"}


@dataclass(frozen=True)
class ClientRelabeling:
    """What one client's relabelling did.

    Attributes
    ----------
    round : int
        Index of the round before which it happened.
    relabeler : object
        The client's own fitted copy.
    codes : ndarray of shape (n_train_rows,), int64
        New labels as positions in the classes.
    keep : ndarray of shape (n_train_rows,), bool
        Rows that stay in training.
    """

    round: int
    relabeler: Any
    codes: np.ndarray
    keep: np.ndarray


def check_relabel_posteriors(settings):
    """`relabel_posteriors` with every key filled in.

    Raises
    ------
    ValueError
        If a key is unknown or a value is none of its own.
    """
    settings = {} if settings is None else settings
    unknown = sorted(set(settings) - set(POSTERIOR_DEFAULTS))
    if unknown:
        raise ValueError(
            f"relabel_posteriors has the unknown key {unknown[0]!r}; known keys: {sorted(POSTERIOR_DEFAULTS)}."
        )
    full = POSTERIOR_DEFAULTS | settings
    allowed = {"augment": (True, False), "mode": ("eval", "train"), "late": ("next", "never")}
    for key, values in allowed.items():
        if full[key] not in values:
            raise ValueError(f"relabel_posteriors[{key!r}] must be one of {values}, got {full[key]!r}.")
    _check_passes(full)
    return full


def _check_passes(settings):
    """Refuse a number of passes that is none, and settings of passes where there are none."""
    passes = settings["passes"]
    if isinstance(passes, str) and passes == "training":
        for key in ("augment", "mode"):
            if settings[key] != POSTERIOR_DEFAULTS[key]:
                raise ValueError(
                    f"relabel_posteriors[{key!r}]={settings[key]!r} has no meaning with passes='training': "
                    "posteriors are those of the steps of local training. Leave it out, or set a number of passes."
                )
        return
    if isinstance(passes, bool) or not isinstance(passes, int | np.integer) or passes < 1:
        raise ValueError(
            f"relabel_posteriors['passes'] must be an integer >= 1 or 'training', got {passes!r}."
        )


def relabel_alone(relabeler, Q, y, classes, spec, round, seed, weights, *, eps=None, targets=None):
    """Relabel one client's rows, given their posteriors: any relabeler, all its uniforms drawn.

    Parameters
    ----------
    relabeler : object with `fit(Q, y)` and `relabel(Q, y, uniforms=...)`
        Left as it is; a copy is fitted.
    Q : ndarray of shape (n_rows, n_classes)
        Posteriors of the client's rows, ascending.
    y : ndarray of shape (n_rows,)
        Their original labels.
    classes : ndarray of shape (n_classes,)
    spec : ClientSpec
    round, seed : int
    weights : ndarray of shape (n_rows,) or None
        Row weights, passed to `fit` as `sample_weight` where it takes any.
    eps, targets
        As in `relabel_clients`; a relabeler of ours is told.

    Returns
    -------
    result : ClientRelabeling
    """
    with _named(spec, round):
        own = _own_copy(relabeler, classes, seed, round, spec)
        fit_told(own, Q, y, weights, eps=eps, targets=targets_of(own, targets, classes))
        answer = own.relabel(Q, y, uniforms=_draws(spec, len(classes), seed, round))
    try:
        new, keep = check_answer(answer, classes, len(y))
    except LabelError as error:
        raise ClientError(f"Relabelling of client {spec.key!r} before round {round}: {error}") from error
    return ClientRelabeling(round, own, positions_in(classes, new), keep)


@contextmanager
def _named(spec, round):
    """Errors name the client and the round."""
    where = f"Relabelling of client {spec.key!r} before round {round}"
    try:
        yield
    except NotFiniteError as error:
        raise NotFiniteError(f"{where}: {error}") from error
    except Exception as error:
        raise ClientError(f"{where} failed: {type(error).__name__}: {error}") from error


def collect_posteriors(net, X, n_classes, spec, round, seed, settings, batch_size):
    """Finite posteriors of the client's rows, float64 tensor of shape (n_rows, n_classes) on the device of `X`."""
    stream = numpy_stream(seed, Purpose.AUGMENT, round, spec.stream_id)
    with _named(spec, round), forked_generators(net.device):
        seed_generators(net.device, seed, Purpose.AUGMENT, round, spec.stream_id)
        Q = client_posteriors(
            net,
            X,
            n_classes,
            passes=settings["passes"],
            augment=settings["augment"],
            mode=settings["mode"],
            batch_size=batch_size,
            stream=stream,
        )
    return check_posteriors(Q, spec, round)


def check_posteriors(Q, spec, round):
    """`Q` itself, if all of a client's posteriors are finite."""
    finite = torch.isfinite(Q).all(dim=1)
    if not finite.all():
        row = int(finite.int().argmin())
        with _named(spec, round):
            raise NotFiniteError(f"the posterior of its row {row} is not finite, got {Q[row].cpu().numpy()}.")
    return Q


def _draws(spec, n_classes, seed, round):
    """Uniforms of the client's training rows; a row's draws do not depend on which rows were set aside."""
    shape = (len(spec.rows), n_classes)
    draws = uniforms(seed, Purpose.RELABEL, shape, round, spec.stream_id)
    return draws[places(spec)]


def places(spec):
    """Positions of the training rows among all rows of the client."""
    return np.searchsorted(spec.rows, spec.train_rows)


def _own_copy(relabeler, classes, seed, round, spec):
    """The client's own relabeler: all classes known, no random state of its own."""
    own = with_classes(clone(relabeler, safe=False), classes)
    if "random_state" in _params(own):
        own.set_params(random_state=integer_seed(seed, Purpose.RELABEL, round, spec.stream_id) % 2**32)
    return own


def with_classes(relabeler, classes):
    """The relabeler, all classes known to it."""
    if _params(relabeler).get("classes", "absent") is None:
        relabeler.set_params(classes=classes)
    return relabeler


def note_of_weights(relabeler, specs, codes, weights):
    """What the history should say, and a warning, where row weights change what relabelling does at clients.

    Returns
    -------
    notes : tuple of str
        What changes, once for all clients.

    Raises
    ------
    ClientError
        The weights of a client sum to what is no number of rows.
    """
    if weights is None or not isinstance(relabeler, FedReLaRelabeler):
        return ()
    clients = [
        (spec, codes[spec.train_rows], weights[spec.train_rows]) for spec in specs if len(spec.train_rows)
    ]
    for spec, own, sums in clients:
        try:
            check_sums(np.bincount(own, sums))
        except ValueError as error:
            raise ClientError(f"Client {spec.key!r}: {error}") from error
    notes = []
    n_without = sum(without_weight(own, own_weights) for _, own, own_weights in clients)
    if n_without:
        notes.append(
            f"At {n_without} of {len(clients)} clients a class has rows, and all of them have sample_weight 0: it "
            "counts as absent there."
        )
    message = describe([weights_switch_off(relabeler, own, own_weights) for _, own, own_weights in clients])
    if message is not None:
        warn_user(message)
        notes.append(message)
    return tuple(notes)


def targets_of(relabeler, targets, classes):
    """The mask `targets` over `classes` in the order of the relabeler's own classes, None for all."""
    own = _params(relabeler).get("classes")
    if targets is None or own is None:
        return targets
    is_target = dict(zip(classes.tolist(), np.asarray(targets).tolist(), strict=True))
    return np.array([is_target.get(label, False) for label in np.asarray(own).tolist()])


def _params(relabeler):
    return relabeler.get_params(deep=False) if hasattr(relabeler, "get_params") else {}


def relabeling_report(specs, results, y, y_relabeled):
    """`RelabelingReport` over all clients.

    Parameters
    ----------
    specs : list of ClientSpec
    results : dict
        Position of a client to its latest `ClientRelabeling`.
    y, y_relabeled : ndarray of shape (n_rows,)
        Original and current labels.
    """
    parts = []
    for spec in specs:
        result = results.get(spec.position)
        if result is None:
            continue
        rows = spec.train_rows
        changed = np.flatnonzero(y[rows] != y_relabeled[rows])
        columns = _numbers(result.relabeler, changed)
        parts.append(
            (
                np.full(len(changed), spec.position),
                np.full(len(changed), result.round),
                rows[changed],
                *columns,
            )
        )
    if parts:
        position, round, row, *columns = (np.concatenate(column) for column in zip(*parts, strict=True))
    else:
        position = round = row = np.empty(0, dtype=np.int64)
        columns = [np.empty(0)] * 4
    keys = array_of([spec.key for spec in specs])
    return RelabelingReport(keys[position], round, row, y[row], y_relabeled[row], *columns)


def _numbers(relabeler, changed):
    """Posterior, z, threshold and rho of the changed rows, NaN where the relabeler keeps none."""
    unknown = [np.full(len(changed), np.nan) for _ in range(4)]
    try:
        report = relabeler.report()
    except (AttributeError, NotFittedError):  # it has none, or none of this relabelling
        return unknown
    if not np.array_equal(report.row, changed):
        return unknown
    return [report.posterior, report.z, report.threshold, report.rho]
