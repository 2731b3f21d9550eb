"""The proof that a stacked form trains a module as the module trains itself: equal outputs, equal gradients.

It runs on copies of the module; the module itself is left untouched.
"""

import numpy as np
import torch
from torch import nn

from fedrela_sk import _tree
from fedrela_sk.exceptions import NetError
from fedrela_sk.training._net import BATCH_NORMS, tensors_of, write_tensors
from fedrela_sk.training._sparse import SparseRows
from fedrela_sk.training.runtime._pristine import Pristine
from fedrela_sk.training.runtime._replica import independent_copy
from fedrela_sk.training.stacked._graph import NotStackable
from fedrela_sk.training.stacked._stack import Stack

# Columns that are looked at, rows that are taken, and rows among which a column's few values are looked for.
_COLUMNS, _ROWS, _SEARCHED = 32, 64, 500


def telling_rows(X):
    """Rows that reach what the data reach: of some columns the extremes, what is nearest to 0, and rare values.

    Parameters
    ----------
    X : tensor of shape (n_rows, ...)

    Returns
    -------
    rows : tensor of shape (2 to 64, ...)
        Different ones, if the data have any.
    """
    if isinstance(X, SparseRows):
        X = X[:_SEARCHED]
    flat = X.reshape(len(X), -1)
    column = (
        torch.linspace(0, flat.shape[1] - 1, min(flat.shape[1], _COLUMNS), device=X.device).long().unique()
    )
    some = flat[:, column]
    spread = torch.linspace(0, len(X) - 1, min(len(X), 4), device=X.device).long()
    picked = torch.cat([spread, some.argmin(0), some.argmax(0), some.abs().argmin(0)]).tolist()
    picked += _rare(some[:_SEARCHED].cpu().numpy())
    picked = list(dict.fromkeys(picked))[:_ROWS]
    rows = X[torch.tensor(picked, device=X.device)]
    distinct = np.unique(rows.reshape(len(rows), -1).cpu().numpy(), axis=0, return_index=True)[1]
    rows = rows[torch.from_numpy(np.sort(distinct)).to(X.device)]
    return rows if len(rows) > 1 else rows[[0, 0]]


def _rare(some):
    """First rows of every value of the columns that have few, the rarest values first."""
    found = []
    for values in some.T:
        _, first, count = np.unique(values, return_index=True, return_counts=True)
        if len(first) <= _ROWS:
            found += zip(count.tolist(), first.tolist(), strict=True)
    return [row for _, row in sorted(found)]


def prove(module, X, form):
    """Compare a stack of clients, each with weights of its own, with the module itself.

    Rows must not look at each other, gradients of every parameter must be the same (or missing in both), nothing
    outside the `state_dict` may move, and buffers may change in BatchNorm only, whose stacked form leaves padding
    out.

    Parameters
    ----------
    module : nn.Module
        Left as it is.
    X : tensor of shape (n_rows, ...)
    form : callable of a module
        Makes its stacked forward pass, a callable of (Stack, tensor of shape (n_clients, n_rows, ...)).

    Raises
    ------
    NotStackable
        With the first difference.
    """
    try:
        _prove(_in_double(module), _doubled(X), form)
    except _FailsAlone:  # code of its own that insists on a dtype
        try:
            _prove(independent_copy(module), X, form)
        except _FailsAlone as error:
            raise NotStackable(f"its forward pass fails ({error})") from error
    except NetError as error:
        raise NotStackable(str(error)) from error


class _FailsAlone(Exception):
    """The module itself cannot run."""


def _in_double(module):
    """A copy in float64: where summing in another order differs least."""
    try:
        return independent_copy(module).double()
    except NetError:
        raise
    except Exception as error:
        raise _FailsAlone(f"{type(error).__name__}: {error}") from error


def _doubled(X):
    return X.double() if X.is_floating_point() else X


def _prove(module, X, form):
    norms = any(isinstance(layer, BATCH_NORMS) for layer in module.modules())
    without_dropout(module)
    forward = form(module)
    received = _tree.copy(tensors_of(module))
    clients = [received, *_moved(module, received)]
    pristine = Pristine(module)
    answers = [_answer(module, tensors, X) for tensors in clients]
    _check_state(pristine, answers, clients, norms)
    if not norms:
        _check_rows(module, received, X, answers[0].output)
        _check_padding(module, received, X, answers[0].grads)
    write_tensors(module, received)
    pristine.restore()
    stack = _probe_stack(module, clients, X)
    try:
        stacked = forward(stack, torch.stack([X] * len(clients)))
        _cotangent(stacked[0]).expand_as(stacked).mul(stacked).sum().backward()
    except NotStackable:
        raise
    except Exception as error:
        raise NotStackable(f"its stacked forward pass fails ({type(error).__name__}: {error})") from error
    _check_equal(answers, stacked, stack)


def without_dropout(module):
    """Training mode without chance."""
    module.train()
    for layer in module.modules():
        if isinstance(layer, nn.modules.dropout._DropoutNd):
            layer.p = 0.0


