"""Whether a net can be stacked, and its forward pass for many clients at once."""

from contextlib import contextmanager

import torch
from skorch import NeuralNetClassifier
from skorch.callbacks import GradientNormClipping
from torch import nn
from torch.func import functional_call, vmap

from fedrela_sk import _tree
from fedrela_sk._random import Purpose
from fedrela_sk.algorithms import Algorithm
from fedrela_sk.training._generator import forked_generators, seed_generators
from fedrela_sk.training._graph import NotStackable, StackedGraph
from fedrela_sk.training._net import BATCH_NORMS, floating_dtype, tensors_of, write_tensors
from fedrela_sk.training._stack import Stack

# Optimisers whose step treats every number alone, given that all clients of a stack are at the same step.
_ELEMENTWISE_OPTIMIZERS = (
    torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.NAdam, torch.optim.RAdam, torch.optim.Adamax,
    torch.optim.Adagrad, torch.optim.Adadelta, torch.optim.RMSprop, torch.optim.Rprop, torch.optim.ASGD,
)  # fmt: skip
_SEAMS = ("infer", "initialize_optimizer", "get_params_for_optimizer")


def stacked_forward(net, X, algorithm=None):
    """The forward pass of a net for a stack of clients.

    Parameters
    ----------
    net : initialised skorch net
    X : tensor of shape (n_rows, ...)
        Some of the data, to prove that the stacked pass gives what the module gives.
    algorithm : Algorithm or None
        A method with a loss of its own runs the module itself, under vmap. None: any other.

    Returns
    -------
    forward : callable of (Stack, tensor of shape (n_clients, n_rows, ...))
    kind : {"direct", "vmap"}
        Stacked layers with one batched product each, or `torch.func.vmap`.

    Raises
    ------
    NotStackable
        With the reason.
    """
    _check_parts(net)
    algorithm = Algorithm() if algorithm is None else algorithm
    own_loss = algorithm.overrides("loss")
    if algorithm.loop_only is not None:
        raise NotStackable(f"{type(algorithm).__name__} {algorithm.loop_only}")
    with forked_generators(net.device):  # reading a forward pass that draws, draws
        seed_generators(net.device, 0, Purpose.MODULE)
        return _proved_forward(net.module_, _some_rows(X), own_loss)


def _proved_forward(module, X, own_loss):
    """The direct form where it gives what the module gives, else `torch.func.vmap`."""
    normed = any(isinstance(layer, BATCH_NORMS) for layer in module.modules())
    if own_loss and normed:
        raise NotStackable(
            "its BatchNorm is stacked only where the method leaves the forward pass to the engine"
        )
    try:
        if own_loss:
            raise NotStackable("the method runs the module in a loss of its own")
        forward = StackedGraph(module)
        _prove(module, forward, X)
        return forward, "direct"
    except NotStackable as reason:
        if normed:
            raise
        direct_reason = reason
    try:
        forward = _vmapped(module)
        _prove(module, forward, X)
        return forward, "vmap"
    except NotStackable as error:
        raise NotStackable(f"{direct_reason}; under vmap: {error}") from error


def _check_parts(net):
    """Refuse what has no stacked form beside the module itself."""
    for seam in _SEAMS:
        if getattr(type(net), seam) is not getattr(NeuralNetClassifier, seam):
            raise NotStackable(f"{type(net).__name__} overrides {seam}")
    criterion = net.criterion_
    known = type(criterion) in (nn.CrossEntropyLoss, nn.NLLLoss) or hasattr(criterion, "row_losses")
    if not known:
        raise NotStackable(f"criterion {type(criterion).__name__} may look across rows")
    if getattr(criterion, "draws", False):
        raise NotStackable(f"criterion {type(criterion).__name__} draws random numbers")
    if net.optimizer not in _ELEMENTWISE_OPTIMIZERS:
        name = getattr(net.optimizer, "__name__", repr(net.optimizer))
        raise NotStackable(f"optimizer {name} is not elementwise")
    dtype = floating_dtype(net.module_)
    if dtype not in (torch.float32, torch.float64):
        raise NotStackable(f"its parameters are {dtype}")
    names = [name for name, _ in net.module_.named_parameters(remove_duplicate=False)]
    if len(names) != len(list(net.module_.parameters())):
        raise NotStackable("layers share parameters")
    if net.module_.state_dict().keys() - set(names) - {name for name, _ in net.module_.named_buffers()}:
        raise NotStackable("its state holds more than parameters and buffers")


def clip_rule(callbacks):
    """How gradients are clipped, per client: a function of the stacked parameters, or None.

    Raises
    ------
    NotStackable
        For any callback but `skorch.callbacks.GradientNormClipping`.
    """
    other = [type(callback).__name__ for callback in callbacks if type(callback) is not GradientNormClipping]
    if other:
        raise NotStackable(f"callback {other[0]} runs in one client's training")
    rules = [c for c in callbacks if c.gradient_clip_value is not None]
    if not rules:
        return None

    def clip(params):
        for rule in rules:
            _clip(params, float(rule.gradient_clip_value), float(rule.gradient_clip_norm_type))

    return clip


