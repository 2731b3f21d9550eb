"""The relabelling step of many clients: in one pass over all their rows where the relabeler is FedReLa's own."""

import numpy as np
import torch
from sklearn.base import clone

from fedrela_sk._checks import check_classes, encode_labels
from fedrela_sk._random import Purpose, integer_seeds, stream_keys, uniforms_at
from fedrela_sk.federation.relabeling._one_client import (
    ClientRelabeling,
    check_posteriors,
    collect_posteriors,
    places,
    relabel_alone,
    targets_of,
    with_classes,
)
from fedrela_sk.relabel import FedReLaRelabeler
from fedrela_sk.relabel._many import relabel_many

# kinds of devices on which the posteriors of all clients stay and are compared; elsewhere NumPy does it
ACCELERATORS = {"cuda"}


def relabel_clients(
    relabeler,
    specs,
    model,
    X,
    y,
    codes,
    classes,
    round,
    seed,
    settings,
    batch_size,
    weights=None,
    recorded=None,
    *,
    eps=None,
    targets=None,
):
    """Relabel many clients: a plain `FedReLaRelabeler` in one pass over all their rows, others one by one.

    Both ways give a client the same labels from its own rows alone; posteriors are collected client by client,
    where they were not recorded in training. Where they lie on an accelerator, the pass over all rows and
    classes runs there in float64.

    Parameters
    ----------
    relabeler : object with `fit(Q, y)` and `relabel(Q, y, uniforms=...)`
        Left as it is; copies are fitted.
    specs : list of ClientSpec
        At least one.
    model : callable of ClientSpec
        The initialised skorch net, holding the model that this client relabels with.
    X : tensor of shape (n_rows, ...)
        The rows of all clients.
    y : ndarray of shape (n_rows,)
        Their original labels.
    codes : ndarray of shape (n_rows,), int64
        The same as positions in `classes`.
    classes : ndarray of shape (n_classes,)
    round, seed : int
    settings : dict
        As `check_relabel_posteriors` returns it.
    batch_size : int
    weights : ndarray of shape (n_rows,) or None
        Row weights; every client has a positive one.
    recorded : dict or None
        Position of every client to the posteriors that it recorded in training, float64 tensors; None: they are
        collected now, from its `model`.
    eps : float or None
        Unit in the last place of the arithmetic of the net: posteriors no further apart than it explains are equal.
    targets : ndarray of shape (n_classes,), bool, or None
        Classes that some client has rows of; no row is relabelled into the others. None: all classes.

    Returns
    -------
    results : list of ClientRelabeling
    """

    def collect(spec):
        if recorded is not None:
            return check_posteriors(recorded[spec.position], spec, round)
        own = X[torch.from_numpy(spec.train_rows)]
        return collect_posteriors(model(spec), own, len(classes), spec, round, seed, settings, batch_size)

    def alone(spec, Q):
        rows = spec.train_rows
        own_weights = None if weights is None else weights[rows]
        return relabel_alone(
            relabeler, Q, y[rows], classes, spec, round, seed, own_weights, eps=eps, targets=targets
        )

    if type(relabeler) is not FedReLaRelabeler:
        return [alone(spec, collect(spec).cpu().numpy()) for spec in specs]
    rows = np.concatenate([spec.train_rows for spec in specs])
    Q = torch.empty((len(rows), len(classes)), dtype=torch.float64, device=X.device)
    parts = Q.split([len(spec.train_rows) for spec in specs])
    for spec, part in zip(specs, parts, strict=True):
        part.copy_(collect(spec))
    try:
        return relabel_together(
            relabeler,
            Q if Q.device.type in ACCELERATORS else Q.cpu().numpy(),
            y[rows],
            codes[rows],
            classes,
            specs,
            round,
            seed,
            None if weights is None else weights[rows],
            eps=eps,
            targets=targets,
        )
    except ValueError:  # of some client's rows: by itself it raises an error with its name
        return [alone(spec, part.cpu().numpy()) for spec, part in zip(specs, parts, strict=True)]


def relabel_together(relabeler, Q, y, codes, classes, specs, round, seed, weights, *, eps=None, targets=None):
    """The same of many clients in one pass; arrays hold their rows one client after the other."""
    relabeler = with_classes(clone(relabeler), classes)
    column = encode_labels(classes, check_classes(relabeler.classes, len(classes)))  # of every class
    keys = stream_keys(seed, Purpose.RELABEL, round, [spec.stream_id for spec in specs])
    sizes = np.array([len(spec.train_rows) for spec in specs])
    client = np.repeat(np.arange(len(specs)), sizes)
    place = np.concatenate([places(spec) for spec in specs])

    def draws(row, column):
        return uniforms_at(keys[client[row]], place[row] * len(classes) + column)

    states = (integer_seeds(keys) % 2**32).tolist()
    targets = targets_of(relabeler, targets, classes)
    new, relabelers = relabel_many(
        relabeler, Q, y, column[codes], sizes, draws, states, weights, eps, targets
    )
    ends = np.cumsum(sizes)[:-1]
    new, keep = np.split(np.argsort(column)[new], ends), np.split(np.ones(len(new), dtype=bool), ends)
    return [ClientRelabeling(round, *each) for each in zip(relabelers, new, keep, strict=True)]
