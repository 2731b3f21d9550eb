"""What of a skorch net counts at a client: a table of parameters and methods; all else is refused by name."""

from skorch import NeuralNetClassifier
from skorch.callbacks import BatchScoring, EpochScoring, PassthroughScoring
from torch import nn

from fedrela_sk.exceptions import NetError

# Parameters of `NeuralNetClassifier` that count, or may be set without harm, and why. A parameter that is not here
# must have skorch's default.
PARAMETERS = {
    "module": "the net of every client",
    "criterion": "the loss of local training",
    "optimizer": "the optimizer of local training",
    "lr": "its rate, unless optimizer__lr is set",
    "max_epochs": "local epochs",
    "batch_size": "rows of a local batch",
    "callbacks": "the user's own run in each client's training",
    "device": "where clients train",
    "classes": "the classes of the federation, unless FederatedClassifier(classes=...) names them",
    "train_split": "the default is ignored, others have an error of their own",
    "verbose": "what skorch prints; a federation has its own `verbose`",
    "iterator_valid": "read by `net_` when it predicts by itself, after the fit",
    "torch_load_kwargs": "read by `net_` when it loads parameters, after the fit",
}
# Parameters with these beginnings, and why; `iterator_train__` has a table of its own below.
PREFIXES = {
    "module": "arguments of the module",
    "criterion": "arguments of the loss",
    "optimizer": "arguments of the optimizer",
    "callbacks": "arguments of callbacks; skorch's default callbacks are ignored",
    "iterator_valid": "as `iterator_valid`",
}
# Parts of skorch's whose parameters are not read.
UNREAD_PARTS = ("dataset", "compile", "train_split", "torch_load_kwargs")
# What `iterator_train__` may set: which rows meet, or how rows are fetched, which changes nothing here.
LOADER = {
    "shuffle": "whether rows are shuffled in every local epoch",
    "batch_size": "rows of a local batch",
    "num_workers": "how rows are fetched",
    "pin_memory": "how rows are fetched",
    "persistent_workers": "how rows are fetched",
    "prefetch_factor": "how rows are fetched",
}
# Methods that a subclass may override, and why.
METHODS = {
    "infer": "the forward pass of local training and of predictions",
    "initialize": "makes the net that is trained",
    "initialize_module": "makes the module that is trained, one only",
    "initialize_criterion": "makes the loss",
    "initialize_optimizer": "makes the optimizer of local training",
    "initialize_callbacks": "makes the callbacks",
    "initialize_history": "makes the history that callbacks see",
    "initialize_virtual_params": "called by `initialize`",
    "initialized_instance": "called by `initialize`",
    "get_params_for": "read for module, criterion and loader",
    "get_params_for_optimizer": "read by `initialize_optimizer`",
    "get_all_learnable_params": "read by `initialize_optimizer`",
    "get_params": "how scikit-learn copies the net",
    "set_params": "how scikit-learn and callbacks set parameters",
    "check_is_fitted": "of `net_`, after the fit",
    "save_params": "of `net_`, after the fit",
    "load_params": "of `net_`, after the fit",
    "trim_for_prediction": "of `net_`, after the fit",
    "get_metadata_routing": "of `net_`, after the fit",
    "set_fit_request": "of `net_`, after the fit",
    "set_partial_fit_request": "of `net_`, after the fit",
    "set_score_request": "of `net_`, after the fit",
}
# A way out for some of what is refused; others have none but a change of the net.
WAYS_OUT = {
    "dataset": "Pass X and y as arrays of numbers; transform rows in the module",
    "iterator_train": "Use iterator_train__shuffle and batch_size",
    "warm_start": "A federation always starts from the net's initial weights",
    "compile": "Leave compile=False: the stacked engine is what makes small nets fast",
    "predict_nonlinearity": "Use a criterion that says what outputs mean: CrossEntropyLoss on logits, NLLLoss on "
    "probabilities",
    "get_loss": "Change the loss in a child of torch.nn.CrossEntropyLoss",
}


