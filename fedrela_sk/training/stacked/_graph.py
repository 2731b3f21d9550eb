"""A module as a list of steps that run on many clients' parameters at once.

`torch.fx` reads the module's forward pass; every layer and function in it must be one of those below,
whose stacked form is known. Tensors carry clients first, rows second: a layer that maps (rows, ...) to
(rows, ...) maps (clients, rows, ...) here, with one batched product per dense layer.
"""

import operator

import torch
import torch.nn.functional as F
from torch import fx, nn

from fedrela_sk.training.runtime._replica import independent_copy

# Layers that act on every number by itself: a leading client axis changes nothing.
_ELEMENTWISE_LAYERS = (
    nn.Identity, nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.ELU, nn.SELU, nn.CELU, nn.GELU, nn.SiLU, nn.Mish, nn.Tanh,
    nn.Sigmoid, nn.Softplus, nn.Softsign, nn.Hardtanh, nn.Hardsigmoid, nn.Hardswish, nn.LogSigmoid,
    nn.Tanhshrink, nn.Softshrink, nn.Hardshrink, nn.Dropout,
)  # fmt: skip
_ELEMENTWISE_FUNCTIONS = {
    torch.relu, torch.tanh, torch.sigmoid, F.relu, F.relu6, F.leaky_relu, F.elu, F.selu, F.celu, F.gelu, F.silu,
    F.mish, F.tanh, F.sigmoid, F.softplus, F.softsign, F.hardtanh, F.logsigmoid, operator.add, operator.iadd,
    operator.sub, operator.mul, torch.add, torch.sub, torch.mul,
}  # fmt: skip
_ELEMENTWISE_METHODS = {"relu", "tanh", "sigmoid", "add", "sub", "mul", "contiguous"}


# A sequence of these, and nothing else, needs no proof: `tests/training/test_graph.py` is one.
_NEEDS_NO_PROOF = (*_ELEMENTWISE_LAYERS, nn.Linear)


def needs_no_proof(module):
    """Whether a module is a sequence of dense and elementwise layers of torch, with no code of its own anywhere.

    Parameters
    ----------
    module : nn.Module
        Without hooks.
    """
    return all(
        "forward" not in vars(layer)
        and (
            type(layer) in _NEEDS_NO_PROOF
            or (type(layer).forward is nn.Sequential.forward and _plain_calls(layer))
        )
        for layer in module.modules()
    )


def _plain_calls(layer):
    return type(layer).__call__ is nn.Module.__call__ and type(layer).__iter__ is nn.Sequential.__iter__


class NotStackable(Exception):
    """A module cannot be stacked; the message says which part of it."""


class _Leaf(nn.Module):
    """Stands for a layer while the forward pass is read: a call is written down, not run."""

    def __init__(self, name, kind, tracer):
        super().__init__()
        self.name, self.kind, self.tracer = name, kind, tracer

    def forward(self, *inputs, **named):
        if len(inputs) != 1 or named:
            raise NotStackable(f"layer {self.name!r} ({self.kind}) is given more than one input")
        return self.tracer.create_proxy("call_module", self.name, inputs, {})


def _trace(module):
    """The forward pass of a module in training mode as an `fx.Graph`.

    `torch.fx.Tracer` would patch `nn.Module` for the whole process and so break other threads. Here a copy
    is read whose layers write themselves down.
    """
    graph = fx.Graph()
    tracer = fx.proxy.GraphAppendingTracer(graph)
    try:
        reader = independent_copy(module).train()
        reader = _with_leaves(reader, "", tracer)
        output = reader(fx.Proxy(graph.placeholder("input"), tracer))
    except NotStackable:
        raise
    except Exception as error:
        raise NotStackable(f"its forward pass cannot be read ({type(error).__name__}: {error})") from error
    output = output[0] if isinstance(output, tuple) else output
    if not isinstance(output, fx.Proxy):
        raise NotStackable("its forward does not return a tensor")
    graph.output(output.node)
    return graph


