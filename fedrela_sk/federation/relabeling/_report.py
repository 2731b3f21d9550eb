"""What a fit says of its relabeling: the report on changed rows, and notes on row weights."""

import numpy as np
from sklearn.exceptions import NotFittedError

from fedrela_sk._labels import array_of
from fedrela_sk._warnings import warn_user
from fedrela_sk.exceptions import ClientError
from fedrela_sk.relabel import FedReLaRelabeler, RelabelReport
from fedrela_sk.relabel.formulas._repetition import check_sums, describe, weights_switch_off, without_weight


def relabel_report(specs, results, y, y_relabeled):
    """`RelabelReport` over all clients.

    Parameters
    ----------
    specs : list of ClientSpec
    results : dict
        Position of a client to its latest `ClientRelabeling`.
    y, y_relabeled : ndarray of shape (n_rows,)
        Original and current labels.
    """
    nobody = np.empty(0, dtype=np.int64)
    parts = [(nobody, nobody, nobody, *[np.empty(0)] * 4)]
    for spec in specs:
        result = results.get(spec.position)
        if result is not None:
            changed = np.flatnonzero(y[spec.train_rows] != y_relabeled[spec.train_rows])
            who, when = np.full(len(changed), spec.position), np.full(len(changed), result.round)
            parts.append((who, when, spec.train_rows[changed], *_numbers(result.relabeler, changed)))
    position, round, row, *numbers = (np.concatenate(column) for column in zip(*parts, strict=True))
    keys = array_of([spec.key for spec in specs])
    return RelabelReport(row, y[row], y_relabeled[row], *numbers, client=keys[position], round=round)


def _numbers(relabeler, changed):
    """Posterior, z, threshold and rho of the changed rows, NaN where the relabeler keeps none."""
    unknown = [np.full(len(changed), np.nan) for _ in range(4)]
    try:
        report = relabeler.report()
    except (AttributeError, NotFittedError):  # it has none, or none of this relabeling
        return unknown
    if not np.array_equal(report.row, changed):
        return unknown
    return [report.posterior, report.z, report.threshold, report.rho]


def note_of_weights(relabeler, specs, codes, weights):
    """What the history should say, and a warning, where row weights change what relabeling does at clients.

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
