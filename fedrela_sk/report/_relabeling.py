"""Which rows of which client were relabelled, and why."""

from dataclasses import dataclass, fields

import numpy as np

from fedrela_sk._optional import data_frame
from fedrela_sk._typing import DataFrame


@dataclass(frozen=True)
class RelabelingReport:
    """The changed rows of all clients, one entry per row, ordered by client and row.

    Attributes
    ----------
    client : ndarray of shape (n_changed,)
        Keys of the clients.
    round : ndarray of int
        Index of the round before which the client relabelled.
    row : ndarray of int
        Row of the data given to `fit`.
    old, new : ndarray
        Original and new label.
    posterior, z, threshold, rho : ndarray of float64
        Of the new class, as the client's relabeler saw them; NaN where a relabeler keeps no such number.
    """

    client: np.ndarray
    round: np.ndarray
    row: np.ndarray
    old: np.ndarray
    new: np.ndarray
    posterior: np.ndarray
    z: np.ndarray
    threshold: np.ndarray
    rho: np.ndarray

    def __len__(self):
        return len(self.row)

    def __repr__(self):
        clients = len(set(self.client.tolist()))
        return f"RelabelingReport({len(self)} rows changed at {clients} clients; to_frame() shows them)"

    def to_frame(self) -> DataFrame:
        """As a pandas data frame; needs pandas."""
        return data_frame({field.name: getattr(self, field.name) for field in fields(self)})
