"""Rows of a sparse matrix, handed out as dense tensors a few at a time."""

import numpy as np
import scipy.sparse
import torch


class SparseRows:
    """Stands where a tensor of rows would: indexing gives dense tensors, of the asked rows only.

    Parameters
    ----------
    matrix : scipy.sparse.csr_array of shape (n_rows, n_columns)
        In the dtype of the module.
    device : str or torch.device
        Where dense rows go.
    """

    ndim = 2

    def __init__(self, matrix, device="cpu"):
        self.matrix = matrix
        self.device = torch.device(device)

    @property
    def shape(self):
        """(n_rows, n_columns)."""
        return torch.Size(self.matrix.shape)

    @property
    def dtype(self):
        """Dtype of the dense tensors."""
        return torch.from_numpy(self.matrix.data[:0]).dtype

    def __len__(self):
        return self.matrix.shape[0]

    def __getitem__(self, rows):
        """Dense rows, by a slice, a list or a one-dimensional tensor of positions."""
        return torch.from_numpy(self.matrix[_positions(rows)].toarray()).to(self.device)

    def index_select(self, dim, rows):
        """As `torch.Tensor.index_select` along the rows."""
        return self[rows]

    def take(self, rows):
        """Rows that stay sparse."""
        return SparseRows(self.matrix[_positions(rows)], self.device)

    def with_rows(self, dense):
        """These rows and dense ones behind them."""
        added = scipy.sparse.csr_array(dense.cpu().numpy())
        return SparseRows(scipy.sparse.vstack([self.matrix, added], format="csr"), self.device)


def _positions(rows):
    return rows.cpu().numpy() if isinstance(rows, torch.Tensor) else rows


def take_rows(X, rows):
    """Rows of a tensor or of `SparseRows`, of the same kind.

    Parameters
    ----------
    X : tensor of shape (n_rows, ...) or SparseRows
    rows : ndarray of int64
    """
    return X.take(rows) if isinstance(X, SparseRows) else X[torch.from_numpy(np.asarray(rows))]


def append_rows(X, parts):
    """`X` with the rows of dense tensors behind its own."""
    if isinstance(X, SparseRows):
        return X.with_rows(torch.cat(parts)) if parts else X
    return torch.cat([X, *parts])
