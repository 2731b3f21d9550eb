"""Everything before round 0: the data checked, the clients made, the net built, the rows set aside."""

from dataclasses import dataclass
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse
import torch

from fedrela_sk._random import seed_from
from fedrela_sk._warnings import warn_user
from fedrela_sk.algorithms._derived import check_sharing
from fedrela_sk.exceptions import FedReLaWarning, NetError, PartitionError
from fedrela_sk.federation.clients._counts import check_class_weight
from fedrela_sk.federation.relabeling._report import note_of_weights
from fedrela_sk.federation.relabeling._schedule import relabel_round
from fedrela_sk.federation.relabeling._settings import check_relabel_posteriors
from fedrela_sk.federation.setup._inputs import (
    check_finite,
    check_new_rows,
    check_row_weights,
    check_rows,
    declared_classes,
    encode_labels,
    to_tensor,
)
from fedrela_sk.federation.setup._parameters import (
    check_algorithm,
    check_local_data,
    check_participation,
    check_recording,
    check_relabeler,
    check_validation,
)
from fedrela_sk.federation.setup._partition import make_clients
from fedrela_sk.federation.setup._server_rows import auxiliary_rows
from fedrela_sk.federation.setup._validation import Validation, rows_of_the_callers, set_aside, with_clients
from fedrela_sk.training import LocalData
from fedrela_sk.training._layout import laid_out
from fedrela_sk.training._net import build_net, check_forward, floating_dtype, read_settings

# Parameters of `FederatedClassifier` that the rounds read as they are.
_AS_GIVEN = (
    "relabeler", "relabel_every", "n_rounds", "participation", "client_weight", "class_weight", "lr_schedule",
    "select", "local_data",
)  # fmt: skip


@dataclass(frozen=True)
class Plan:
    """Everything a fit knows before its first round.

    Attributes
    ----------
    specs : list of ClientSpec
        All clients by key, empty ones included.
    data : LocalData
    labels : ndarray of shape (n_rows,)
        Original labels.
    codes : ndarray of shape (n_rows,), int64
        Original labels as positions in `classes`.
    classes : ndarray of shape (n_classes,)
    weights : ndarray of shape (n_rows,) or None
        Row weights in float64.
    validation : Validation or None
    algorithm : Algorithm
    relabeler : object or None
    first_relabel : int or None
    relabel_every : int or None
    relabel_posteriors : dict
    n_rounds : int
    participation : float or Participation
    client_weight, class_weight, lr_schedule : as in `FederatedClassifier`
    select : str
    seed : int
    notes : tuple of str
        What the history should say of the partition.
    auxiliary : (tensor, tensor) or None
        Rows that the server holds, and their classes.
    local_data : object or None
        What changes each client's rows before it trains.
    targets : ndarray of shape (n_classes,), bool, or None
        Classes that somebody has; the others were declared, and nothing is relabeled into them. None: all.
    """

    specs: list
    data: LocalData
    labels: np.ndarray
    codes: np.ndarray
    classes: np.ndarray
    weights: np.ndarray | None
    validation: Validation | None
    algorithm: Any
    relabeler: Any
    first_relabel: int | None
    relabel_every: int | None
    relabel_posteriors: dict
    n_rounds: int
    participation: Any
    client_weight: Any
    class_weight: Any
    lr_schedule: Any
    select: str
    seed: int
    notes: tuple = ()
    auxiliary: tuple | None = None
    local_data: Any = None
    targets: np.ndarray | None = None

    @property
    def records(self):
        """Whether clients record the posteriors that they relabel by while they train."""
        return self.relabel_posteriors["passes"] == "training"


