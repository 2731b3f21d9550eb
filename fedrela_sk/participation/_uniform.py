"""Every client is as likely as any other."""

import numpy as np

from fedrela_sk.participation._base import Choice, Participation, alone, n_chosen


class UniformSampling(Participation):
    """A share of the clients, drawn without replacement.

    What ``participation=share`` means. The algorithm's usual weights are renormalized over those that take
    part; the average is then a ratio, whose expectation is not exactly that of all clients where sizes
    differ. `ClusteredSampling` and `OptimalSampling` are unbiased.

    Parameters
    ----------
    share : float in (0, 1], default=1.0
        max(1, round half up(share x number of clients)) take part; all of them without a draw where that
        is everyone.

    Examples
    --------
    >>> import numpy as np
    >>> from fedrela_sk.participation import UniformSampling
    >>> choice = UniformSampling(share=0.5).choose(0, np.random.default_rng(0), sizes=[10, 20, 30, 40])
    >>> len(choice.groups), choice.weights
    (2, None)
    """

    def __init__(self, share: float = 1.0) -> None:
        self.share = share

    def _choose(self, round, stream, sizes, counts):
        return Choice(alone(draw_uniformly(stream, self.share, len(sizes))))


def draw_uniformly(stream, share, n_clients):
    """Positions in ascending order, drawn without replacement."""
    n = n_chosen(share, n_clients)
    if n >= n_clients:
        return np.arange(n_clients)
    return np.sort(stream.choice(n_clients, n, replace=False))
