"""What a relabeling changed, and why: one entry per changed row."""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from fedrela_sk._optional import data_frame
from fedrela_sk._typing import DataFrame


@dataclass(frozen=True)
class RelabelReport:
    """The changed rows of one relabeling, or of the latest of every client of a federation.

    One entry per row; rows ascend, at each client in turn.

    Attributes
    ----------
    row : ndarray of shape (n_changed,), int
        Position among the rows given to `relabel`; of a federation, among those given to its `fit`.
    old, new : ndarray of shape (n_changed,)
        Original and new label.
    posterior, z, threshold, rho : ndarray of shape (n_changed,), float64
        Of the new class: posterior, normalized posterior, the column's threshold, and the probability with which
        the draw for this class succeeds. NaN where a relabeler keeps no such number.
    client : ndarray of shape (n_changed,), or None
        Keys of the clients; None outside a federation.
    round : ndarray of shape (n_changed,), int, or None
        Index of the round before which the client relabeled; None outside a federation.
    """

    row: np.ndarray
    old: np.ndarray
    new: np.ndarray
    posterior: np.ndarray
    z: np.ndarray
    threshold: np.ndarray
    rho: np.ndarray
    client: np.ndarray | None = None
    round: np.ndarray | None = None

    def __len__(self):
        return len(self.row)

    def __repr__(self):
        where = "" if self.client is None else f" at {len(set(self.client.tolist()))} clients"
        return f"RelabelReport({len(self)} rows changed{where}; to_frame() shows them)"

    def to_dict(self) -> Any:
        """Name to array, client and round first where they are known."""
        names = ["client", "round"] if self.client is not None else []
        names += [field.name for field in fields(self)][:7]
        return {name: getattr(self, name) for name in names}

    def to_frame(self) -> DataFrame:
        """As a pandas data frame.

        Raises
        ------
        ImportError
            pandas is not installed.
        """
        return data_frame(self.to_dict())
