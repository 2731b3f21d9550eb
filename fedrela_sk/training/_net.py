"""The skorch net: built once per fit, its settings read, its tensors written and read."""

import copy
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import torch
from sklearn.base import clone
from torch import nn

from fedrela_sk._random import Purpose
from fedrela_sk.exceptions import NetError
from fedrela_sk.losses import Progress
from fedrela_sk.training._criterion import check_criterion, check_output, use_dtype
from fedrela_sk.training._skorch_settings import check_callbacks, check_parts, check_settings
from fedrela_sk.training.runtime._generator import forked_generators, seed_generators
from fedrela_sk.training.runtime._replica import replica_of

BATCH_NORMS = (nn.modules.batchnorm._BatchNorm,)


def batch_bounds(n_rows, batch_size, merge_single=False):
    """Start and stop of every batch of one epoch.

    Parameters
    ----------
    n_rows : int >= 1
    batch_size : int
        -1 for all rows at once, as in skorch.
    merge_single : bool
        Join a last batch of one row to its neighbor: BatchNorm has no statistics of one row.

    Returns
    -------
    bounds : list of (int, int)
    """
    size = n_rows if batch_size == -1 else batch_size
    starts = list(range(0, n_rows, size))
    if merge_single and len(starts) > 1 and n_rows - starts[-1] == 1:
        starts.pop()
    return list(zip(starts, [*starts[1:], n_rows], strict=True))


@dataclass(frozen=True)
class LocalSettings:
    """How a client trains, as the skorch net states it.

    Attributes
    ----------
    epochs : int
        `max_epochs` of the net.
    batch_size : int
        -1 for all rows at once.
    shuffle : bool
        Whether rows are shuffled in each epoch.
    lr : float
        Rate before the schedule: `optimizer__lr` where it is set, else `lr`, as in skorch.
    batch_norms : tuple of modules
        The module's BatchNorm layers.
    callbacks : tuple of skorch callbacks
        The user's own; skorch's default ones are left out.
    """

    epochs: int
    batch_size: int
    shuffle: bool
    lr: float
    batch_norms: tuple
    callbacks: tuple

    def batch_bounds(self, n_rows):
        """`batch_bounds` of an epoch of `n_rows` rows."""
        return batch_bounds(n_rows, self.batch_size, merge_single=bool(self.batch_norms))

    def n_steps(self, n_rows):
        """Optimizer steps of a client with `n_rows` rows in one round."""
        return len(self.batch_bounds(n_rows)) * self.epochs


def default_net(n_features, n_classes):
    """The net of `FederatedClassifier(estimator=None)`: an MLP sized to the data."""
    from skorch import NeuralNetClassifier

    from fedrela_sk.nets import MLP

    return NeuralNetClassifier(
        MLP,
        module__n_features=n_features,
        module__n_classes=n_classes,
        criterion=nn.CrossEntropyLoss,
        optimizer=torch.optim.SGD,
        optimizer__momentum=0.9,
        lr=0.05,
        batch_size=32,
        max_epochs=1,
        iterator_train__shuffle=True,
    )


def build_net(estimator, X, y, n_classes, seed, *, prepare=None, own_loss=False, bare=False):
    """An initialized copy of the caller's net; the caller's own stays as it is.

    Parameters
    ----------
    estimator : skorch.NeuralNetClassifier or None
    X : ndarray
        Training data, for callbacks that size the net (`skorch.callbacks.InputShapeSetter`).
    y : ndarray of int64
        Codes of the labels, 0 to ``n_classes - 1``.
    n_classes : int
    seed : int
        Initial weights are drawn from stream (seed, INIT), whatever torch's global generator holds.
    prepare : callable of (module, n_classes) or None
        Gives the module that is trained, for methods with a head of their own.
    own_loss : bool
        Whether the method's loss takes the place of the criterion, which must then be a plain one.
    bare : bool
        Whether it takes nothing else from the criterion either.

    Raises
    ------
    NetError
        If it is no skorch classifier or asks for something that has no meaning at a client.
    """
    if estimator is None:
        if X.ndim != 2:
            raise NetError(
                f"estimator=None makes a net for tables, but X has shape {X.shape}. Pass a net of your own, for "
                "example NeuralNetClassifier(Module, criterion=torch.nn.CrossEntropyLoss)."
            )
        net = default_net(X.shape[1], n_classes)
    else:
        _check_net(estimator)
        net = clone(estimator)
    with forked_generators(net.device):
        seed_generators(net.device, seed, Purpose.INIT)
        net.initialize()
        check_parts(net)
        check_callbacks(user_callbacks(net))
        verbose, net.verbose = net.verbose, 0  # a net that is sized would print
        for callback in copy.deepcopy(
            user_callbacks(net)
        ):  # those that train have not seen all clients' rows
            _refuse_progress(callback)
            callback.on_train_begin(net, X=X, y=y)
        net.verbose = verbose
        if prepare is not None:
            _prepare(net, prepare, n_classes)
    check_criterion(net.criterion_, own_loss, bare)
    use_dtype(net.criterion_, floating_dtype(net.module_))
    net.classes_inferred_ = torch.arange(n_classes).numpy()
    return net


