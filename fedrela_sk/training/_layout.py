"""How images lie in memory: channels last where a module computes the same and a CPU is faster with it."""

import scipy.sparse
import torch
from torch import nn

from fedrela_sk._random import Purpose
from fedrela_sk._tree import copy
from fedrela_sk.training._net import forward, tensors_of
from fedrela_sk.training._sparse import SparseRows
from fedrela_sk.training.runtime._generator import forked_generators, seed_generators
from fedrela_sk.training.runtime._replica import replica_of
from fedrela_sk.training.stacked._proof import close, without_dropout


def laid_out(net, X):
    """The same rows, images with their channels last in memory if the module allows it; else `X` itself.

    Shapes and values stay. Convolutions and poolings on a CPU take about a sixth less time; a module that
    reads memory in a given order (`Tensor.view` of an activation) keeps the usual layout.

    Parameters
    ----------
    net : initialized skorch net
    X : tensor of shape (n_rows, ...)
    """
    images = X.ndim == 4 and X.shape[1] > 1 and X.device.type == "cpu"
    if not (images and any(isinstance(layer, nn.Conv2d) for layer in net.module_.modules())):
        return X
    rows = X[:2].clone()
    last = rows.contiguous(memory_format=torch.channels_last)
    with forked_generators(net.device), torch.no_grad():
        try:
            usual, other = (_answer(net, batch) for batch in (rows, last))
        except Exception:  # the usual layout is the one that the module is known to run with
            return X
    return X.contiguous(memory_format=torch.channels_last) if close(usual, other) else X


def _answer(net, X):
    """Output in training mode, of a copy; whatever the module draws is the same every time."""
    seed_generators(net.device, 0, Purpose.MODULE)
    net = replica_of(net, copy(tensors_of(net.module_)))
    without_dropout(net.module_)
    return forward(net, X.clone())


def to_array(X):
    """(array, whether channels were last) of a tensor on the CPU, whose memory the array holds in its order.

    `SparseRows` give their matrix.
    """
    if isinstance(X, SparseRows):
        return X.matrix, False
    last = X.ndim == 4 and not X.is_contiguous() and X.is_contiguous(memory_format=torch.channels_last)
    return (X.permute(0, 2, 3, 1) if last else X).numpy(), last


def from_array(array, last):
    """What `to_array` took apart."""
    if scipy.sparse.issparse(array):
        return SparseRows(array)
    X = torch.from_numpy(array)
    return X.permute(0, 3, 1, 2) if last else X
