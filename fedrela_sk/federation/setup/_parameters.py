"""Parameters of a federation that no constraint table can describe."""

import difflib

from fedrela_sk.algorithms import ALGORITHMS
from fedrela_sk.algorithms._derived import check_facts
from fedrela_sk.participation import Participation, UniformSampling

# Parameters that stand in the signature before what they do is there: only their defaults are accepted.
_NOT_YET = {"checkpoint": None, "warm_start": False, "resume": None}


def refuse_reserved(**given):
    """Refuse other values than the defaults of parameters that do nothing yet, given by name."""
    for name, default in _NOT_YET.items():
        if given[name] is not default:
            raise ValueError(
                f"{name}={given[name]!r} is not available in this version of fedrela_sk. Leave it at {default!r}."
            )


def refuse_class(name, value):
    """Refuse a class where an instance of it is meant, with the spelling that is."""
    if isinstance(value, type):
        raise ValueError(
            f"{name} must be an instance, got the class {value.__name__}. Pass {value.__name__}(...), with its "
            "parentheses."
        )


def check_classes_for_instances(estimator):
    """Refuse classes as values of the parameters of a federation that take objects."""
    for name in ("estimator", "clients", "algorithm", "relabeler", "participation", "local_data", "engine"):
        refuse_class(name, getattr(estimator, name))


def check_relabeler(relabeler):
    """Refuse bad parameters of a relabeler of ours now, not after most rounds."""
    if hasattr(relabeler, "_parameter_constraints"):
        relabeler._validate_params()


def check_algorithm(algorithm):
    """The method as an object, its hyper-parameters checked."""
    if isinstance(algorithm, str):
        algorithm = _named(algorithm)()
    refuse_class("algorithm", algorithm)
    algorithm.check()
    check_facts(algorithm)
    return algorithm


def _named(name):
    """The class of a method by its name."""
    if name in ALGORITHMS:
        return ALGORITHMS[name]
    close = difflib.get_close_matches(name.lower(), ALGORITHMS, n=1)
    hint = f"Did you mean {close[0]!r}? " if close else ""
    raise ValueError(
        f"The 'algorithm' parameter of FederatedClassifier must be an instance such as FedProx(mu=0.1), or one of "
        f"the names {sorted(ALGORITHMS)}. {hint}Got {name!r}."
    )


def check_local_data(local_data, algorithm):
    """Refuse what is no tool for a client's rows, and mixing where the method makes its loss from features."""
    if hasattr(local_data, "_parameter_constraints"):
        local_data._validate_params()  # now: later, a sampler's ValueError means that a client has too few rows
    if hasattr(local_data, "mix") and algorithm.uses("client_loss"):
        raise ValueError(
            f"local_data={local_data!r} mixes the rows of a batch for the criterion, but {type(algorithm).__name__} "
            "makes a loss of its own from them. Use a fit_resample tool, or another algorithm."
        )


def check_recording(settings, algorithm, local_data):
    """Refuse to record posteriors where the logits of training steps do not predict, or cannot be seen.

    Parameters
    ----------
    settings : dict
        As `check_relabel_posteriors` returns it.
    algorithm : Algorithm
    local_data : object or None
    """
    if settings["passes"] != "training":
        return
    name = type(algorithm).__name__
    if algorithm.uses("client_loss"):
        reason = f"{name} runs the net inside its own loss"
    elif algorithm.uses("predict_params"):
        reason = f"{name} predicts or re-labels with other tensors than its clients train"
    elif hasattr(local_data, "mix"):
        reason = f"local_data={local_data!r} trains on mixtures of rows"
    else:
        return
    raise ValueError(
        f"relabel_posteriors={{'passes': 'training'}} records the logits of training steps, but {reason}. Set "
        "'passes' to 1, a forward pass of the model that predicts."
    )


def check_participation(rule, algorithm):
    """Refuse rules of participation that a method cannot follow."""
    if not isinstance(rule, Participation) or (algorithm.averages and algorithm.sends_model):
        return
    if isinstance(rule, UniformSampling):
        return
    raise ValueError(
        f"participation={rule!r} does not go with {type(algorithm).__name__}, whose clients do not send their "
        "model to be averaged. Use a share of the clients, or UniformSampling."
    )


def check_validation(validation, select, X_val, y_val, groups_val=None):
    """Refuse rows to watch the model on that are given by halves or twice, and a choice without any."""
    if groups_val is not None and X_val is None:
        raise ValueError("groups_val names the clients of the rows of X_val: pass X_val and y_val too.")
    if (X_val is None) != (y_val is None):
        raise ValueError("X_val and y_val belong together: pass both or neither.")
    if X_val is not None and validation is not None:
        raise ValueError(
            f"Both validation={validation} and X_val, y_val were given. Use one of them: a share of each "
            "client's rows, or rows of your own."
        )
    if X_val is None and validation is None and select == "best_validation":
        raise ValueError(
            "select='best_validation' needs validation rows. Set validation=share or pass X_val, y_val."
        )
