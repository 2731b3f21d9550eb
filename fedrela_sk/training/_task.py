"""What an engine is given: the data once, and one task per client and round."""

from dataclasses import dataclass
from typing import Any

import torch

from fedrela_sk._update import ClientSpec


@dataclass(frozen=True)
class LocalData:
    """One tensor each for all clients; a client is an index array.

    Attributes
    ----------
    X : tensor of shape (n_rows, ...) or SparseRows
        In the module's dtype, or int64 for modules that want integers; on its device.
    weights : tensor of shape (n_rows,) or None
        Row weights in the module's dtype, None where all are one.
    mixing : Mixup or None
        Mixes the rows of every batch.
    module_dtype : torch.dtype
        That of the module's parameters.
    """

    X: torch.Tensor
    weights: torch.Tensor | None = None
    mixing: Any = None
    module_dtype: torch.dtype = torch.float32

    @property
    def dtype(self):
        """Dtype of losses and weights: that of the rows, or of the module where rows are integers."""
        return self.X.dtype if self.X.dtype.is_floating_point else self.module_dtype


@dataclass(frozen=True)
class LocalTask:
    """Local training of one client in one round.

    Attributes
    ----------
    client : ClientSpec
    rows : tensor of int64
        Rows to train on, ascending.
    y : tensor of shape (len(rows),), int64
        Their current labels.
    class_weights : tensor of shape (n_classes,) or None
        Factor on the weight of a row by its current label.
    weight : float
        Weight in the aggregation.
    params : dict of tensors
        The model as this client receives it.
    state : dict of tensors
        What the client kept since it last took part.
    counts : tensor of shape (n_classes,) or None
        The client's rows of each class, for losses that count.
    record : bool
        Whether the last local epoch records the posteriors of the client's training rows.
    """

    client: ClientSpec
    rows: torch.Tensor
    y: torch.Tensor
    class_weights: torch.Tensor | None
    weight: float
    params: dict
    state: dict
    counts: torch.Tensor | None = None
    record: bool = False
