"""Figures are drawn without a screen, and closed."""

import matplotlib
import pytest


@pytest.fixture(autouse=True)
def no_screen():
    matplotlib.use("Agg")
    yield
    import matplotlib.pyplot as plt

    plt.close("all")