def make_plan(estimator, X, y, groups=None, sample_weight=None, *, X_val=None, y_val=None, groups_val=None):
    """The plan of a fit and its net.

    Parameters
    ----------
    estimator : FederatedClassifier
        Its parameters are read; number and names of the features are written.
    X, y, groups, sample_weight, X_val, y_val, groups_val
        As at `FederatedClassifier.fit`.

    Returns
    -------
    plan : Plan
    net : initialized skorch net

    Raises
    ------
    ValueError
        For whatever is wrong with data or parameters; several kinds of it have names in
        `fedrela_sk.exceptions`.
    """
    check_relabeler(estimator.relabeler)
    X, y = check_rows(estimator, X, y)
    encoded = encode_labels(y, declared_classes(estimator))
    codes, classes = encoded.codes, encoded.classes
    seed = seed_from(estimator.random_state)
    specs, notes = make_clients(estimator.clients, X, y, groups, seed)
    check_finite(X, specs)
    weights = check_row_weights(sample_weight, X)
    check_class_weight(estimator.class_weight, classes)
    algorithm = check_algorithm(estimator.algorithm)
    check_local_data(estimator.local_data, algorithm)
    check_participation(estimator.participation, algorithm)
    relabel_posteriors = check_relabel_posteriors(estimator.relabel_posteriors)
    if estimator.relabeler is not None:
        check_recording(relabel_posteriors, algorithm, estimator.local_data)
    net = build_net(
        estimator.estimator,
        X,
        codes,
        len(classes),
        seed,
        prepare=algorithm.prepare_module,
        own_loss=algorithm.own_loss,
        bare=algorithm.bare_loss,
    )
    check_sharing(algorithm, net.module_.state_dict())
    names = getattr(estimator, "feature_names_in_", None)
    X = laid_out(net, _rows_for(net, X, specs, len(classes), names))
    check_validation(estimator.validation, estimator.select, X_val, y_val, groups_val)
    check_new = partial(check_new_rows, estimator)
    validation = None
    if X_val is not None:
        whole = not X.dtype.is_floating_point
        validation = rows_of_the_callers(check_new(X_val, "X_val"), y_val, classes, net, whole, names)
        validation = with_clients(validation, groups_val, specs, algorithm)
    elif estimator.validation is not None:
        specs, validation = set_aside(specs, estimator.validation, X, codes, weights, seed)
    rows = _rows_in_training(specs, weights, estimator.validation)
    first_relabel = _first_relabel(estimator)
    if first_relabel is not None:
        notes = (*notes, *note_of_weights(estimator.relabeler, specs, codes, weights))
    plan = Plan(
        specs=specs,
        data=_local_data(X, weights, estimator.local_data, floating_dtype(net.module_)),
        labels=np.asarray(y),
        codes=codes,
        classes=classes,
        weights=weights,
        validation=validation,
        algorithm=algorithm,
        first_relabel=first_relabel,
        relabel_posteriors=relabel_posteriors,
        seed=seed,
        notes=(*notes, *_leak(algorithm.auxiliary), *_caution(algorithm, specs, weights, net)),
        targets=_targets(codes, len(classes)),
        auxiliary=auxiliary_rows(algorithm.auxiliary, X, codes, rows, classes, net=net, check=check_new),
        **{name: getattr(estimator, name) for name in _AS_GIVEN},
    )
    return plan, net


def _rows_in_training(specs, weights, share):
    """Rows of all clients that are not set aside and have a weight, ascending; an error if there is none."""
    rows = np.sort(np.concatenate([spec.train_rows for spec in specs]))
    rows = rows if weights is None else rows[weights[rows] > 0]
    if not len(rows):
        raise PartitionError(
            f"All clients are empty: validation={share} set every row with a weight aside. Use a smaller share."
        )
    return rows


def _targets(codes, n_classes):
    """Which classes have rows, None where all have: a class that was declared only is no target of relabeling."""
    known = np.bincount(codes, minlength=n_classes) > 0
    return None if known.all() else known


def _leak(auxiliary):
    """What the history should say where the server holds rows that clients own."""
    if not isinstance(auxiliary, Integral):
        return ()
    return (
        f"auxiliary={auxiliary}: the server holds up to {auxiliary} rows of each class of the clients' own data. "
        "Pass a pair (X, y) of rows that no client has where that matters.",
    )


def _caution(algorithm, specs, weights, net):
    """What the method says of its hyper-parameters; also one warning."""
    if not algorithm.uses("caution"):
        return ()
    settings = read_settings(net)
    some = [spec for spec in specs if len(spec.train_rows)]
    if weights is not None:
        some = [spec for spec in some if weights[spec.train_rows].any()]
    steps = np.median([settings.n_steps(len(spec.train_rows)) for spec in some])
    text = algorithm.caution(settings.lr, float(steps))
    if text is None:
        return ()
    warn_user(text, FedReLaWarning)
    return (text,)


def _local_data(X, weights, local_data, dtype):
    weights = None if weights is None else torch.from_numpy(weights).to(X.device, dtype)
    return LocalData(X, weights, local_data if hasattr(local_data, "mix") else None, dtype)


def _rows_for(net, X, specs, n_classes, names):
    """All rows as the module takes them: floating numbers, or int64 where it fails on those and X is integer."""
    try:
        rows = to_tensor(X, net, specs, names=names)
        check_forward(net, rows, n_classes)
    except NetError as error:
        if X.dtype.kind not in "iu" or scipy.sparse.issparse(X):
            raise
        try:
            rows = to_tensor(X, net, specs, whole=True)
            check_forward(net, rows, n_classes)
        except NetError:
            raise error from None
    return rows


def _first_relabel(estimator):
    if estimator.relabeler is None:
        return None
    return relabel_round(estimator.relabel_at, estimator.n_rounds)
