"""What one relabelling changed, and why."""

from dataclasses import dataclass, fields

import numpy as np

from fedrela_sk._optional import data_frame


@dataclass(frozen=True)
class RelabelReport:
    """The changed rows of one relabelling, one entry per row, rows ascending.

    Attributes
    ----------
    row : ndarray of shape (n_changed,), int
        Position among the rows given to `relabel`.
    old, new : ndarray of shape (n_changed,)
        Original and new label.
    posterior, z, threshold, rho : ndarray of shape (n_changed,), float64
        Of the new class: posterior, normalised posterior, the column's threshold, and the probability with which
        the draw for this class succeeds.
    """

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
        return f"RelabelReport({len(self)} rows changed; to_frame() shows them)"

    def to_dict(self):
        """Name to array, in the order of the attributes."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def to_frame(self):
        """As a pandas data frame.

        Raises
        ------
        ImportError
            pandas is not installed.
        """
        return data_frame(self.to_dict())
