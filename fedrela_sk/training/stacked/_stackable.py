"""Whether a net can be stacked, and its forward pass for many clients at once."""

import torch
from skorch import NeuralNetClassifier
from skorch.callbacks import GradientNormClipping
from torch.func import functional_call, vmap

from fedrela_sk._random import Purpose
from fedrela_sk.algorithms import Algorithm
from fedrela_sk.training._criterion import has_known_mean
from fedrela_sk.training._net import BATCH_NORMS, floating_dtype
from fedrela_sk.training.runtime._generator import forked_generators, seed_generators
from fedrela_sk.training.runtime._replica import has_hooks
from fedrela_sk.training.stacked._graph import NotStackable, StackedGraph, needs_no_proof
from fedrela_sk.training.stacked._proof import prove, telling_rows

# Optimizers whose step treats every number by itself, given that all clients of a stack are at the same step.
_ELEMENTWISE_OPTIMIZERS = (
    torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.NAdam, torch.optim.RAdam, torch.optim.Adamax,
    torch.optim.Adagrad, torch.optim.Adadelta, torch.optim.RMSprop, torch.optim.Rprop, torch.optim.ASGD,
)  # fmt: skip
_SEAMS = ("infer", "initialize_optimizer", "get_params_for_optimizer")


def stacked_forward(net, X, algorithm=None):
    """The forward pass of a net for a stack of clients.

    Parameters
    ----------
    net : initialized skorch net
    X : tensor of shape (n_rows, ...)
        The data; some of its rows prove that stacked outputs and gradients are the module's own.
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
    if algorithm.loop_only is not None:
        raise NotStackable(f"{type(algorithm).__name__} {algorithm.loop_only}")
    if needs_no_proof(net.module_) and not algorithm.uses("client_loss"):
        return StackedGraph(net.module_), "direct"
    with forked_generators(net.device):  # reading a forward pass that draws, draws
        seed_generators(net.device, 0, Purpose.MODULE)
        kind = _proved_kind(net.module_, telling_rows(X), algorithm.uses("client_loss"))
        return _FORMS[kind](net.module_), kind


def _proved_kind(module, X, own_loss):
    """ "direct" where that form gives what the module gives, else "vmap"."""
    normed = any(isinstance(layer, BATCH_NORMS) for layer in module.modules())
    if own_loss and normed:
        raise NotStackable(
            "its BatchNorm is stacked only where the method leaves the forward pass to the engine"
        )
    try:
        if own_loss:
            raise NotStackable("the method runs the module in a loss of its own")
        prove(module, X, StackedGraph)
        return "direct"
    except NotStackable as reason:
        if normed:
            raise
        direct_reason = reason
    try:
        prove(module, X, _vmapped)
        return "vmap"
    except NotStackable as error:
        raise NotStackable(f"{direct_reason}; under vmap: {error}") from error


def _check_parts(net):
    """Refuse what has no stacked form beside the module itself."""
    for seam in _SEAMS:
        if getattr(type(net), seam) is not getattr(NeuralNetClassifier, seam):
            raise NotStackable(f"{type(net).__name__} overrides {seam}")
    hooked = [path for path, layer in net.module_.named_modules() if has_hooks(layer)]
    if hooked:
        raise NotStackable(f"hooks are registered on {_place(hooked[0])}")
    criterion = net.criterion_
    if not has_known_mean(criterion):
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


def _place(path):
    return f"its layer {path!r}" if path else "the module"


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


_FORMS = {"direct": StackedGraph, "vmap": _vmapped}
