"""What the hooks of a method see of a net: a function of named tensors, a batch, a client's rows."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import nn
from torch.func import functional_call

from fedrela_sk._typing import Module, Tensor, Tensors
from fedrela_sk.nets import find_head, forward_with_features
from fedrela_sk.training._criterion import log_input, row_losses, row_shares


@dataclass(frozen=True)
class Batch:
    """The rows of one step.

    Attributes
    ----------
    x : tensor of shape (n_rows, ...)
    y : tensor of shape (n_rows,), int64
        Current labels.
    share : tensor of shape (n_rows,)
        Share of every row in the loss of the batch. They sum to 1 where the criterion averages and has no class
        weights of its own; rows that only fill up a stack have 0.
    criterion : nn.Module
        The net's own.
    """

    x: torch.Tensor
    y: torch.Tensor
    share: torch.Tensor
    criterion: nn.Module

    def mean(self, values: Any) -> Any:
        """Sum over the rows of share times value."""
        return (self.share * values).sum()

    def plain_mean(self, values: Any) -> Any:
        """`mean` without the class weights of the criterion itself: for terms that it knows nothing of."""
        if self.criterion.reduction == "sum":
            return self.mean(values)
        total = self.share.sum()
        return self.mean(values) / torch.where(total > 0, total, 1.0)

    def row_losses(self, logits: Tensor, targets: Tensor | None = None) -> Any:
        """The criterion's loss of every row for its own labels, or for `targets`.

        Parameters
        ----------
        logits : tensor of shape (n_rows, n_classes)
        targets : tensor of shape (n_rows,), int64, or (n_rows, n_classes), default=None
            Labels, or shares of the classes.
        """
        return row_losses(self.criterion, logits, self.y if targets is None else targets)

    def criterion_loss(self, logits: Tensor) -> Any:
        """The loss that the net's criterion gives to these rows."""
        return self.mean(self.row_losses(logits))


@dataclass(frozen=True)
class ClientData:
    """One client's own rows, for hooks that look at all of them.

    Attributes
    ----------
    X : tensor of shape (n_rows, ...)
    y : tensor of shape (n_rows,), int64
        Current labels.
    weights : tensor of shape (n_rows,)
        Row weights, ones where none were given.
    loss_weights : tensor of shape (n_rows,)
        The same times the client's class weights: what the loss of a batch goes by.
    """

    X: torch.Tensor
    y: torch.Tensor
    weights: torch.Tensor
    loss_weights: torch.Tensor

    def batches(self, criterion: Any, size: Any = 512) -> Iterator[Any]:
        """All rows as `Batch`es in their order; shares are those in the loss of all rows together."""
        shares = row_shares(criterion, self.y, self.loss_weights)
        for x, y, share in zip(self.X.split(size), self.y.split(size), shares.split(size), strict=True):
            yield Batch(x, y, share, criterion)


def client_data(data, task):
    """`ClientData` of a task."""
    ones = (
        torch.ones(len(task.rows), dtype=data.dtype, device=data.X.device) if data.weights is None else None
    )
    weights = ones if data.weights is None else data.weights[task.rows]
    loss_weights = weights if task.class_weights is None else weights * task.class_weights[task.y]
    return ClientData(data.X[task.rows], task.y, weights, loss_weights)


class Model:
    """A module as a function of its named tensors.

    Parameters
    ----------
    module : nn.Module
    criterion : nn.Module
        Says what the module's output means: with `NLLLoss` its logarithm are the logits.
    n_classes : int
    params : dict of tensors or None
        Parameters and buffers to run it with; None: those that it holds.
    """

    def __init__(
        self, module: Module, criterion: Module, n_classes: int, params: Tensors | None = None
    ) -> None:
        self.module = module
        self.criterion = criterion
        self.n_classes = n_classes
        self._params = params

    @property
    def params(self) -> Any:
        """Parameters and buffers that the model runs with, by name; they carry gradients."""
        if self._params is None:
            return dict(self.module.named_parameters()) | dict(self.module.named_buffers())
        return self._params

    @property
    def trainable(self) -> Any:
        """Tensors of `params` that learn, by name, to be moved and put back by `with_params`."""
        learns = [name for name, param in self.module.named_parameters() if param.requires_grad]
        return {name: self.params[name] for name in learns}

    def copied_buffers(self) -> Any:
        """Copies of the buffers by name, BatchNorm's running statistics for one.

        A pass in training mode writes to the buffers that it runs with. One that must not, because it is the second
        of a step or runs inside `torch.func.grad`, is given copies: ``model.with_params(params | buffers)``.
        """
        names = [name for name, _ in self.module.named_buffers()]
        return {name: self.params[name].clone() for name in names}

    @cached_property
    def head(self):
        """Name of the classifier's layer, as `find_head` tells it; looked for once."""
        return find_head(self.module, self.n_classes)

    def __call__(self, x):
        """Logits of rows, in the module's current mode.

        Parameters
        ----------
        x : tensor of shape (n_rows, ...)

        Returns
        -------
        logits : tensor of shape (n_rows, n_classes)
        """
        return self._logits(self._run(self._params, x))

    def features(self, x: Tensor) -> Any:
        """(input of the head, logits) of rows: tensors of shape (n_rows, n_features), (n_rows, n_classes).

        Raises
        ------
        NetError
            If the module has no head that can be told.
        """
        features, output = forward_with_features(self.module, self.head, self._runner(self._params), x)
        return features, self._logits(_first(output))

    def frozen(self, x: Tensor, params: Any = None) -> Any:
        """(features, logits) in evaluation mode and without gradients, of other tensors if given.

        Buffers are left as they are.
        """
        with torch.no_grad(), evaluation(self.module):
            run = self._runner(self.params if params is None else self.params | params)
            features, output = forward_with_features(self.module, self.head, run, x)
            return features, self._logits(_first(output))

    def evaluate(self, x: Tensor, params: Any = None) -> Any:
        """Logits in evaluation mode, of other tensors if given; gradients flow where they are asked for."""
        with evaluation(self.module):
            return self._logits(self._run(self.params if params is None else self.params | params, x))

    def raw(self, x: Tensor) -> Any:
        """The module's own output in evaluation mode, without gradients."""
        with torch.no_grad(), evaluation(self.module):
            return self._run(self._params, x)

    def with_params(self, params: Any) -> Any:
        """The same module with other tensors; those left out stay."""
        return Model(self.module, self.criterion, self.n_classes, self.params | params)

    def _runner(self, params):
        if params is None:
            return self.module
        own = {place: params[name] for place, name in first_names(self.module).items() if name in params}
        return lambda x: functional_call(self.module, own, (x,), tie_weights=False)

    def _run(self, params, x):
        return _first(self._runner(params)(x))

    def _logits(self, output):
        return log_input(self.criterion, output)


def first_names(module):
    """The name that counts for every place of a module that holds a tensor, a dictionary.

    Layers may share a weight, and a layer may hang under two names: the first name says what all of them hold.
    """
    places, names = {}, {}
    for path, layer in module.named_modules():
        for own, tensor in [*layer._parameters.items(), *layer._buffers.items()]:
            if tensor is not None:
                place = f"{path}.{own}" if path else own
                places[place] = names.setdefault(id(tensor), place)
    return places


@contextmanager
def evaluation(module):
    """A module in evaluation mode; every layer's own mode comes back."""
    modes = [(layer, layer.training) for layer in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for layer, mode in modes:
            layer.training = mode


def _first(output: Any):
    return output[0] if isinstance(output, tuple) else output