def _with_leaves(module, name, tracer):
    """`module` with every layer of torch replaced by a `_Leaf`; containers and code of its own stay."""
    container = isinstance(module, nn.Sequential | nn.ModuleList | nn.ModuleDict)
    if type(module).__module__.startswith("torch.nn") and not container:
        return _Leaf(name, type(module).__name__, tracer)
    for child_name, child in module._modules.items():  # `named_children` leaves out layers used twice
        if child is not None:
            path = f"{name}.{child_name}" if name else child_name
            module._modules[child_name] = _with_leaves(child, path, tracer)
    return module


class StackedGraph:
    """The forward pass of a module for a stack of clients.

    Parameters
    ----------
    module : nn.Module
        Read in training mode.

    Raises
    ------
    NotStackable
        If the forward pass cannot be read, or holds a layer or a function without a known stacked form.
    """

    def __init__(self, module):
        graph = _trace(module)
        layers = dict(module.named_modules(remove_duplicate=False))
        self._steps = []
        for node in graph.nodes:
            if node.op == "placeholder":
                self._input = node.name
            elif node.op == "output":
                self._output = node.args[0].name
            else:
                self._steps.append((node.name, _compile(node, layers), node.args))

    def __call__(self, stack, X):
        """Output of every client for its own rows.

        Parameters
        ----------
        stack : Stack
            Parameters, buffers and masks of the clients.
        X : tensor of shape (n_clients, n_rows, ...)

        Returns
        -------
        output : tensor of shape (n_clients, n_rows, n_outputs)
        """
        values = {self._input: X}
        for name, run, arguments in self._steps:
            values[name] = run(stack, *(values[a.name] if isinstance(a, fx.Node) else a for a in arguments))
        return values[self._output]


def _compile(node, layers):
    """A function of (stack, inputs) for one node."""
    if node.op == "call_module":
        return _compile_layer(node, layers[node.target])
    kwargs = dict(node.kwargs)
    for key, value in kwargs.items():
        if not isinstance(value, bool | int | float | str | None):
            raise NotStackable(f"{_name(node.target)!r} in its forward pass gets {key} by keyword, a tensor")
    if node.op == "call_function" and node.target in _ELEMENTWISE_FUNCTIONS:
        _refuse_broadcast(node)
        return lambda stack, *inputs: node.target(*inputs, **kwargs)
    if node.op == "call_method" and node.target in _ELEMENTWISE_METHODS:
        _refuse_broadcast(node)
        return lambda stack, x, *inputs: getattr(x, node.target)(*inputs, **kwargs)
    if node.target in (torch.flatten, "flatten"):
        start = node.args[1] if len(node.args) > 1 else kwargs.get("start_dim", 0)
        if start == 1 and len(node.args) < 3 and "end_dim" not in kwargs:
            return lambda stack, x, *_: x.flatten(2)
    raise NotStackable(f"{_name(node.target)!r} in its forward pass has no known stacked form")


def _name(target):
    """Name of a function or method that a forward pass calls."""
    return target if isinstance(target, str) else getattr(target, "__name__", repr(target))


def _refuse_broadcast(node):
    """Numbers and whole activations may be combined; anything else could line up with the wrong axis."""
    for argument in node.args:
        if not isinstance(argument, fx.Node | int | float):
            raise NotStackable(
                f"{_name(node.target)!r} in its forward pass gets a {type(argument).__name__}, which is not stacked"
            )


def _compile_layer(node, layer):
    name = node.target
    if type(layer) in _ELEMENTWISE_LAYERS:
        return lambda stack, x: layer(x)
    if type(layer) is nn.Linear:
        return _Linear(name, layer)
    if type(layer) is nn.LayerNorm:
        return _LayerNorm(name, layer)
    if type(layer) is nn.BatchNorm1d:
        return _BatchNorm(name, layer)
    if type(layer) is nn.Flatten and layer.start_dim == 1 and layer.end_dim == -1:
        return lambda stack, x: x.flatten(2)
    raise NotStackable(f"layer {name!r} ({type(layer).__name__}) has no known stacked form")


