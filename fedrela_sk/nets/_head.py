"""The classifier head of any torch module: finding it, tapping what enters it, putting another in its place."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from fedrela_sk._typing import Dtype, Module, Tensor
from fedrela_sk.exceptions import NetError

# attribute of a layer that says it is the head of the module around it
_MARK = "is_head"


class MultiHead(nn.Module):
    """A head whose forward pass is `main`, with further modules that only losses and hooks use.

    The extras travel, train and are saved under their own names (``head.personal.weight``) and never touch
    the output. What they compute from the features of `forward_with_features` is up to the caller.

    Parameters
    ----------
    main : nn.Module
        The head itself, with `in_features` and `out_features` as `nn.Linear` has them.
    **extra : nn.Module
        More modules, by name.

    Attributes
    ----------
    in_features, out_features : int
        Those of `main`.

    Raises
    ------
    KeyError
        If a name of an extra is taken by an attribute of the module.

    Examples
    --------
    >>> import torch
    >>> from torch import nn
    >>> from fedrela_sk.nets import MultiHead
    >>> head = MultiHead(nn.Linear(4, 3), personal=nn.Linear(4, 3))
    >>> head(torch.zeros(2, 4)).shape
    torch.Size([2, 3])
    >>> [name for name, _ in head.named_parameters()]
    ['main.weight', 'main.bias', 'personal.weight', 'personal.bias']
    """

    def __init__(self, main: Module, **extra: Module) -> None:
        super().__init__()
        self.in_features, self.out_features = main.in_features, main.out_features
        self.main = main
        for name, module in extra.items():
            self.add_module(name, module)

    def forward(self, h: Tensor) -> Any:
        """What `main` gives for features `h` of shape (n_rows, in_features)."""
        return self.main(h)


def find_head(module: Module, n_classes: int, head: str | None = None, X: Tensor | None = None) -> str:
    """Dotted name of the layer that turns features into one number per class.

    A layer that `mark_head` marked, or that `swap_head` put in, is the head. Else a candidate is an
    `nn.Linear` (or a `MultiHead`, whose inside is not searched) with `n_classes` outputs. Without `X` the
    last candidate in the order of ``module.named_modules()`` is taken. With `X` the module runs once in
    evaluation mode and the candidate whose output is the very tensor that the module returns (alone or as
    the first of a tuple) is taken; where the module goes on after its head, with a softmax say, the only
    candidate that ran is. Several that ran and none that gives the output are ambiguous.

    Parameters
    ----------
    module : nn.Module
        It is left as it was.
    n_classes : int
    head : str, default=None
        The name, for modules where the rule above does not hold.
    X : tensor of shape (n_rows, ...), default=None
        An example input.

    Returns
    -------
    name : str
        "" if the module itself is the layer.

    Raises
    ------
    NetError
        If there is no candidate, if it cannot be told which one it is, or if `head` names none.
    """
    if head is not None:
        return _checked_name(module, n_classes, head)
    marked = [name for name, layer in module.named_modules() if getattr(layer, _MARK, False)]
    if marked:
        return marked[0]
    fitting = [name for name, layer in _layers(module).items() if layer.out_features == n_classes]
    if not fitting:
        raise NetError(
            f"The net has no linear layer with n_classes={n_classes} outputs; its linear layers are "
            f"{_listed(module)}. Let it end in nn.Linear(..., {n_classes}), and name that layer with "
            'head="name" if there are several.'
        )
    if X is None or len(fitting) == 1:
        return fitting[-1]
    return _traced_name(module, fitting, X)


def _layers(module):
    """Every `nn.Linear` or `MultiHead` by its name, in the module's order; a `MultiHead` counts as one."""
    found, inside = {}, set()
    for name, layer in module.named_modules():
        if isinstance(layer, nn.Linear | MultiHead) and layer not in inside:
            found[name] = layer
        if isinstance(layer, MultiHead):
            inside.update(layer.modules())
    return found


def _listed(module):
    """The linear layers in words: 'first' (4 -> 8), 'last' (8 -> 3)."""
    layers = _layers(module).items()
    return (
        ", ".join(f"{name!r} ({layer.in_features} -> {layer.out_features})" for name, layer in layers)
        or "none"
    )


def _checked_name(module, n_classes, head):
    layer = dict(module.named_modules(remove_duplicate=False)).get(head)
    if isinstance(layer, nn.Linear | MultiHead) and layer.out_features == n_classes:
        return head
    if layer is None:
        got = "is no layer of the net"
    elif isinstance(layer, nn.Linear | MultiHead):
        got = f"has {layer.out_features} outputs"
    else:
        got = f"is of kind {type(layer).__name__}"
    raise NetError(
        f"head={head!r} {got}; expected a linear layer with n_classes={n_classes} outputs. "
        f"The net's linear layers are {_listed(module)}."
    )


