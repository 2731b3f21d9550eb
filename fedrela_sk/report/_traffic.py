"""Bytes that travel between server and clients, counted by direction and by what they are for."""

DIRECTIONS = ("up", "down")
PURPOSES = ("model", "extra tensors", "reports", "weights")


class Traffic:
    """A log of bytes.

    "up" is what clients send, "down" what they receive. The purposes are "model" (tensors of the model),
    "extra tensors" (what a method sends beside it), "reports" (answers before training, and what rules of
    participation ask for) and "weights" (the aggregation weight of an update).

    Examples
    --------
    >>> from fedrela_sk.report._traffic import Traffic
    >>> log = Traffic()
    >>> log.add("down", "model", 2 * 400)
    >>> log.add("up", "model", 2 * 400)
    >>> log.add("up", "weights", 2 * 8)
    >>> log.nbytes["up"]
    {'model': 800, 'extra tensors': 0, 'reports': 0, 'weights': 16}
    """

    def __init__(self):
        self.nbytes = {direction: dict.fromkeys(PURPOSES, 0) for direction in DIRECTIONS}

    def add(self, direction, purpose, nbytes):
        """Count some bytes.

        Parameters
        ----------
        direction : {"up", "down"}
        purpose : {"model", "extra tensors", "reports", "weights"}
        nbytes : int
        """
        self.nbytes[direction][purpose] += nbytes


def total(traffic, direction):
    """Bytes of all purposes in one direction, of a dictionary like ``Traffic.nbytes``."""
    return sum(traffic.get(direction, {}).values())
