"""Posteriors of a model for given rows."""

from contextlib import contextmanager

import torch

from fedrela_sk import _tree
from fedrela_sk.nets import Augmentation
from fedrela_sk.training._criterion import check_output, posteriors_of
from fedrela_sk.training._net import BATCH_NORMS, batch_bounds, forward, tensors_of, write_tensors
from fedrela_sk.training.runtime._replica import private_copy

# Rows of one forward pass in evaluation mode; the value changes no posterior but by rounding.
EVAL_ROWS = 1024


def posteriors(net, X, n_classes, batch_size=EVAL_ROWS):
    """Posteriors in evaluation mode.

    Parameters
    ----------
    net : initialized skorch net
    X : tensor of shape (n_rows, ...)
        In the module's dtype, on its device.
    n_classes : int

    Returns
    -------
    Q : ndarray of shape (n_rows, n_classes), float64
    """
    return in_evaluation(net, X, n_classes, batch_size).cpu().numpy()


def in_evaluation(net, X, n_classes, batch_size=EVAL_ROWS, one_width=False):
    """The same as a tensor on the device of `X`.

    With `one_width` all batches of more rows than one batch have as many rows: the last one starts earlier, and what
    it repeats is thrown away. A matrix product may add in another order for another number of rows, so equal rows
    would have unequal posteriors.
    """
    net = private_copy(net)
    net.module_.eval()
    Q = torch.empty((len(X), n_classes), dtype=torch.float64, device=X.device)
    with torch.no_grad():
        for start, stop in batch_bounds(len(X), batch_size) if len(X) else ():
            first = max(stop - batch_size, 0) if one_width and start else start
            output = forward(net, X[first:stop].clone())  # a module may write to its input
            check_output(output, net.criterion_, n_classes)
            Q[start:stop] = posteriors_of(net.criterion_, output)[start - first :]
    return Q


def unit_of(module):
    """Unit in the last place of the coarsest floating dtype among a module's parameters; float32's without any."""
    dtypes = {p.dtype for p in module.parameters() if p.is_floating_point()}
    return max((torch.finfo(dtype).eps for dtype in dtypes), default=torch.finfo(torch.float32).eps)


def client_posteriors(net, X, n_classes, *, passes, augment, mode, batch_size, stream):
    """Posteriors of one client's rows as the relabeling sees them: a mean over passes.

    Parameters
    ----------
    net : initialized skorch net
        Holding the model; its buffers are the same afterwards.
    X : tensor of shape (n_rows, ...)
    n_classes : int
    passes : int >= 1
    augment : bool
        Whether `fedrela_sk.nets.Augmentation` layers augment.
    mode : {"eval", "train"}
        Mode of all other layers. "train" visits the rows in shuffled batches of the training size, so that
        BatchNorm uses the statistics of batches, as the released code does.
    batch_size : int
        Rows of a batch in mode "train".
    stream : numpy.random.Generator
        Orders the rows; torch's own generator is seeded by the caller.

    Returns
    -------
    Q : tensor of shape (n_rows, n_classes), float64
        On the device of `X`.
    """
    if mode == "eval" and not augment:
        return in_evaluation(net, X, n_classes, one_width=True)  # every pass would be the same
    net = private_copy(net)
    total = torch.zeros((len(X), n_classes), dtype=torch.float64, device=X.device)
    # BatchNorm has no statistics of one row
    frozen = [layer for layer in net.module_.modules() if isinstance(layer, BATCH_NORMS) and len(X) == 1]
    with _modes(net.module_, mode == "train", augment, frozen), torch.no_grad():
        for _ in range(passes):
            order = stream.permutation(len(X))
            for start, stop in batch_bounds(len(X), batch_size, merge_single=True):
                rows = torch.from_numpy(order[start:stop])
                output = forward(net, X[rows])
                total[rows] += posteriors_of(net.criterion_, output)
    return total / passes


@contextmanager
def _modes(module, train, augment, frozen):
    """Set the modes of a module's layers, those in `frozen` to evaluation; buffers come back as they were."""
    kept = _tree.copy(tensors_of(module))
    module.train(train)
    for layer in module.modules():
        if isinstance(layer, Augmentation):
            layer.train(augment)
    for layer in frozen:
        layer.eval()
    try:
        yield
    finally:
        write_tensors(module, kept)
        module.eval()
