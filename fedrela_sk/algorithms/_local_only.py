"""No federation: every client keeps its own net. The lower bound of every comparison."""

from collections.abc import Iterable

from fedrela_sk.algorithms._base import Algorithm


class LocalOnly(Algorithm):
    """Clients start from the same weights, train alone and never exchange anything.

    There is no global model: `FederatedClassifier.net_` is None, and predictions are the mean of the
    clients' posteriors weighted by their rows, or, with ``groups``, those of the row's own client.
    """

    summary = "no federation: the lower bound"
    keeps = "c: M"
    averages = False
    traffic = "0 / 0"
    neutral = None
    neutral_reason = "it never averages"

    def shared(self, names: Iterable[str]) -> tuple[str, ...]:
        return ()
