"""The records of one fit."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedrela_sk._optional import data_frame
from fedrela_sk._typing import Array, DataFrame
from fedrela_sk._update import Traffic
from fedrela_sk.report._round import RoundRecord


class History(Sequence):
    """One `RoundRecord` per round, in order, with facts that hold for the whole fit.

    Attributes
    ----------
    empty_clients : tuple
        Keys of the clients without a row, or with rows of weight 0 only; they are never asked.
    empty_cell_share : float in [0, 1]
        Share of (client, class) cells without a row, over the clients that have any.
    notes : list of str
        Anything out of the ordinary.
    """

    def __init__(self, empty_clients: Any = (), empty_cell_share: float = 0.0) -> None:
        self.empty_clients = tuple(empty_clients)
        self.empty_cell_share = float(empty_cell_share)
        self.notes: list[str] = []
        self._records: list[RoundRecord] = []

    def append(self, record: Any) -> None:
        """Add the record of the round that just ended."""
        self._records.append(record)

    def __len__(self):
        return len(self._records)

    def __getitem__(self, index):
        return self._records[index]

    def __repr__(self):
        return f"History({len(self)} rounds, {self.bytes_up} bytes up, {self.bytes_down} bytes down)"

    @property
    def bytes_up(self) -> Any:
        """Bytes sent by all clients in all rounds."""
        return sum(record.bytes_up for record in self)

    @property
    def bytes_down(self) -> Any:
        """Bytes sent to all clients in all rounds."""
        return sum(record.bytes_down for record in self)

    def traffic(self) -> Any:
        """Bytes of all rounds by direction and purpose, as in ``RoundRecord.traffic``.

        Returns
        -------
        nbytes : dict of dict
        """
        log = Traffic()
        for record in self:
            for direction, purposes in record.traffic.items():
                for purpose, nbytes in purposes.items():
                    log.add(direction, purpose, nbytes)
        return log.nbytes

    def column(self, name: str) -> Array:
        """One field of every record.

        Parameters
        ----------
        name : str
            A field of `RoundRecord`, "bytes_up" or "bytes_down".

        Returns
        -------
        values : ndarray of shape (n_rounds,)
            Object dtype for the fields that hold tuples.
        """
        values = [getattr(record, name) for record in self]
        if values and isinstance(values[0], tuple):
            column = np.empty(len(values), dtype=object)
            column[:] = values
            return column
        return np.asarray(values)

    def to_frame(self) -> DataFrame:
        """One row per round as a pandas data frame; needs pandas."""
        return data_frame([record.as_dict() for record in self])
