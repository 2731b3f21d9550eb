"""Images of a table: loaded once, cut to a step or a tail, scaled to zero mean and unit spread."""

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from fedrela_sk.datasets import load_cifar10, load_cifar100, load_fashion_mnist, load_imagenet_lt
from fedrela_sk.imbalance import make_long_tailed, make_step_wise


@dataclass(frozen=True)
class Images:
    """Rows to train on and the balanced test rows.

    Attributes
    ----------
    X, X_test : ndarray of shape (n, channels, height, width), float32
        Scaled by the mean and spread of all training pixels of a channel.
    y, y_test : ndarray of int64
    rows : ndarray of int64
        Positions of the training rows in the uncut training set.
    """

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    rows: np.ndarray


def data_folder():
    """The folder of data that is not bundled, from ``FEDRELA_SK_DATA``."""
    folder = os.environ.get("FEDRELA_SK_DATA")
    if folder is None:
        raise FileNotFoundError(
            "CIFAR and ImageNet-LT are read from a folder: set FEDRELA_SK_DATA to the one that has cifar10/, "
            "cifar100/ or imagenet_lt/."
        )
    return Path(folder)


def _digits(split):
    """scikit-learn's 8 x 8 digits, 30 % of each class to test on, as uint8 images like the other sets."""
    X, y = load_digits(return_X_y=True)
    X = np.round(X * 255 / 16).astype(np.uint8).reshape(-1, 1, 8, 8)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.3, stratify=y, random_state=0)
    return (X, y) if split == "train" else (X_test, y_test)


LOADERS = {
    "digits": _digits,
    "fashion_mnist": lambda split: load_fashion_mnist(split, return_X_y=True),
    "cifar10": lambda split: load_cifar10(data_folder() / "cifar10", split, return_X_y=True),
    "cifar100": lambda split: load_cifar100(data_folder() / "cifar100", split, return_X_y=True),
    "imagenet_lt": lambda split: load_imagenet_lt(
        data_folder() / "imagenet_lt", split, n_jobs=-1, return_X_y=True
    ),
}
CUTS = ("step", "tail", "none")


@cache
def raw(name, split):
    """Images as uint8 and labels of a whole set."""
    return LOADERS[name](split)


@cache
def images(name, cut, amount, minority, n_max, n_test):
    """A cut training set and its test set. The cut is the same for every seed, as in the released code.

    Parameters
    ----------
    name : str
        A key of `LOADERS`.
    cut : {"step", "tail", "none"}
    amount : float
        Imbalance ratio of a step, or imbalance factor of a tail.
    minority : tuple of int, or float
        Classes of the minority of a step; a share of the classes means 0, 2, 4, ..., as in the code of CLIMB.
    n_max : int
        Rows of the largest class.
    n_test : int
        Test rows of each class, the first ones.
    """
    X, y = raw(name, "train")
    rows = np.concatenate([_drawn(y, label, n_max) for label in np.unique(y)])
    rows = np.sort(rows)
    if cut == "step":
        minority = _minority(minority, len(np.unique(y)))
        _, y, rows = make_step_wise(
            rows, y[rows], rows, imbalance_ratio=amount, minority=minority, random_state=0
        )
    elif cut == "none":
        y = y[rows]
    else:
        _, y, rows = make_long_tailed(rows, y[rows], rows, imbalance_factor=amount, random_state=0)
    mean, spread = _moments(name)
    X_test, y_test = raw(name, "test")
    kept = np.sort(np.concatenate([np.flatnonzero(y_test == label)[:n_test] for label in np.unique(y_test)]))
    return Images(_scaled(X[rows], mean, spread), y, _scaled(X_test[kept], mean, spread), y_test[kept], rows)


def _drawn(y, label, n_max):
    """`n_max` rows of a class, the same in every run."""
    return np.random.default_rng([0, label]).permutation(np.flatnonzero(y == label))[:n_max]


@cache
def _moments(name):
    pixels = raw(name, "train")[0].astype(np.float32) / 255
    return pixels.mean((0, 2, 3), keepdims=True), pixels.std((0, 2, 3), keepdims=True)


def _scaled(X, mean, spread):
    return ((X.astype(np.float32) / 255 - mean) / spread).astype(np.float32)


def _minority(classes, n_classes):
    """Labels of the minority."""
    return list(range(0, 2 * round(classes * n_classes), 2)) if isinstance(classes, float) else list(classes)


def images_of(cell):
    """The images of a cell."""
    data = cell.settings["data"]
    minority = data.get("minority", ())
    minority = tuple(minority) if isinstance(minority, list) else minority
    return images(data["name"], data["cut"], data.get("amount", 1), minority, data["n_max"], data["n_test"])
