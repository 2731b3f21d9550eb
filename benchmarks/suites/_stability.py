"""Whether a run says something: a start that is moved by a millionth must not move its scores by ten points."""

from functools import cache

import torch

MOVE = 1e-6  # of the start weights
MOST = 0.10  # of a score


@cache
def moved(module, by=MOVE):
    """A child of a module's class whose instances start a little beside where its own would.

    Parameters
    ----------
    module : class
    by : float
        Standard deviation of what is added to every weight.
    """

    class Moved(module):
        def __init__(self, *arguments, **keywords):
            super().__init__(*arguments, **keywords)
            stream = torch.Generator().manual_seed(0)
            with torch.no_grad():
                for parameter in self.parameters():
                    parameter.add_(by * torch.randn(parameter.shape, generator=stream))

    Moved.__qualname__ = Moved.__name__ = f"Moved{module.__name__}"
    globals()[Moved.__name__] = Moved  # where pickle looks for it
    return Moved


def refused(points):
    """Why a row is refused whose scores moved by `points` (a share), None where it is not."""
    if points is None or points <= MOST:
        return None
    return f"refused: {100 * points:.0f} points apart when the start weights move by {MOVE:g}"
