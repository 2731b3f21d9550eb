import sys

import matplotlib.pyplot as plt
import pytest

from fedrela_sk.plots._axes import color_of, make_axes


def test_matplotlib_is_named_where_it_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"MyDisplay needs matplotlib.*pip install 'fedrela_sk\[plots\]'"):
        make_axes("MyDisplay", None, 1, 1, (4.0, 3.0))


def test_new_figure_has_as_many_axes_as_needed():
    axes = make_axes("MyDisplay", None, 3, 2, (4.0, 3.0))
    assert len(axes) == 3
    assert len(axes[0].figure.axes) == 3
    assert axes[0].figure.get_size_inches().tolist() == [8.0, 6.0]


def test_given_axes_are_used():
    _, grid = plt.subplots(1, 2)
    assert make_axes("MyDisplay", grid, 2, 2, (4.0, 3.0)).tolist() == grid.tolist()
    assert make_axes("MyDisplay", grid[0], 1, 1, (4.0, 3.0)).tolist() == [grid[0]]


def test_wrong_number_of_axes():
    _, grid = plt.subplots(1, 2)
    with pytest.raises(ValueError, match=r"MyDisplay draws 3 panels, but ax has 2 axes\. Pass 3"):
        make_axes("MyDisplay", grid, 3, 2, (4.0, 3.0))


def test_colors_repeat():
    assert color_of(0) == color_of(7) != color_of(1)
