"""Draw the picture of docs/theory.md from two normal classes: ``python docs/make_theory_picture.py``."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import brentq
from scipy.stats import norm

from fedrela_sk import FedReLaRelabeler
from fedrela_sk.plots._axes import GRAY, color_of, tidy

IMAGES = Path(__file__).parent / "images"
MINORITY, DISTANCE, TAU = 0.1, 2.0, 0.1
X = np.arange(-6.0, 8.0, 0.005)
STYLES = {"color": GRAY}, {"color": color_of(1)}, {"color": color_of(0), "ls": "--"}


def rows(x, minority=MINORITY):
    """Prior times density of both classes at x: N(0, 1) and N(2, 1)."""
    return np.column_stack([(1 - minority) * norm.pdf(x), minority * norm.pdf(x, DISTANCE)])


def posteriors(x, minority=MINORITY):
    joint = rows(x, minority)
    return joint / joint.sum(axis=1, keepdims=True)


def fitted():
    """A relabeler that has seen the whole population."""
    weights = 1e6 * (X[1] - X[0]) * rows(X).T.ravel()
    y = np.repeat([0, 1], len(X))
    return FedReLaRelabeler(TAU).fit(np.tile(posteriors(X), (2, 1)), y, sample_weight=weights)


def boundary(excess):
    return brentq(lambda x: excess(np.array([x])).item(), -3, 7)


def draw_posteriors(ax, x, curves, moved, plain):
    """Posteriors of the minority before and after, and the two boundaries."""
    for (name, posterior), style in zip(curves.items(), STYLES, strict=True):
        ax.plot(x, posterior, label=name, **style)
    ax.axhline(0.5, color="k", lw=0.8)
    for place, side in ((moved, "right"), (plain, "left")):
        ax.plot([place, place], [0, 0.5], "k:", lw=1)
        ax.annotate(f" {place:.2f} ", (place, 0.04), ha=side)
    ax.set(title="1  posterior of the minority", xlabel="x", ylabel="P(minority | x)")
    ax.legend(frameon=False, loc="upper left", fontsize=9)


def draw_flips(ax, x, rates, moved):
    """Rows of the majority that change, by place, for the same boundary."""
    majority = rows(x)[:, 0]
    step = x[1] - x[0]
    for (name, rate), color in zip(rates.items(), (color_of(0), color_of(1), color_of(2)), strict=True):
        flips = majority * rate
        ax.fill_between(
            x, flips, color=color, alpha=0.55, lw=0, label=f"{name}: {100 * flips.sum() * step:.1f} %"
        )
    ax.plot(x, majority, color=GRAY, lw=1, label="all rows of the majority")
    ax.axvline(moved, color="k", ls=":", lw=1)
    ax.set(title="2  rows that change their label", xlabel="x", ylabel="rows per unit of x")
    ax.legend(frameon=False, loc="upper right", fontsize=9)


def draw_clients(ax, share=0.9):
    """Two clients: the boundary by what is averaged, as their minority shares drift apart."""
    second = np.linspace(MINORITY, 0.9, 33)
    first = np.maximum((MINORITY - (1 - share) * second) / share, 1e-3)
    weights = np.array([share, 1 - share])
    rules = {
        "one model of all rows": lambda q, m: (weights * m) @ (2 * q - 1),
        "mean of posteriors": lambda q, m: weights @ (2 * q - 1),
        "mean of logits": lambda q, m: weights @ np.log(q / (1 - q)),
    }
    for position, (name, rule) in enumerate(rules.items()):
        places = []
        for shares in zip(first, second, strict=True):

            def excess(x, rule=rule, shares=shares):
                q = np.array([posteriors(x, s)[0, 1] for s in shares])
                return rule(q, np.array([rows(x, s).sum() for s in shares]))

            places.append(boundary(excess))
        ax.plot(second, places, color=color_of(position), label=name)
    ax.axhline(1, color="k", lw=0.8)
    ax.annotate("balanced", (0.9, 1), (0, 3), textcoords="offset points", ha="right")
    ax.set(title="3  two clients, before relabeling", ylabel="boundary", ylim=(0.9, None))
    ax.set_xlabel("minority share at the smaller client (10 % in all)")
    ax.legend(frameon=False, loc="upper left", fontsize=9)


def draw_theory(path):
    """The three panels."""
    relabeler, x = fitted(), X
    q = posteriors(x)
    rho = relabeler.relabel_proba(q, np.zeros(len(x), int))[:, 1]
    plain = boundary(lambda x: posteriors(x)[:, 1] - 0.5)
    moved = boundary(lambda x: relabeler.transform(posteriors(x))[:, 1] - 0.5)
    needed = np.maximum((0.5 - q[:, 1]) / (1 - q[:, 1]), 0)
    uniform = np.full(len(x), np.interp(moved, x, needed))
    figure, axes = plt.subplots(1, 3, figsize=(14, 4), layout="constrained")
    new = relabeler.transform(q)[:, 1]
    curves = {
        "old labels": q[:, 1],
        f"FedReLa, tau = {TAU}": new,
        "uniform flips": q[:, 1] + uniform * (1 - q[:, 1]),
    }
    draw_posteriors(axes[0], x, curves, moved, plain)
    rates = {"uniform": uniform, "FedReLa": rho, "fewest": np.where(x > moved, needed, 0)}
    draw_flips(axes[1], x, rates, moved)
    draw_clients(axes[2])
    for ax in axes[:2]:
        ax.set_xlim(-3, 5)
    for ax in axes:
        tidy(ax)
    figure.savefig(path, dpi=100)
    plt.close(figure)


if __name__ == "__main__":
    IMAGES.mkdir(exist_ok=True)
    draw_theory(IMAGES / "theory.png")
