"""One relabelling of many clients, their posteriors given: what the speed suite and the GPU check measure."""

import numpy as np

from fedrela_sk._random import client_stream_id
from fedrela_sk._update import ClientSpec


def many_clients(n_clients, n_rows, n_classes):
    """Posteriors that lean to the right class, and who holds which rows.

    Parameters
    ----------
    n_clients : int
    n_rows : int
        Of a client on average; at least one each.
    n_classes : int
        The last one a tenth as common as the first.

    Returns
    -------
    Q : ndarray of shape (rows of all clients, n_classes)
    y : ndarray of shape (rows of all clients,), int
    clients : list of ClientSpec
    """
    stream = np.random.default_rng(0)
    sizes = np.maximum(1, stream.poisson(n_rows, n_clients))
    share = 0.1 ** (np.arange(n_classes) / (n_classes - 1))
    y = stream.choice(n_classes, sizes.sum(), p=share / share.sum())
    logits = stream.normal(size=(len(y), n_classes))
    logits[np.arange(len(y)), y] += 1
    Q = np.exp(logits)
    Q /= Q.sum(1, keepdims=True)
    parts = np.split(np.arange(len(y)), np.cumsum(sizes)[:-1])
    return Q, y, [ClientSpec(k, client_stream_id(k), k, rows, rows) for k, rows in enumerate(parts)]
