"""What a method states of itself in class attributes can be read: `neutral`, `telling`, `traffic`, `unused_hooks`."""

from fedrela_sk.testing._probe import HOOKS
from fedrela_sk.testing._promise import broken, refused
from fedrela_sk.testing._traffic import declared_costs

_ANY_SIZES = {"M": 1, "C": 1, "H": 1}


def check_stated(method):
    """Attributes that only an author can state are there and mean something.

    Parameters
    ----------
    method : Algorithm

    Raises
    ------
    CheckError
        With the first attribute that is missing, of another kind, or names what does not exist.
    """
    _check_neutral(method)
    _check_hyperparameters(method, "neutral", method.neutral)
    _check_hyperparameters(method, "telling", method.telling)
    _check_traffic(method)
    _check_unused_hooks(method)


def _check_neutral(method):
    if method.neutral is None and method.neutral_reason == "not stated":
        raise broken(
            method,
            "it states under which parameters it equals FedAvg, or why it never does",
            "neither neutral nor neutral_reason is stated",
            'write neutral = {"strength": 0.0} in the class, or neutral_reason = "its head is another one"',
        )


def _check_hyperparameters(method, name, stated):
    """A dictionary of parameters of the constructor, or nothing."""
    own = method.get_params(deep=False)
    if stated is None or (isinstance(stated, dict) and stated.keys() <= own.keys()):
        return
    raise broken(
        method,
        f"{name} gives hyper-parameters by name",
        f"{name} = {stated!r}, and the constructor takes {sorted(own)}",
        f'write {name} = {{"strength": 0.0}} with names of arguments of __init__',
    )


def _check_traffic(method):
    promise = "traffic declares what a client sends and receives in a round"
    mend = 'write traffic = "up / down", sums of products of M, C, H, K and numbers of bytes, as in "2 * M + C / M"'
    with refused(method, f"{promise}, traffic = {method.traffic!r}", mend):
        declared_costs(method.traffic, _ANY_SIZES, [0])


def _check_unused_hooks(method):
    promise, mend = (
        "unused_hooks names hooks",
        'return their names in a tuple, as in return ("client_penalty",)',
    )
    with refused(method, promise, mend):
        unknown = sorted(set(method.unused_hooks()) - set(HOOKS))
    if unknown:
        raise broken(method, promise, f"{unknown} are no hooks of Algorithm", mend)