def check_settings(net):
    """Refuse what local training would not read.

    Parameters
    ----------
    net : skorch.NeuralNetClassifier
        Not initialized.

    Raises
    ------
    NetError
        With the first parameter that differs from skorch's default, or the first method that is not skorch's own,
        and has no line in the tables above.
    """
    defaults = NeuralNetClassifier(nn.Identity).get_params(deep=False)
    for name, value in net.get_params(deep=False).items():
        if not name.startswith("_"):  # skorch's own books
            _check_parameter(name, value, defaults)
    for name in dir(NeuralNetClassifier):
        if not name.startswith("__") and name not in METHODS and _overridden(net, name):
            raise NetError(
                f"{type(net).__name__} has a {name} of its own, which local training would not call. "
                f"{WAYS_OUT.get(name, _ELSEWHERE)}."
            )


_DEFAULT = "Leave it at skorch's default"
_ELSEWHERE = (
    "Change the loss in a child of torch.nn.CrossEntropyLoss, the forward pass in the module or in `infer`, "
    "gradients in a callback's `on_grad_computed`"
)


def _overridden(net, name):
    """Whether a subclass has put something else in the place of a method or property."""
    own, skorchs = (getattr(kind, name, None) for kind in (type(net), NeuralNetClassifier))
    if not (callable(skorchs) or isinstance(skorchs, property)):
        return False
    return getattr(own, "__func__", own) is not getattr(skorchs, "__func__", skorchs)


def _check_parameter(name, value, defaults):
    """Refuse a parameter that is not read; what a subclass has beside skorch's is its own business."""
    part, _, rest = name.partition("__")
    if part == "iterator_train" and rest:
        if rest in LOADER:
            return
        raise NetError(
            f"{name} is not supported: batches come from the federation's own streams. "
            f"{WAYS_OUT['iterator_train']}."
        )
    if rest and (part in PREFIXES or part not in UNREAD_PARTS):
        return
    if not rest and (name in PARAMETERS or name not in defaults or _equal(value, defaults[name])):
        return
    raise NetError(
        f"{name}={value!r} would not be used: a federation does not read it. {WAYS_OUT.get(part, _DEFAULT)}."
    )


def _equal(value, default):
    return value is default or (type(value) is type(default) and value == default)


def check_parts(net):
    """Refuse an initialized net with more than one module, criterion or optimizer: one of each is trained.

    Raises
    ------
    NetError
        With the name of the second.
    """
    for names, kind in (
        (net._modules, "module"),
        (net._criteria, "criterion"),
        (net._optimizers, "optimizer"),
    ):
        more = [name for name in names if name.rstrip("_") != kind]
        if more:
            raise NetError(
                f"{type(net).__name__} has the further {kind} {more[0]!r}, which a federation would neither train "
                f"nor send. Put everything into one {kind}."
            )


def check_callbacks(callbacks):
    """Refuse callbacks that wait for validation rows, which clients do not have.

    Parameters
    ----------
    callbacks : sequence of skorch callbacks
        The user's own, initialized.

    Raises
    ------
    NetError
        With the way out.
    """
    for callback in callbacks:
        kind = type(callback).__name__
        scores = isinstance(callback, EpochScoring | BatchScoring | PassthroughScoring)
        if scores and not callback.on_train:
            raise NetError(
                f"{kind}(on_train=False) scores validation rows, of which a client has none: nothing would be "
                "recorded. Set on_train=True, or watch the global model with FederatedClassifier(validation=share)."
            )
        monitor = getattr(callback, "monitor", None)
        if isinstance(monitor, str) and monitor.startswith("valid"):
            raise NetError(
                f"{kind}(monitor={monitor!r}) waits for validation rows, of which a client has none. "
                f"Set monitor='{monitor.replace('valid', 'train', 1)}', what local training records, or watch the "
                "global model with FederatedClassifier(validation=share)."
            )
