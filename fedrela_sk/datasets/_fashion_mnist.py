"""Fashion-MNIST: gray pictures of clothes, 28 x 28 pixels (Xiao, Rasul, Vollgraf 2017, arXiv 1708.07747).

60,000 pictures for training and 10,000 for testing in 10 classes, 6,000 and 1,000 of each: balanced. Cut the
training set to a long tail with `fedrela_sk.make_long_tailed`, and to clients with `fedrela_sk.splitters`.

The four files are read from a folder, by default where Debian's package dataset-fashion-mnist puts them
(`apt-get install dataset-fashion-mnist`), or fetched from OpenML (data set 40996: the training pictures
first, then the test pictures). License: MIT, Copyright (c) 2017 Zalando SE.
"""

import gzip
import zlib
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np

from fedrela_sk._sklearn import StrOptions, validate_params
from fedrela_sk._typing import AnyPath
from fedrela_sk.datasets._images import image_bunch
from fedrela_sk.datasets._openml import fetch
from fedrela_sk.exceptions import DatasetError

FASHION_MNIST_ROOT = "/usr/share/datasets/fashion-mnist"  # of Debian's package dataset-fashion-mnist

CLASS_NAMES = [
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
]
DATA_ID = 40996  # on OpenML
_PREFIX = {"train": "train", "test": "t10k"}
_OPENML_ROWS = {"train": slice(0, 60_000), "test": slice(60_000, 70_000)}
_REMEDY = "or install Debian's package dataset-fashion-mnist, or pass as root a folder with the four files."


@validate_params(
    {
        "split": [StrOptions(set(_PREFIX))],
        "root": [str, PathLike],
        "download": ["boolean"],
        "data_home": [str, PathLike, None],
        "return_X_y": ["boolean"],
    },
    prefer_skip_nested_validation=True,
)
def load_fashion_mnist(
    split: Literal["train", "test"] = "train",
    *,
    root: AnyPath = FASHION_MNIST_ROOT,
    download: bool = False,
    data_home: AnyPath | None = None,
    return_X_y: bool = False,
) -> Any:
    """Load Fashion-MNIST: 60,000 training or 10,000 test pictures in 10 classes.

    Parameters
    ----------
    split : {"train", "test"}, default="train"
    root : str or path-like, default=FASHION_MNIST_ROOT
        Folder with the files train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and
        t10k-labels-idx1-ubyte, each with or without ".gz".
    download : bool, default=False
        Whether to fetch from OpenML (needs pandas) if `root` does not have the files.
    data_home : str or path-like, default=None
        Where scikit-learn keeps its copy of what was fetched.
    return_X_y : bool, default=False
        Return `(data, target)` instead of the Bunch.

    Returns
    -------
    bunch : Bunch
        data : ndarray of shape (n, 1, 28, 28), uint8; image, channel, row, column, 0 to 255.
        target : ndarray of shape (n,), int64, 0 to 9.
        target_names : list of str.
        DESCR : str.

    Raises
    ------
    DatasetError
        If files are missing and `download` is False, are damaged, or cannot be fetched.
    ImportError
        If it must be fetched and pandas is missing.
    """
    names = [f"{_PREFIX[split]}-images-idx3-ubyte", f"{_PREFIX[split]}-labels-idx1-ubyte"]
    paths = [_with_or_without_gz(Path(root) / name) for name in names]
    missing = [path.name for path in paths if not path.exists()]
    if missing and not download:
        raise DatasetError(
            f"Fashion-MNIST is not in {root}: missing {', '.join(missing)}. Install Debian's package "
            "dataset-fashion-mnist, pass the folder as root, or pass download=True to fetch it from OpenML."
        )
    images, labels = _from_openml(split, data_home) if missing else map(read_idx, paths)
    source = f"data set {DATA_ID} of OpenML" if missing else str(root)
    return image_bunch(
        images, labels, (1, 28, 28), CLASS_NAMES, description=__doc__, source=source, return_X_y=return_X_y
    )


def _with_or_without_gz(path):
    packed = path.with_name(path.name + ".gz")
    return packed if packed.exists() or not path.exists() else path


def read_idx(path):
    """Array of unsigned bytes in an IDX file: two zeros, type 8, number of axes, big-endian sizes, values."""
    try:
        raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DatasetError(f"{path} is no complete gzip file ({error}). Get it again.") from error
    start = 4 + 4 * raw[3] if len(raw) > 3 else 4
    if raw[:3] != b"\x00\x00\x08" or len(raw) < start:
        raise DatasetError(
            f"{path} is no IDX file of unsigned bytes: its {len(raw)} bytes start with {raw[:4].hex(' ')}, "
            "expected 00 00 08, the number of axes and their sizes. Get it again."
        )
    shape = tuple(np.frombuffer(raw[4:start], dtype=">u4").tolist())
    values = np.frombuffer(raw[start:], dtype=np.uint8)
    if len(values) != np.prod(shape, dtype=np.int64):
        raise DatasetError(f"{path} holds {len(values)} values, expected {shape} of them. Get it again.")
    return values.reshape(shape)


def _from_openml(split, data_home):
    fetched = fetch(
        DATA_ID, "load_fashion_mnist", n_rows=70_000, data_home=data_home, remedy=_REMEDY, as_frame=False
    )
    rows = _OPENML_ROWS[split]
    return fetched.data[rows].astype(np.uint8), fetched.target[rows].astype(np.int64)