def _clip(params, limit, order):
    """Scale every client's gradient to a norm of at most `limit`, as `clip_grad_norm_` does for one."""
    grads = [p.grad.reshape(len(p), -1) for p in params]
    norms = torch.stack([torch.linalg.vector_norm(grad, order, dim=1) for grad in grads])
    total = torch.linalg.vector_norm(norms, order, dim=0)
    factor = (limit / (total + 1e-6)).clamp(max=1.0)
    for p in params:
        p.grad.mul_(factor.reshape(-1, *[1] * (p.ndim - 1)))


def _vmapped(module):
    """Any module under `torch.func.vmap`, every client with its own parameters and buffers."""

    def one(params, buffers, x):
        output = functional_call(module, (params, buffers), (x,))
        return output[0] if isinstance(output, tuple) else output

    mapped = vmap(one, in_dims=(0, 0, 0), randomness="different")

    def forward(stack, X):
        module.train()
        return mapped(stack.params, stack.buffers, X)

    return forward


def _some_rows(X):
    """A few rows that differ, where the data have any; two at least."""
    rows = torch.unique(X[:50], dim=0)
    spread = torch.linspace(0, len(rows) - 1, min(len(rows), 4), device=X.device).long()
    return rows[spread] if len(rows) > 1 else rows[[0, 0]]


def _prove(module, forward, X):
    """Compare a stack of two clients, each with weights of its own, with the module itself.

    Rows must not look at each other, and buffers may change in BatchNorm alone, whose stacked form leaves
    padding out.
    """
    norms = any(isinstance(layer, BATCH_NORMS) for layer in module.modules())
    with comparable(module) as received:
        clients = [received, _moved(module, received)]
        try:
            answers = [_answer(module, tensors, X) for tensors in clients]
            alone = answers[0][0] if norms else _each_row(module, received, X)
            stack = _probe_stack(module, clients, X)
            stacked = forward(stack, torch.stack([X, X]))
        except NotStackable:
            raise
        except Exception as error:
            raise NotStackable(f"its stacked forward pass fails ({type(error).__name__}: {error})") from error
    if not close(answers[0][0], alone):
        raise NotStackable("its output for a row depends on the other rows of the batch, or on chance")
    if not all(close(own, both) for (own, _), both in zip(answers, stacked, strict=True)):
        raise NotStackable("its stacked forward pass does not give what the module gives")
    for i, (_, after) in enumerate(answers):
        for name, buffer in stack.buffers.items():
            if not close(after[name], buffer[i]) or not (norms or torch.equal(after[name], clients[i][name])):
                raise NotStackable(f"its buffer {name!r} changes while it trains")


@contextmanager
def comparable(module):
    """`module` in training mode without Dropout; its tensors (given) and modes come back."""
    dropouts = [layer for layer in module.modules() if isinstance(layer, nn.modules.dropout._DropoutNd)]
    rates, was_training = [layer.p for layer in dropouts], module.training
    received = _tree.copy(tensors_of(module))
    module.train()
    for layer in dropouts:
        layer.p = 0.0
    try:
        with torch.no_grad():
            yield received
    finally:
        for layer, rate in zip(dropouts, rates, strict=True):
            layer.p = rate
        write_tensors(module, received)
        module.train(was_training)


def _moved(module, tensors):
    """Other parameters, so that nothing that ignores a client's own can pass for stacked."""
    names = {name for name, _ in module.named_parameters()}
    return {
        name: 0.9 * tensor + 0.01 if name in names and tensor.is_floating_point() else tensor
        for name, tensor in tensors.items()
    }


def _answer(module, tensors, X):
    """(output, tensors afterwards) of one client."""
    write_tensors(module, tensors)
    output = module(X)
    output = output[0] if isinstance(output, tuple) else output
    if not isinstance(output, torch.Tensor):
        raise NotStackable("its forward does not return a tensor")
    return output, _tree.copy(tensors_of(module))


def _each_row(module, tensors, X):
    """Outputs of rows that meet nothing but a copy of themselves."""
    return torch.cat([_answer(module, tensors, X[[i, i]])[0][:1] for i in range(len(X))])


def close(a, b):
    """Whether two outputs differ by rounding alone."""
    tolerance = 1e-9 if a.dtype == torch.float64 else 1e-4
    return a.shape == b.shape and torch.allclose(a, b, tolerance, tolerance)


def _probe_stack(module, clients, X):
    names = {name for name, _ in module.named_parameters()}
    stacked = {name: torch.stack([tensors[name] for tensors in clients]) for name in clients[0]}
    stack = Stack(
        params={name: tensor for name, tensor in stacked.items() if name in names},
        buffers={name: tensor for name, tensor in stacked.items() if name not in names},
        facts={},
        frozen_norm=torch.zeros(2, dtype=torch.bool, device=X.device),
    )
    stack.mask = torch.ones(2, len(X), dtype=X.dtype, device=X.device)
    stack.lengths = torch.full((2,), len(X), device=X.device)
    return stack
