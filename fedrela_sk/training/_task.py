"""What an engine is given: the data once, one task per client and round, and instructions for all of them."""

from dataclasses import dataclass, field, replace
from itertools import pairwise
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
    def dtype(self) -> Any:
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

    def weighted(self, weights: Any) -> Any:
        """The same task with the weight of its client's position."""
        return replace(self, weight=weights[self.client.position])


@dataclass(frozen=True)
class Instructions:
    """What holds for all clients that train in one round.

    Attributes
    ----------
    round : int
        0-based index.
    server : dict of tensors
        What the server sends along with the model, ``local.server`` of the hooks.
    lr_factor : float
        Factor on the net's learning rates in this round.
    progress : float in [0, 1)
        Share of all rounds that are over, for criteria that change with it.
    """

    round: int
    server: dict = field(default_factory=dict)
    lr_factor: float = 1.0
    progress: float = 0.0


def even_parts(items, n_parts):
    """A list cut into `n_parts` parts whose lengths differ by at most one; no part of an empty list."""
    if not items:
        return []
    cuts = [round(len(items) * i / n_parts) for i in range(n_parts + 1)]
    return [items[start:stop] for start, stop in pairwise(cuts)]
