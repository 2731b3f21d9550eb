"""The relabeling step of all clients of a round: `RelabelStep` for many at once, where the relabeler allows it."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from sklearn.base import clone

from fedrela_sk._checks import check_classes, encode_labels
from fedrela_sk._random import Purpose, integer_seeds, stream_keys, uniforms_at
from fedrela_sk.federation.relabeling._one_client import ClientRelabeling, check_finite, places
from fedrela_sk.relabel._contract import Told
from fedrela_sk.relabel._relabeler import overrides_nothing
from fedrela_sk.relabel.many._pass import ManyRows, relabel_many

# kinds of devices on which the posteriors of all clients stay and are compared; elsewhere NumPy does it
ACCELERATORS = {"cuda"}


@dataclass(frozen=True)
class AllRows:
    """The rows of all clients, each where `ClientSpec` says; a client's own part is all that its step is shown.

    Attributes
    ----------
    X : tensor of shape (n_rows, ...)
    y : ndarray of shape (n_rows,)
        Original labels.
    codes : ndarray of shape (n_rows,), int64
        The same as positions in the classes.
    weights : ndarray of shape (n_rows,) or None
        Row weights; every client has a positive one.
    """

    X: torch.Tensor
    y: np.ndarray
    codes: np.ndarray
    weights: np.ndarray | None = None

    def weights_of(self, rows):
        """Weights of some rows; None without weights."""
        return None if self.weights is None else self.weights[rows]


def relabel_clients(step, specs, round, rows, model, *, recorded=None):
    """Relabel many clients: a `FedReLaRelabeler` in one pass over all their rows, others one by one.

    Both ways give a client the same labels from its own rows; posteriors are collected client by client where they
    were not recorded in training. A relabeler whose class overrides a method is fitted and asked client by client.
    Where posteriors lie on an accelerator, the pass over all rows and classes runs there in float64.

    Parameters
    ----------
    step : RelabelStep
    specs : list of ClientSpec
        At least one.
    round : int
    rows : AllRows
    model : callable of ClientSpec
        The initialized skorch net, holding the model that this client relabels with.
    recorded : dict or None
        Position of every client to the posteriors that it recorded in training, float64 tensors; None: they are
        collected now, from its `model`.

    Returns
    -------
    results : list of ClientRelabeling
    """

    def posteriors(spec):
        if recorded is not None:
            return check_finite(recorded[spec.position], spec, round)
        return step.posteriors(model(spec), rows.X[torch.from_numpy(spec.train_rows)], spec, round)

    def by_itself(spec, Q):
        own = spec.train_rows
        return step.relabel(Q.cpu().numpy(), rows.y[own], spec, round, rows.weights_of(own))

    if not overrides_nothing(step.relabeler):
        return [by_itself(spec, posteriors(spec)) for spec in specs]
    sizes = [len(spec.train_rows) for spec in specs]
    Q = torch.empty((sum(sizes), len(step.classes)), dtype=torch.float64, device=rows.X.device)
    parts = Q.split(sizes)
    for spec, part in zip(specs, parts, strict=True):
        part.copy_(posteriors(spec))
    try:
        return relabel_together(step, specs, round, _many_rows(specs, Q, rows))
    except ValueError:  # of some client's rows: by itself it raises an error with its name
        return [by_itself(spec, part) for spec, part in zip(specs, parts, strict=True)]


def _many_rows(specs, Q, rows):
    """The rows of some clients, one client after the other."""
    own = np.concatenate([spec.train_rows for spec in specs])
    Q = Q if Q.device.type in ACCELERATORS else Q.cpu().numpy()
    sizes = np.array([len(spec.train_rows) for spec in specs])
    return ManyRows(Q, rows.y[own], rows.codes[own], sizes, rows.weights_of(own))


def relabel_together(step, specs, round, rows):
    """``step.relabel`` of many clients in one pass.

    Parameters
    ----------
    step : RelabelStep
        Of a relabeler that overrides nothing.
    specs : list of ClientSpec
    round : int
    rows : ManyRows
        Of these clients, codes being positions in the classes of the step.

    Returns
    -------
    results : list of ClientRelabeling

    Raises
    ------
    ValueError
        Of some client's rows; it does not say which.
    """
    relabeler, n_classes = step.with_classes(clone(step.relabeler)), len(step.classes)
    column = encode_labels(step.classes, check_classes(relabeler.classes, n_classes))  # of every class
    keys = stream_keys(step.seed, Purpose.RELABEL, round, [spec.stream_id for spec in specs])
    place = np.concatenate([places(spec) for spec in specs])

    def draws(row, column):
        return uniforms_at(keys[rows.client[row]], place[row] * n_classes + column)

    new, relabelers = relabel_many(
        relabeler,
        replace(rows, codes=column[rows.codes]),
        draws,
        (integer_seeds(keys) % 2**32).tolist(),
        Told(step.eps, step.targets_for(relabeler)),
    )
    codes = np.split(np.argsort(column)[new], np.cumsum(rows.sizes)[:-1])
    return [
        ClientRelabeling(round, own, part, np.ones(len(part), dtype=bool))
        for own, part in zip(relabelers, codes, strict=True)
    ]
