"""A fitted model on disk: tensors in safetensors, the rest in JSON. No pickle, and nothing is imported by name."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from sklearn.base import clone
from skorch import NeuralNetClassifier
from torch import nn

from fedrela_sk import nets
from fedrela_sk._typing import AnyPath
from fedrela_sk._version import __version__
from fedrela_sk.algorithms import ALGORITHMS, FedAvg
from fedrela_sk.exceptions import ModelFileError
from fedrela_sk.federation._files import replace_file
from fedrela_sk.federation.fitted._own_models import OwnModels
from fedrela_sk.federation.fitted._serving import ServedClassifier
from fedrela_sk.training.runtime._generator import forked_generators

FORMAT = 1
_CRITERIA = {"logits": nn.CrossEntropyLoss, "probabilities": nn.NLLLoss}
# nets that a file may name; any other one is passed by the caller
_NETS = {name: getattr(nets, name) for name in ("MLP", "SmallCNN", "ResNet8", "ResNet18", "ResNet34")}


def save_model(model: Any, folder: AnyPath) -> None:
    """Write what predicts of a fitted federation: ``model.json`` and ``model.safetensors``.

    Parameters
    ----------
    model : fitted FederatedClassifier or ServedClassifier
    folder : str or path-like
        Made where it does not exist; a model that is there is replaced.

    Raises
    ------
    ModelFileError
        If the model has a part that no file can describe: a net with a forward pass of its own (`infer`), a method
        of your own with heads of clients, labels or names of clients that are neither text nor numbers.
    """
    served = model.for_serving()
    tensors = _tensors(served)
    content = save(tensors)
    facts = _facts(served) | {
        "format": FORMAT,
        "versions": {"fedrela_sk": __version__, "torch": str(torch.__version__)},
        "tensors": {name: [str(t.dtype), list(t.shape)] for name, t in tensors.items()},
        "sha256": hashlib.sha256(content).hexdigest(),
    }
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    replace_file(folder / "model.safetensors", content)
    replace_file(folder / "model.json", json.dumps(facts, indent=1).encode())


def load_model(folder: AnyPath, module: Any = None) -> Any:
    """The model that `save_model` wrote, ready to predict.

    Parameters
    ----------
    folder : str or path-like
    module : class or instance of torch.nn.Module, default=None
        The net's module; needed unless it is one of `fedrela_sk.nets`. A class is called with the arguments that were
        stored. Import paths in the file are compared with it, never imported.

    Returns
    -------
    model : ServedClassifier

    Raises
    ------
    ModelFileError
        If files are missing, damaged, of another format, or do not fit the module.
    """
    facts, content = _read(Path(folder))
    algorithm = _algorithm(facts)
    net = _make_net(facts, module, algorithm)
    tensors = _checked_tensors(content, facts, net)
    attributes = {
        "classes_": _from_json(facts["classes"]),
        "client_names_": _from_json(facts["clients"]).tolist(),
        "n_features_in_": int(facts["row_shape"][0]),
        "_row_shape": tuple(facts["row_shape"]),
        "_takes_integers": bool(facts["takes_integers"]),
        "_algorithm": FedAvg() if algorithm is None else algorithm,
    }
    if facts["feature_names"] is not None:
        attributes["feature_names_in_"] = np.array(facts["feature_names"], dtype=object)
    with torch.no_grad():
        stored = _part(tensors, "net")
        for name, tensor in _all_tensors(net.module_).items():
            tensor.copy_(stored[name])
    attributes |= _models(facts, net, tensors, algorithm)
    return ServedClassifier._with(attributes)


# --- what is written -----------------------------------------------------------------------------------------------


def _tensors(served):
    """All tensors by ``part/name``: the net, and each client's own."""
    own = served._own_models
    net = served.net_ if own is None else own.net
    tree = _all_tensors(net.module_) | ({} if own is None else own.params)
    found = {f"net/{name}": tensor for name, tensor in tree.items()}
    for position, kept in ({} if own is None else own.kept).items():
        found |= {f"client {position}/{name}": tensor for name, tensor in kept.items()}
    return {name: tensor.detach().cpu().contiguous().clone() for name, tensor in found.items()}


def _all_tensors(module):
    """Parameters and buffers by name, those too that a `state_dict` leaves out: they may have been drawn."""
    return module.state_dict() | dict(module.named_buffers(remove_duplicate=False))


