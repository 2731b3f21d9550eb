"""The relabeling step of one client: posteriors of its rows in, new labels out. It sees no other client's rows."""

from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sklearn.base import clone

from fedrela_sk._labels import positions_in
from fedrela_sk._random import Purpose, integer_seed, numpy_stream, uniforms
from fedrela_sk.exceptions import ClientError, LabelError, NotFiniteError
from fedrela_sk.relabel import check_answer
from fedrela_sk.relabel._contract import fit_told
from fedrela_sk.training._posteriors import client_posteriors
from fedrela_sk.training.runtime._generator import forked_generators, seed_generators


@dataclass(frozen=True)
class ClientRelabeling:
    """What one client's relabeling did.

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


@dataclass(frozen=True)
class RelabelStep:
    """What every client knows of the relabeling step, and what it computes from its own rows.

    Attributes
    ----------
    relabeler : object with `fit(Q, y)` and `relabel(Q, y, uniforms=...)`
        Left as it is; every client fits a copy.
    classes : ndarray of shape (n_classes,)
    seed : int
    settings : dict
        As `check_relabel_posteriors` returns it.
    batch_size : int
    eps : float or None
        Unit in the last place of the arithmetic of the net: posteriors no further apart than it explains are equal.
    targets : ndarray of shape (n_classes,), bool, or None
        Classes that some client has rows of; no row is relabeled into the others. None: all classes.
    """

    relabeler: Any
    classes: np.ndarray
    seed: int
    settings: dict
    batch_size: int
    eps: float | None = None
    targets: np.ndarray | None = None

    def posteriors(self, net, X, spec, round):
        """What the model says about the client's rows.

        Parameters
        ----------
        net : initialized skorch net
            Holding the model that this client relabels with.
        X : tensor of shape (n_rows, ...)
            The client's rows, ascending.
        spec : ClientSpec
        round : int

        Returns
        -------
        Q : float64 tensor of shape (n_rows, n_classes)
            On the device of `X`, finite.

        Raises
        ------
        NotFiniteError, ClientError
            With the client and the round.
        """
        stream = numpy_stream(self.seed, Purpose.AUGMENT, round, spec.stream_id)
        asked = {name: self.settings[name] for name in ("passes", "augment", "mode")}
        with _named(spec, round), forked_generators(net.device):
            seed_generators(net.device, self.seed, Purpose.AUGMENT, round, spec.stream_id)
            Q = client_posteriors(
                net, X, len(self.classes), batch_size=self.batch_size, stream=stream, **asked
            )
        return check_finite(Q, spec, round)

    def relabel(self, Q, y, spec, round, weights=None):
        """New labels of the client's rows, given their posteriors: by any relabeler, all its uniforms drawn.

        Parameters
        ----------
        Q : ndarray of shape (n_rows, n_classes)
            Posteriors of the client's rows, ascending.
        y : ndarray of shape (n_rows,)
            Their original labels.
        spec : ClientSpec
        round : int
        weights : ndarray of shape (n_rows,) or None
            Row weights, passed to `fit` as `sample_weight` where it takes any.

        Returns
        -------
        result : ClientRelabeling

        Raises
        ------
        NotFiniteError, ClientError
            With the client and the round.
        """
        with _named(spec, round):
            own = self._own_copy(spec, round)
            fit_told(own, Q, y, weights, eps=self.eps, targets=self.targets_for(own))
            answer = own.relabel(Q, y, uniforms=self._draws(spec, round))
        try:
            new, keep = check_answer(answer, self.classes, len(y))
        except LabelError as error:
            raise ClientError(f"{_where(spec, round)}: {error}") from error
        return ClientRelabeling(round, own, positions_in(self.classes, new), keep)

    def with_classes(self, relabeler):
        """The relabeler, all classes known to it."""
        if _params(relabeler).get("classes", "absent") is None:
            relabeler.set_params(classes=self.classes)
        return relabeler

    def targets_for(self, relabeler):
        """The mask `targets` in the order of the relabeler's own classes, None for all."""
        own = _params(relabeler).get("classes")
        if self.targets is None or own is None:
            return self.targets
        # `fit` complains about a label that is not one of the classes
        return np.append(self.targets, False)[positions_in(self.classes, np.asarray(own))]

    def _own_copy(self, spec, round):
        """The client's own relabeler: all classes known, its random state that of the federation."""
        own = self.with_classes(clone(self.relabeler, safe=False))
        if "random_state" in _params(own):
            state = integer_seed(self.seed, Purpose.RELABEL, round, spec.stream_id) % 2**32
            own.set_params(random_state=state)
        return own

    def _draws(self, spec, round):
        """Uniforms of the client's training rows; a row's draws do not depend on which rows were set aside."""
        shape = (len(spec.rows), len(self.classes))
        return uniforms(self.seed, Purpose.RELABEL, shape, round, spec.stream_id)[places(spec)]


def places(spec):
    """Positions of the training rows among all rows of the client."""
    return np.searchsorted(spec.rows, spec.train_rows)


def check_finite(Q, spec, round):
    """`Q` itself, if all of a client's posteriors are finite."""
    finite = torch.isfinite(Q).all(dim=1)
    if not finite.all():
        row = int(finite.int().argmin())
        raise NotFiniteError(
            f"{_where(spec, round)}: the posterior of its row {row} is not finite, got {Q[row].cpu().numpy()}."
        )
    return Q


def _where(spec, round):
    return f"Relabeling of client {spec.key!r} before round {round}"


@contextmanager
def _named(spec, round):
    """Errors name the client and the round."""
    try:
        yield
    except NotFiniteError as error:
        raise NotFiniteError(f"{_where(spec, round)}: {error}") from error
    except Exception as error:
        raise ClientError(f"{_where(spec, round)} failed: {type(error).__name__}: {error}") from error


def _params(relabeler):
    return relabeler.get_params(deep=False) if hasattr(relabeler, "get_params") else {}
