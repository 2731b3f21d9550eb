"""When clients relabel: the relabel round, and who is due in it or later."""

import math
from numbers import Integral


def relabel_round(relabel_at, n_rounds):
    """The number r of completed rounds after which clients relabel, before round index r trains.

    Parameters
    ----------
    relabel_at : int >= 1 or float in (0, 1)
        An int is r itself; a float f means min(max(1, ceil(f n_rounds - 1e-9)), n_rounds - 1).
    n_rounds : int >= 1

    Returns
    -------
    r : int or None
        None where no round is left to train on new labels: r >= n_rounds, or a single round with a float.
    """
    if isinstance(relabel_at, Integral):
        return int(relabel_at) if relabel_at < n_rounds else None
    if n_rounds == 1:
        return None
    return min(max(1, math.ceil(relabel_at * n_rounds - 1e-9)), n_rounds - 1)


def relabel_due(round, last, first, every, late):
    """Whether a client that takes part in `round` relabels before it trains.

    Parameters
    ----------
    round : int
        Index of the round.
    last : int or None
        Round in which the client last relabelled.
    first : int or None
        The relabel round; None for never.
    every : int or None
        Period of the refresh; None for once.
    late : {"next", "never"}
        Whether a client absent at a due round relabels when it next takes part.
    """
    if first is None or round < first:
        return False
    latest_due = first if every is None else first + (round - first) // every * every
    if late == "never":
        return round == latest_due
    return last is None or last < latest_due