def _path(layer, tensor):
    """Name of a layer's tensor in the module; the module may be the layer itself."""
    return f"{layer}.{tensor}" if layer else tensor


class _Linear:
    """x W^T + b of every client: one batched product."""

    def __init__(self, name, layer):
        self.weight = _path(name, "weight")
        self.bias = None if layer.bias is None else _path(name, "bias")

    def __call__(self, stack, x):
        weight = stack.params[self.weight].transpose(1, 2)
        rows = x if x.ndim == 3 else x.reshape(x.shape[0], -1, x.shape[-1])
        if self.bias is None:
            out = torch.bmm(rows, weight)
        else:
            out = torch.baddbmm(stack.params[self.bias].unsqueeze(1), rows, weight)
        return out if x.ndim == 3 else out.reshape(*x.shape[:-1], out.shape[-1])


class _LayerNorm:
    """Layer normalization with every client's own scale and shift."""

    def __init__(self, name, layer):
        self.shape, self.eps = layer.normalized_shape, layer.eps
        self.weight = None if layer.weight is None else _path(name, "weight")
        self.bias = None if layer.bias is None else _path(name, "bias")

    def __call__(self, stack, x):
        out = F.layer_norm(x, self.shape, eps=self.eps)
        for key, combine in ((self.weight, torch.mul), (self.bias, torch.add)):
            if key is not None:
                own = stack.params[key]
                out = combine(out, own.reshape(own.shape[0], *[1] * (x.ndim - own.ndim), *self.shape))
        return out


class _BatchNorm:
    """Batch normalization over each client's real rows; running statistics are updated in place."""

    def __init__(self, name, layer):
        self.eps, self.momentum = layer.eps, layer.momentum
        self.affine, self.track = layer.affine, layer.track_running_stats
        self.name = name

    def __call__(self, stack, x):
        if x.ndim != 3:
            raise NotStackable(f"layer {self.name!r} (BatchNorm1d) is stacked only for (rows, features)")
        mask, n = stack.mask.unsqueeze(2), stack.lengths.to(x.dtype)[:, None]
        mean = (x * mask).sum(1) / n
        centered = (x - mean.unsqueeze(1)) * mask
        var = (centered * centered).sum(1) / n
        if self.track:
            mean, var = self._track(stack, mean, var, n)
        out = (x - mean.unsqueeze(1)) * torch.rsqrt(var + self.eps).unsqueeze(1)
        if self.affine:
            weight, bias = stack.params[_path(self.name, "weight")], stack.params[_path(self.name, "bias")]
            out = out * weight.unsqueeze(1) + bias.unsqueeze(1)
        return out

    def _track(self, stack, mean, var, n):
        """Statistics to use; a client in evaluation mode (one row) uses and keeps its running ones."""
        running_mean = stack.buffers[_path(self.name, "running_mean")]
        running_var = stack.buffers[_path(self.name, "running_var")]
        seen = stack.buffers[_path(self.name, "num_batches_tracked")]
        learns = (~stack.frozen_norm)[:, None]
        kept_mean, kept_var = running_mean.clone(), running_var.clone()
        with torch.no_grad():
            seen += learns[:, 0].to(seen.dtype)
            rate = (
                (1 / seen.to(mean.dtype).clamp_min(1))[:, None]
                if self.momentum is None
                else torch.full_like(n, self.momentum)
            )
            rate = torch.where(learns, rate, torch.zeros_like(rate))
            unbiased = var * (n / (n - 1).clamp_min(1))
            running_mean += rate * (mean - running_mean)
            running_var += rate * (unbiased - running_var)
        return torch.where(learns, mean, kept_mean), torch.where(learns, var, kept_var)