def _facts(served):
    own = served._own_models
    net = served.net_ if own is None else own.net
    if type(net).infer is not NeuralNetClassifier.infer:
        raise ModelFileError(
            f"{type(net).__name__} has a forward pass of its own (infer), which no file can hold. Move it into the "
            "module."
        )
    names = getattr(served, "feature_names_in_", None)
    return {
        "classes": _to_json(served.classes_, "classes"),
        "clients": _to_json(np.array(served.client_names_), "names of clients"),
        "sizes": [] if own is None else np.asarray(own.sizes).tolist(),
        "algorithm": _describe_algorithm(served._algorithm, own),
        "row_shape": list(served._row_shape),
        "takes_integers": served._takes_integers,
        "feature_names": None if names is None else [str(name) for name in names],
        "output": next(k for k, c in _CRITERIA.items() if isinstance(net.criterion_, c)),
        "module": _describe_module(net),
    }


def _describe_module(net):
    """Name of a net of ours or None, import path, and the arguments that JSON can hold (None: not all)."""
    kind = net.module if isinstance(net.module, type) else type(net.module)
    arguments = net.get_params_for("module") if isinstance(net.module, type) else {}
    try:
        arguments = json.loads(json.dumps(arguments, default=_number))
    except TypeError:
        arguments = None
    ours = next(
        (name for name, known in _NETS.items() if known is kind and isinstance(net.module, type)), None
    )
    return {"ours": ours, "path": f"{kind.__module__}.{kind.__qualname__}", "arguments": arguments}


def _number(value):
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(type(value).__name__)


def _describe_algorithm(algorithm, own):
    """Name and parameters of a method that made the module or its clients' models; None where any would do."""
    if own is None and not algorithm.uses("prepare_module"):
        return None
    name = next((name for name, kind in ALGORITHMS.items() if kind is type(algorithm)), None)
    if name is None:
        raise ModelFileError(
            f"{type(algorithm).__name__} is a method of your own that makes heads: no file can hold its code. "
            "Pickle for_serving() instead, where you trust the reader's code."
        )
    try:
        return {
            "name": name,
            "params": json.loads(json.dumps(algorithm.get_params(deep=False), default=_number)),
        }
    except TypeError as error:
        raise ModelFileError(f"A parameter of {algorithm!r} cannot be held by JSON: {error}.") from error


def _to_json(values, what):
    """Labels or names with their dtype."""
    values = np.asarray(values)
    items = values.tolist()
    if not all(isinstance(item, str | int | float) for item in items):
        kinds = sorted({type(item).__name__ for item in items})
        raise ModelFileError(
            f"The {what} must be text, whole numbers, floats or bools to be stored, got {kinds}."
        )
    return {"dtype": values.dtype.str if values.dtype != object else "object", "values": items}


def _from_json(stored):
    return np.array(stored["values"], dtype=np.dtype(stored["dtype"]))


# --- what is read --------------------------------------------------------------------------------------------------


def _read(folder):
    """(facts, path of the tensors), if both files belong together."""
    try:
        facts = json.loads((folder / "model.json").read_bytes())
        content = (folder / "model.safetensors").read_bytes()
    except FileNotFoundError as error:
        raise ModelFileError(f"{folder} holds no model: {error.filename} is missing.") from error
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{folder / 'model.json'} is no JSON: {error}") from error
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        got = facts.get("format") if isinstance(facts, dict) else type(facts).__name__
        raise ModelFileError(
            f"{folder / 'model.json'} has format {got!r}, expected {FORMAT}. Load it with the version of "
            "fedrela_sk that wrote it."
        )
    missing = {"classes", "clients", "sizes", "algorithm", "row_shape", "takes_integers", "feature_names", "output",
               "module", "tensors", "sha256"} - facts.keys()  # fmt: skip
    if missing:
        raise ModelFileError(f"{folder / 'model.json'} lacks {sorted(missing)[0]!r}: it is damaged.")
    if hashlib.sha256(content).hexdigest() != facts["sha256"]:
        raise ModelFileError(
            f"{folder / 'model.safetensors'} is damaged: its checksum is not that of model.json."
        )
    return facts, folder / "model.safetensors"


def _algorithm(facts):
    stored = facts["algorithm"]
    if stored is None:
        return None
    if stored["name"] not in ALGORITHMS:
        raise ModelFileError(
            f"The method {stored['name']!r} is not known to this version of fedrela_sk, {__version__}."
        )
    algorithm = ALGORITHMS[stored["name"]](**stored["params"])
    algorithm.check()
    return algorithm