def _traced_name(module, fitting, X):
    """Which of several candidates is the head, from the tensors of one forward pass."""
    outputs = {}

    def keep(name):
        return lambda layer, inputs, output: outputs.update({name: output})

    handles = [module.get_submodule(name).register_forward_hook(keep(name)) for name in fitting]
    modes = {part: part.training for part in module.modules()}
    try:
        with torch.no_grad():
            result = module.eval()(X)
    finally:
        for handle in handles:
            handle.remove()
        for part, training in modes.items():
            part.training = training
    result = result[0] if isinstance(result, tuple) else result
    for name, output in outputs.items():
        if output is result:
            return name
    if len(outputs) == 1:
        return next(iter(outputs))
    raise NetError(
        f"Any of {len(fitting)} linear layers could be the net's head ({', '.join(map(repr, fitting))}), and none "
        'of them gives the net\'s output itself. Say which one it is with head="name".'
    )


def mark_head(module: Module, name: str) -> None:
    """Say that a layer is the head, for every later `find_head` on this module and its copies.

    Parameters
    ----------
    module : nn.Module
    name : str
        As `find_head` returns it.

    Raises
    ------
    NetError
        If the module has no layer of that name.
    """
    setattr(_layer(module, name), _MARK, True)


def swap_head(module: Module, name: str, new: Module, head: str = "") -> Module:
    """Put another layer in the place of the head; the new one is marked as by `mark_head`.

    Parameters
    ----------
    module : nn.Module
        Changed in place, at every place where it holds the old layer (a layer may hang under two names).
    name : str
        As `find_head` returns it.
    new : nn.Module
        Put into training or evaluation mode as the old layer was. It may hold the old layer.
    head : str, default=""
        Name of the part of `new` that is the head, where it is not all of it.

    Returns
    -------
    module : nn.Module
        `new` itself if `name` is "".

    Raises
    ------
    NetError
        If the module has no layer of that name.
    """
    old = _layer(module, name)
    new.train(old.training)
    mark_head(new, head)
    if name == "":
        return new
    places = [
        (parent, key) for parent in module.modules() for key, child in parent._modules.items() if child is old
    ]
    for parent, key in places:
        parent._modules[key] = new
    return module


def forward_with_features(
    module: Module, name: str, call: Callable[..., Any], x: Tensor
) -> tuple[Tensor, Any]:
    """Run a forward pass and catch what enters the head.

    It works on the module itself, under `torch.func.functional_call` and inside `torch.func.vmap` or
    `grad`; both results carry gradients. Nothing stays on the module.

    The hook sits on the module for the time of the call: threads that run the very same module at once
    would count each other's calls. Give every thread a copy, which `functional_call` needs anyway.

    Parameters
    ----------
    module : nn.Module
    name : str
        As `find_head` returns it.
    call : callable of x
        Runs `module`, for example ``module`` or ``lambda x: functional_call(module, tensors, (x,))``.
    x : tensor

    Returns
    -------
    features : tensor of shape (n_rows, in_features)
        Input of the head.
    output : object
        What `call` returns.

    Raises
    ------
    NetError
        If the head does not run exactly once, or if the module has no layer of that name.
    """
    seen = []

    def catch(layer, inputs, named):
        seen.extend([*inputs, *named.values()])

    with _layer(module, name).register_forward_pre_hook(catch, with_kwargs=True):
        output = call(x)
    if len(seen) != 1:
        raise NetError(
            f"The head {name!r} ran {len(seen)} times in one forward pass, expected once: "
            'its input is the features. Name the layer that ends the net with head="name".'
        )
    return seen[0], output


def _layer(module, name):
    try:
        return module.get_submodule(name)
    except AttributeError as error:
        raise NetError(
            f"The net has no layer {name!r}; its linear layers are {_listed(module)}. "
            "Take the name from find_head, before the module changes."
        ) from error


def linear_head(
    in_features: int,
    n_classes: int,
    generator: Any = None,
    zero: bool = False,
    bias: bool = True,
    dtype: Dtype | None = None,
) -> Module:
    """A new linear layer whose first weights come from a given generator.

    Parameters
    ----------
    in_features, n_classes : int
    generator : torch.Generator, default=None
        Source of the draws, on the CPU; None is torch's global one.
    zero : bool, default=False
        Start from zeros and draw nothing. Otherwise weights and bias are drawn from
        U(-1/sqrt(in_features), 1/sqrt(in_features)), the law of `nn.Linear`.
    bias : bool, default=True
    dtype : torch.dtype, default=None
        None is torch's default.

    Returns
    -------
    layer : nn.Linear
        On the CPU.
    """
    layer = nn.utils.skip_init(nn.Linear, in_features, n_classes, bias=bias, dtype=dtype)
    bound = 1 / math.sqrt(in_features)
    with torch.no_grad():
        for tensor in layer.parameters():
            if zero:
                tensor.zero_()
            else:
                tensor.uniform_(-bound, bound, generator=generator)
    return layer
