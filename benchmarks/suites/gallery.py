"""Figure 2: which images were relabelled, from what to what: ``python -m benchmarks.run gallery``.

Long-tailed Fashion-MNIST over 40 clients at alpha 0.3, FedAvg, relabelled after 48 of 60 rounds (the first seed of
``paper --table ablations``). For each of the most frequent changes the images with the largest and, to their right,
the smallest rho. Written to ``benchmarks/results/gallery.png``.
"""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from benchmarks.suites.paper._data import images_of, raw
from benchmarks.suites.paper._run import make_classifier
from benchmarks.suites.paper._settings import cells
from fedrela_sk.datasets import load_fashion_mnist

RESULTS = Path(__file__).parents[1] / "results"
N_PAIRS, N_IMAGES = 6, 6


def relabelled():
    """The report of one federation, its images as uint8 and the names of the classes."""
    cell = next(cell for cell in cells("ablations", "cpu") if cell.values["method"] == "fedavg")
    arm = next(arm for arm in cell.arms if arm["name"] == "tau 5 %")
    data = images_of(cell)
    settings = cell.settings["federation"] | {"n_rounds": 49}  # relabelled before the last one
    cell = type(cell)(**vars(cell) | {"settings": cell.settings | {"federation": settings}})
    fed = make_classifier(cell, arm | {"at": 48}, 0, data).fit(data.X, data.y)
    pixels = raw("fashion_mnist", "train")[0][data.rows, 0]
    return fed.relabel_report(), pixels, load_fashion_mnist("test").target_names


def frequent_pairs(report):
    """(old, new) of the most frequent changes, largest first."""
    found, counts = np.unique(np.stack([report.old, report.new], 1), axis=0, return_counts=True)
    order = np.argsort(-counts, kind="stable")[:N_PAIRS]
    return [(int(old), int(new), int(n)) for (old, new), n in zip(found[order], counts[order], strict=True)]


def chosen(report, old, new):
    """Entries of the report: half with the largest rho, half with the smallest."""
    entries = np.flatnonzero((report.old == old) & (report.new == new))
    entries = entries[np.argsort(-report.rho[entries], kind="stable")]
    half = N_IMAGES // 2
    return np.concatenate([entries[:half], entries[max(half, len(entries) - half) :]])


def draw(path, report, pixels, names):
    """A row a change; under each image its posterior, z and rho."""
    changes = frequent_pairs(report)
    figure, axes = plt.subplots(
        len(changes), N_IMAGES, figsize=(8.6, 1.75 * len(changes)), layout="constrained"
    )
    for row, (old, new, n) in zip(axes, changes, strict=True):
        for ax in row:
            ax.set_axis_off()
        for ax, entry in zip(row, chosen(report, old, new), strict=False):
            ax.imshow(pixels[report.row[entry]], cmap="gray_r")
            numbers = f"p {report.posterior[entry]:.2f}, z {report.z[entry]:.1f}, ρ {report.rho[entry]:.2f}"
            ax.set_title(numbers, fontsize=6.5)
        row[0].text(
            -0.1, 0.5, f"{names[old]}\n→ {names[new]}\n({n} rows)", transform=row[0].transAxes, ha="right",
            va="center", fontsize=8,
        )  # fmt: skip
    figure.savefig(path, dpi=100)
    plt.close(figure)


def main(arguments=None):
    argparse.ArgumentParser(prog="python -m benchmarks.run gallery", description=__doc__).parse_args(
        arguments
    )
    report, pixels, names = relabelled()
    draw(RESULTS / "gallery.png", report, pixels, names)
    print(f"{len(report)} rows relabelled; the picture is {RESULTS.name}/gallery.png")
