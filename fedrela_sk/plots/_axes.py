"""matplotlib, imported late; the axes to draw on; colors."""

import numpy as np

from fedrela_sk._optional import import_extra

# told apart by readers with any color vision (Okabe and Ito 2008)
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442")
GRAY = "#8C8C8C"


def color_of(position):
    """Color of the class, metric or model at a position; colors repeat."""
    return COLORS[position % len(COLORS)]


def make_axes(caller, ax, n_axes, n_columns, panel):
    """The axes to draw on.

    Parameters
    ----------
    caller : str
    ax : matplotlib Axes, array-like of Axes or None
        None: a new figure.
    n_axes : int
        How many are needed.
    n_columns : int
        Columns of a new figure.
    panel : (float, float)
        Width and height of one panel of a new figure, inches.

    Returns
    -------
    axes : ndarray of shape (n_axes,)

    Raises
    ------
    ValueError
        `ax` has another number of axes.
    """
    plt = import_extra("matplotlib.pyplot", caller)
    if ax is None:
        n_columns = min(n_columns, n_axes)
        n_rows = -(-n_axes // n_columns)
        size = (panel[0] * n_columns, panel[1] * n_rows)
        _, grid = plt.subplots(n_rows, n_columns, figsize=size, layout="constrained", squeeze=False)
        for unused in grid.ravel()[n_axes:]:
            unused.remove()
        return grid.ravel()[:n_axes]
    axes = np.atleast_1d(np.asarray(ax, dtype=object)).ravel()
    if len(axes) != n_axes:
        raise ValueError(
            f"{caller} draws {n_axes} panels, but ax has {len(axes)} axes. Pass {n_axes} of them, or None."
        )
    return axes


def tidy(ax):
    """Take away the frame's upper and right line and put a light grid behind the data."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(visible=True, color="0.9", linewidth=0.8)
    ax.set_axisbelow(True)