def _refuse_progress(callback):
    if isinstance(callback, Progress):
        raise NetError(
            "fedrela_sk.losses.Progress is for nets that skorch trains alone: a federation tells the loss how far "
            "training is by itself, in rounds. Remove it from the net's callbacks."
        )


def check_forward(net, X, n_classes):
    """Run the module once, on two rows in evaluation mode, so that what does not fit is named before round 0.

    Parameters
    ----------
    net : initialized skorch net
    X : tensor of shape (n_rows, ...)
    n_classes : int

    Raises
    ------
    NetError
        If the module fails, or gives no column per class.
    """
    probe = replica_of(net)  # whatever the module notes of these rows, no client starts from it
    probe.module_.eval()
    try:
        with torch.no_grad(), forked_generators(net.device):
            output = forward(probe, X[:2].clone())
    except Exception as error:
        raise NetError(
            f"The module fails on rows of shape {tuple(X.shape[1:])}: {type(error).__name__}: {error}. Make its "
            "input fit them, for example with module__n_features (of images module__image_shape, module__n_channels) "
            "or skorch.callbacks.InputShapeSetter."
        ) from error
    check_output(output, net.criterion_, n_classes)


def _prepare(net, prepare, n_classes):
    """Put the module that a method makes of the net's own in its place."""
    module = prepare(net.module_, n_classes)
    if module is not net.module_:
        net.module_ = module
    dtype = floating_dtype(module)
    module.to(device=net.device, dtype=dtype)
    net.initialize_optimizer()


def _check_net(net):
    from skorch import NeuralNetClassifier

    if not isinstance(net, NeuralNetClassifier):
        raise NetError(
            f"estimator must be a skorch.NeuralNetClassifier or None, got {type(net).__name__}. "
            "Wrap the torch module: NeuralNetClassifier(Module, criterion=torch.nn.CrossEntropyLoss)."
        )
    default_split = NeuralNetClassifier(nn.Identity).train_split
    if net.train_split is not None and not _same_split(net.train_split, default_split):
        raise NetError(
            f"train_split={net.train_split!r} would hold out rows inside every client. "
            "Set train_split=None and use FederatedClassifier(validation=share) or X_val, y_val at fit."
        )
    check_settings(net)
    loader = net.get_params_for("iterator_train")
    _check_whole("max_epochs (local epochs)", net.max_epochs)
    for name, size in (
        ("batch_size", net.batch_size),
        ("iterator_train__batch_size", loader.get("batch_size", -1)),
    ):
        if size != -1:
            _check_whole(name, size, "-1 (all rows at once) or ")


def _check_whole(name, value, other=""):
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
        raise NetError(f"{name} must be {other}a whole number >= 1, got {value!r}.")


def _same_split(split, default):
    """Whether a `train_split` is the one that skorch puts in by itself."""
    same_class = type(split) is type(default)
    return same_class and vars(split).get("cv") == 5 and vars(split) | {"cv": 5} == vars(default) | {"cv": 5}


def user_callbacks(net):
    """Callbacks that the user set, in order; skorch's default ones (timing, scoring, printing) are not."""
    default = {name for name, _ in net._default_callbacks}
    return tuple(callback for name, callback in net.callbacks_ if name not in default)


def read_settings(net):
    """`LocalSettings` of an initialized net."""
    loader = net.get_params_for("iterator_train")
    return LocalSettings(
        epochs=net.max_epochs,
        batch_size=loader.get("batch_size", net.batch_size),
        shuffle=bool(loader.get("shuffle", False)),
        lr=net.get_params_for("optimizer").get("lr", net.lr),
        batch_norms=tuple(layer for layer in net.module_.modules() if isinstance(layer, BATCH_NORMS)),
        callbacks=user_callbacks(net),
    )


def solver_of(optimizer):
    """What `LocalRun` says of an optimizer, by the names of its fields; zeros where it has no such setting."""
    settings = [
        (group["lr"], group.get("momentum", 0.0), group.get("dampening", 0.0), group.get("nesterov", False))
        for group in optimizer.param_groups
    ]
    _, momentum, dampening, nesterov = settings[0]
    return {
        "momentum": float(momentum),
        "dampening": float(dampening),
        "nesterov": bool(nesterov),
        "optimizer": type(optimizer).__name__,
        "alike": all(other == settings[0] for other in settings),
    }


def tensors_of(module):
    """Parameters and persistent buffers of a module by name; they share its memory."""
    return {name: tensor.detach() for name, tensor in module.state_dict().items()}


def write_tensors(module, tensors):
    """Copy `tensors` into a module in place."""
    own = module.state_dict()
    with torch.no_grad():
        for name, tensor in tensors.items():
            own[name].copy_(tensor)


def floating_dtype(module):
    """Dtype of the module's floating parameters, float32 for a module without any."""
    return next((p.dtype for p in module.parameters() if p.is_floating_point()), torch.float32)


def forward(net, X, **fit_params: Any):
    """First output of the net's module on a batch, through `infer` where a subclass changed it."""
    from skorch import NeuralNet

    output = net.module_(X) if type(net).infer is NeuralNet.infer else net.infer(X, **fit_params)
    return output[0] if isinstance(output, tuple) else output
