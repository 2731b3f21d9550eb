"""The tensors of the clients that train together."""

from dataclasses import dataclass

import numpy as np
import torch


@dataclass
class Stack:
    """The clients of a chunk that still train, each tensor with a leading client axis.

    Attributes
    ----------
    params : dict of leaf tensors
        Trainable and frozen parameters.
    buffers : dict of tensors
    facts : dict
        What hooks read of each client: dictionaries "anchor" (tensors as received), "state", "start", and the
        tensor "counts" where classes are counted.
    mask : tensor of shape (n_clients, width)
        1 for real rows of the current batch, 0 for padding.
    lengths : tensor of shape (n_clients,)
        Real rows of the current batch.
    frozen_norm : tensor of shape (n_clients,), bool
        Clients of one row, whose BatchNorm stays in evaluation mode.
    places : ndarray of shape (n_clients, width), int64, or None
        Where posteriors of the current batch are recorded, as `Recording.see` takes it; None: nowhere.
    """

    params: dict
    buffers: dict
    facts: dict
    frozen_norm: torch.Tensor
    mask: torch.Tensor | None = None
    lengths: torch.Tensor | None = None
    places: np.ndarray | None = None

    def first(self, n):
        """The first `n` clients, as views on the same memory; parameters are leaves again."""
        cut = lambda tree: {name: tensor[:n] for name, tensor in tree.items()}  # noqa: E731
        params = {
            name: tensor.detach()[:n].requires_grad_(tensor.requires_grad)
            for name, tensor in self.params.items()
        }
        facts = {
            name: cut(entry) if isinstance(entry, dict) else entry[:n] for name, entry in self.facts.items()
        }
        return Stack(params, cut(self.buffers), facts, self.frozen_norm[:n])