def _make_net(facts, module, algorithm):
    """An initialized net of the stored kind, its weights not written yet."""
    stored = facts["module"]
    if facts["output"] not in _CRITERIA:
        raise ModelFileError(f"The output {facts['output']!r} is not one of {sorted(_CRITERIA)}.")
    if module is None:
        if stored["ours"] not in _NETS:
            raise ModelFileError(
                f"The net's module is {stored['path']}, which is not imported by its name. Pass it: "
                "load_model(folder, module=...)."
            )
        module = _NETS[stored["ours"]]
    kind = module if isinstance(module, type) else type(module)
    path = f"{kind.__module__}.{kind.__qualname__}"
    if kind.__qualname__ != stored["path"].rsplit(".", 1)[-1] and stored["path"] != path:
        raise ModelFileError(f"The stored module is {stored['path']}, but {path} was passed.")
    if isinstance(module, type) and stored["arguments"] is None:
        raise ModelFileError(
            f"Not all arguments of {stored['path']} could be stored: pass an instance, made by you."
        )
    arguments = stored["arguments"] if isinstance(module, type) else {}
    arguments = {f"module__{n}": tuple(v) if isinstance(v, list) else v for n, v in arguments.items()}
    net = NeuralNetClassifier(
        module if isinstance(module, type) else clone(module, safe=False),
        criterion=_CRITERIA[facts["output"]], train_split=None, verbose=0, **arguments,
    )  # fmt: skip
    with forked_generators("cpu"):
        net.initialize()
        if algorithm is not None:
            net.module_ = algorithm.prepare_module(net.module_, len(facts["classes"]["values"]))
    dtypes = {d for name, (d, _) in facts["tensors"].items() if name.startswith("net/") and "float" in d}
    if len(dtypes) == 1:
        net.module_.to(getattr(torch, dtypes.pop().removeprefix("torch.")))
    net.classes_inferred_ = np.arange(len(facts["classes"]["values"]))
    net.initialize_optimizer()
    net.module_.eval()
    return net


def _checked_tensors(path, facts, net):
    """Stored tensors, if names, shapes and dtypes are the module's: looked at before a tensor is read."""
    own = {f"net/{name}": tensor for name, tensor in _all_tensors(net.module_).items()}
    try:
        with safe_open(path, framework="pt") as file:
            names = set(file.keys())
            for name in sorted(names):
                tensor = file.get_slice(name)
                part, _, rest = name.partition("/")
                like = own.get(f"net/{rest}") if part.startswith("client ") else own.get(name)
                expected = facts["tensors"].get(name)
                shape = list(tensor.get_shape())
                if like is None or expected is None or shape != list(like.shape) or shape != expected[1]:
                    fits = "no tensor of that name" if like is None else f"shape {tuple(like.shape)}"
                    raise ModelFileError(
                        f"The stored tensor {name!r} has shape {tuple(shape)}, but the module has {fits}. Pass the "
                        "module with the arguments that it was trained with."
                    )
            missing = sorted(own.keys() - names)
            if missing:
                raise ModelFileError(f"The file lacks the module's tensor {missing[0]!r}.")
            tensors = {name: file.get_tensor(name) for name in sorted(names)}
    except SafetensorError as error:
        raise ModelFileError(f"{path} cannot be read: {error}") from error
    for name, tensor in tensors.items():
        if str(tensor.dtype) != facts["tensors"][name][0]:
            raise ModelFileError(
                f"The stored tensor {name!r} is {tensor.dtype}, model.json says {facts['tensors'][name][0]}."
            )
        if tensor.is_floating_point() and not torch.isfinite(tensor).all():
            raise ModelFileError(f"The stored tensor {name!r} is not finite.")
    return tensors


def _part(tensors, part):
    return {n.partition("/")[2]: tensor for n, tensor in tensors.items() if n.partition("/")[0] == part}


def _models(facts, net, tensors, algorithm):
    """Fitted attributes that hold models."""
    if algorithm is None or not algorithm.has_own_models:
        return {"net_": net, "_own_models": None}
    parts = {name.partition("/")[0] for name in tensors} - {"net"}
    kept = {int(part.removeprefix("client ")): _part(tensors, part) for part in sorted(parts)}
    own = OwnModels(algorithm, net, _part(tensors, "net"), kept, np.array(facts["sizes"]))
    return {"net_": net if algorithm.averages else None, "_own_models": own}