def _moved(module, tensors):
    """Other parameters, twice, so that nothing that ignores a client's own can pass for stacked."""
    names = {name for name, p in module.named_parameters() if p.is_floating_point()}

    def wave(tensor):
        return torch.cos(torch.arange(tensor.numel(), device=tensor.device)).view_as(tensor).to(tensor.dtype)

    yield {name: 0.9 * t + 0.01 if name in names else t for name, t in tensors.items()}
    yield {name: t + 0.05 * wave(t) if name in names else t for name, t in tensors.items()}


class _Answer:
    """What a module gives for rows: output, gradients by name (None: none), tensors afterwards."""

    def __init__(self, output, grads, after):
        self.output, self.grads, self.after = output, grads, after


def _answer(module, tensors, X, n_real=None):
    """The `_Answer` for rows, of which only the first `n_real` count in gradients (None: all)."""
    write_tensors(module, tensors)
    module.zero_grad(set_to_none=True)
    output = _output(module, X)
    if output.requires_grad:
        real = output[:n_real]
        (_cotangent(real) * real).sum().backward()
    grads = {name: None if p.grad is None else p.grad.clone() for name, p in module.named_parameters()}
    return _Answer(output.detach(), grads, _tree.copy(tensors_of(module)))


def _output(module, X):
    try:
        output = module(X.clone())
    except Exception as error:
        raise _FailsAlone(f"{type(error).__name__}: {error}") from error
    output = output[0] if isinstance(output, tuple) else output
    if not isinstance(output, torch.Tensor):
        raise NotStackable("its forward does not return a tensor")
    return output


def _cotangent(output):
    """What outputs are multiplied with before gradients are taken: no two alike."""
    steps = torch.arange(1, output.numel() + 1, device=output.device, dtype=torch.float64)
    return torch.cos(steps).view_as(output).to(output.dtype)


def _check_state(pristine, answers, clients, norms):
    """Refuse what a forward or backward pass leaves behind."""
    moved = pristine.moved()
    if moved:
        raise NotStackable(f"{moved[0]} changes while it trains")
    for answer, before in zip(answers, clients, strict=True):
        for name, tensor in answer.after.items():
            if not norms and not torch.equal(tensor, before[name]):
                raise NotStackable(f"its buffer {name!r} changes while it trains")


def _check_rows(module, tensors, X, output):
    """Refuse outputs that depend on the other rows of a batch, or on chance."""
    write_tensors(module, tensors)
    few = torch.linspace(0, len(X) - 1, 4, device=X.device).long().unique().tolist()
    batches = [[i, i] for i in few] + [list(range(start, len(X), 2)) for start in (0, 1)]
    with torch.no_grad():
        for rows in batches:
            alone = _output(module, X[rows])
            if not close(alone, output[rows]):
                raise NotStackable(
                    "its output for a row depends on the other rows of the batch, or on chance"
                )


def _check_padding(module, tensors, X, grads):
    """Refuse gradients that depend on rows which do not count in the loss."""
    padded = _answer(module, tensors, torch.cat([X, X]), len(X)).grads
    different = _first_different(grads, padded)
    if different is not None:
        raise NotStackable(f"its gradient of {different!r} depends on rows that do not count in the loss")


def close(a, b):
    """Whether two outputs differ only by rounding."""
    tolerance = _tolerance(a)
    return a.shape == b.shape and torch.allclose(a, b, tolerance, tolerance)


def _tolerance(tensor):
    return 1e-9 if tensor.dtype == torch.float64 else 1e-4


def _check_equal(answers, stacked, stack):
    """Refuse outputs, gradients and buffers that are not the module's own."""
    if not all(close(answer.output, own) for answer, own in zip(answers, stacked.detach(), strict=True)):
        raise NotStackable("its stacked forward pass does not give what the module gives")
    for i, answer in enumerate(answers):
        for name, buffer in stack.buffers.items():
            if not close(answer.after[name], buffer[i]):
                raise NotStackable(f"its buffer {name!r} changes while it trains")
        grads = {name: None if p.grad is None else p.grad[i] for name, p in stack.params.items()}
        different = _first_different(answer.grads, grads)
        if different is not None:
            raise NotStackable(
                f"its stacked backward pass does not give the module's gradient of {different!r}"
            )


def _first_different(grads, others):
    """Name of the first gradient that differs by more than rounding, or is missing on one side only."""
    sizes = [grad.abs().max() for grad in grads.values() if grad is not None and grad.numel()]
    largest = float(max(sizes, default=torch.tensor(0.0)))
    for name, grad in grads.items():
        other = others[name]
        if (grad is None) != (other is None):
            return name
        if grad is None or not grad.numel():
            continue
        if not (grad - other).abs().max() <= _tolerance(grad) * largest:
            return name
    return None


def _probe_stack(module, clients, X):
    learns = {name: p.requires_grad for name, p in module.named_parameters()}
    stacked = {name: torch.stack([tensors[name] for tensors in clients]) for name in clients[0]}
    n = len(clients)
    stack = Stack(
        params={name: stacked[name].requires_grad_(grad) for name, grad in learns.items()},
        buffers={name: tensor for name, tensor in stacked.items() if name not in learns},
        facts={},
        frozen_norm=torch.zeros(n, dtype=torch.bool, device=X.device),
    )
    dtype = X.dtype if X.is_floating_point() else torch.float64
    stack.mask = torch.ones(n, len(X), dtype=dtype, device=X.device)
    stack.lengths = torch.full((n,), len(X), device=X.device)
    return stack
