"""CIFAR-10: color pictures of 32 x 32 pixels in 10 classes (Krizhevsky 2009).

50,000 pictures for training and 10,000 for testing, 5,000 and 1,000 of each class: balanced. Cut the training
set to a long tail with `fedrela_sk.make_long_tailed`, and to clients with `fedrela_sk.splitters`.

The pictures are read from a folder in any of three layouts:

- "binary": data_batch_1.bin to data_batch_5.bin and test_batch.bin, records of 1 + 3,072 bytes;
- "python": data_batch_1 to data_batch_5 and test_batch, pickles. A pickle can run code when it is opened, so
  these are opened by a reader that builds arrays, lists, dictionaries and text and refuses all else;
- "npz": cifar10_train.npz and cifar10_test.npz, JPEG files that share one header (arrays `header`, `body`,
  `offsets` and `labels`; Pillow unpacks them). JPEG is slightly lossy.

The originals come from the home page of CIFAR-10 as cifar-10-binary.tar.gz and cifar-10-python.tar.gz. No
license is stated; cite A. Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", 2009.
"""

import io
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal
from zipfile import BadZipFile

import numpy as np

from fedrela_sk._optional import import_extra
from fedrela_sk._sklearn import validate_params
from fedrela_sk._typing import AnyPath
from fedrela_sk.datasets._cifar import IMAGE, PARAMETERS, binary_reader, find_files, python_reader
from fedrela_sk.datasets._images import image_bunch
from fedrela_sk.exceptions import DatasetError

CLASS_NAMES = [
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
]


@validate_params(PARAMETERS, prefer_skip_nested_validation=True)
def load_cifar10(
    folder: AnyPath, split: Literal["train", "test"] = "train", *, return_X_y: bool = False
) -> Any:
    """Load CIFAR-10 from a folder: 50,000 training or 10,000 test pictures in 10 classes.

    Parameters
    ----------
    folder : str or path-like
        Folder with the files of one layout (module docstring), or with the folder cifar-10-batches-bin or
        cifar-10-batches-py that the original archives unpack to. Of several layouts the first in the order
        binary, python, npz is read.
    split : {"train", "test"}, default="train"
    return_X_y : bool, default=False
        Return `(data, target)` instead of the Bunch.

    Returns
    -------
    bunch : Bunch
        data : ndarray of shape (n, 3, 32, 32), uint8; image, channel (red, green, blue), row, column;
            0 to 255.
        target : ndarray of shape (n,), int64, 0 to 9.
        target_names : list of str.
        DESCR : str.

    Raises
    ------
    DatasetError
        If the folder has no layout, or only a part of one, or a file is damaged.
    ImportError
        If the layout is "npz" and Pillow is missing.
    """
    read, paths = find_files(Path(folder), split, _LAYOUTS, "CIFAR-10")
    batches = [read(path) for path in paths]
    images, labels = (np.concatenate(parts) for parts in zip(*batches, strict=True))
    return image_bunch(
        images, labels, IMAGE, CLASS_NAMES, description=__doc__, source=str(folder), return_X_y=return_X_y
    )


def read_npz(path):
    """Images (n, 3, 32, 32) and labels (n,) of JPEG files that share their first bytes."""
    open_image = import_extra("PIL.Image", "Reading cifar10_*.npz", "Pillow").open
    try:
        with np.load(path) as arrays:
            header, body = arrays["header"].tobytes(), arrays["body"].tobytes()
            offsets, labels = arrays["offsets"].tolist(), arrays["labels"]
    except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
        raise DatasetError(
            f"{path} is damaged or lacks an array ({error}); expected header, body, offsets and labels. "
            "Use the original binary or python files instead."
        ) from error
    images = np.empty((len(offsets) - 1, 32, 32, 3), dtype=np.uint8)
    for i, (start, stop) in enumerate(pairwise(offsets)):
        try:
            images[i] = open_image(io.BytesIO(header + body[start:stop]))
        except (OSError, ValueError) as error:
            raise DatasetError(f"Image {i} of {path} is damaged ({error}). Get the file again.") from error
    return images.transpose(0, 3, 1, 2), labels


def _batch_names(suffix):
    return {
        "train": [f"data_batch_{k}{suffix}" for k in range(1, 6)],
        "test": [f"test_batch{suffix}"],
    }


# folder inside the original archive, files of each split, reader of one file
_LAYOUTS = [
    ("cifar-10-batches-bin", _batch_names(".bin"), binary_reader(n_labels=1)),
    ("cifar-10-batches-py", _batch_names(""), python_reader("labels", "CIFAR-10")),
    (".", {"train": ["cifar10_train.npz"], "test": ["cifar10_test.npz"]}, read_npz),
]
