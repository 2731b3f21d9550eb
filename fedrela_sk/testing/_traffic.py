"""What travels in a fit, against what the history counts and what the method declares."""

import numpy as np

from fedrela_sk.nets import find_head
from fedrela_sk.testing._problem import N_CLASSES, made_rows
from fedrela_sk.testing._promise import broken
from fedrela_sk.testing._watching import held_nbytes

_WEIGHT = 8  # bytes of an update's weight


def check_traffic(method, fed, engine):
    """Updates hold what the history counts, and rounds cost what `traffic` declares.

    Parameters
    ----------
    method : Algorithm
    fed : FederatedClassifier
        Fitted with all clients in every round.
    engine : Watching
        The engine that it was fitted with.
    """
    _check_held(method, fed, engine)
    _check_declared(method, fed, engine)


def _check_held(method, fed, engine):
    for record, (_, _, updates) in zip(fed.history_, engine.rounds, strict=True):
        counted = sum(record.traffic["up"][purpose] for purpose in ("model", "extra tensors"))
        held = sum(held_nbytes(update.tensors) for update in updates)
        if held > counted:
            raise broken(
                method,
                "it sends no more than the history counts",
                f"updates of round {record.round} hold {held} bytes of memory, and {counted} are counted",
                "send copies (tensor.clone()), not views, which hold on to all of the tensor that they look at",
            )


def _check_declared(method, fed, engine):
    """Every round but the first costs what one of the alternatives says."""
    sizes = model_sizes(engine.module, method)
    for record in list(fed.history_)[1:]:
        seen = {
            way: getattr(record, f"bytes_{way}") - record.traffic[way]["weights"] for way in ("up", "down")
        }
        possible = declared_costs(method.traffic, sizes, record.participants)
        if seen not in possible:
            raise broken(
                method,
                f"it sends what it declares, traffic = {method.traffic!r}",
                f"bytes of round {record.round} were {seen}, declared are {possible}",
                'state traffic = "up / down" in the class, with M for the model, C for one number a class, H for the '
                'head, K for the client\'s own classes and plain numbers of bytes, as in "2 * M + C / M"',
            )


def declared_costs(traffic, sizes, participants):
    """Bytes that a round may cost for some clients of the made rows, by direction; one for each alternative."""
    classes = own_classes(participants)
    return [
        {
            way: sum(cost(side, sizes | {"K": n_classes}) for n_classes in classes)
            for way, side in zip(("up", "down"), alternative.split("/"), strict=True)
        }
        for alternative in traffic.split(" or ")
    ]


def own_classes(participants):
    """How many classes each of some clients has rows of."""
    _, y, groups = made_rows()
    return [len(np.unique(y[groups == client])) for client in participants]


def model_sizes(module, method):
    """Bytes that the letters of `Algorithm.traffic` stand for, all but K's."""
    tensors = module.state_dict()
    fixed = {name for name, param in module.named_parameters() if not param.requires_grad}
    moving = [tensors[name] for name in method.shared(tuple(tensors)) if name not in fixed]
    number = next(iter(tensors.values())).element_size()
    return {"M": sum(map(_nbytes, moving)), "C": N_CLASSES * number, "H": _head_nbytes(module)}


def _head_nbytes(module):
    head = module.get_submodule(find_head(module, N_CLASSES))
    return (head.in_features + 1) * head.out_features * next(module.parameters()).element_size()


def _nbytes(tensor):
    return tensor.numel() * tensor.element_size()


def cost(declared, sizes):
    """Bytes of a sum of products such as "2 * M + C"."""
    terms = [
        [sizes[part] if part in sizes else int(part) for part in _split(term, "*")]
        for term in _split(declared, "+")
    ]
    return sum(int(np.prod(term)) for term in terms)


def _split(text, mark):
    return [part.strip() for part in text.split(mark)]
