"""CIFAR-10: colour pictures of 32 x 32 pixels in 10 classes (Krizhevsky 2009).

50,000 pictures for training and 10,000 for testing, 5,000 and 1,000 of each class: balanced. Cut the training
set to a long tail with `fedrela_sk.make_long_tailed`, and to clients with `fedrela_sk.splitters`.

The pictures are read from a folder in any of three layouts:

- "binary": data_batch_1.bin to data_batch_5.bin and test_batch.bin, records of 1 + 3,072 bytes;
- "python": data_batch_1 to data_batch_5 and test_batch, pickles. A pickle can run code when it is opened, so
  these are opened by a reader that builds arrays, lists, dictionaries and text and refuses all else;
- "npz": cifar10_train.npz and cifar10_test.npz, JPEG files that share one header (arrays `header`, `body`,
  `offsets` and `labels`; Pillow unpacks them). JPEG is slightly lossy.

The originals come from the home page of CIFAR-10 as cifar-10-binary.tar.gz and cifar-10-python.tar.gz. No
licence is stated; cite A. Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", 2009.
"""

import io
import pickle
from itertools import pairwise
from os import PathLike
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from fedrela_sk._optional import import_extra
from fedrela_sk._sklearn import StrOptions, validate_params
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
IMAGE = (3, 32, 32)
N_VALUES = 3_072
_UNPACK = "Unpack the archive again."

# all that a pickled batch may name: the parts of a NumPy array, and what makes bytes of text
_ALLOWED = {
    ("numpy", "dtype"),
    ("numpy", "ndarray"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy._core.numeric", "_frombuffer"),
    ("_codecs", "encode"),
}


@validate_params(
    {
        "folder": [str, PathLike],
        "split": [StrOptions({"train", "test"})],
        "return_X_y": ["boolean"],
    },
    prefer_skip_nested_validation=True,
)
def load_cifar10(folder, split="train", *, return_X_y=False):
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
    read, paths = find_batches(Path(folder), split)
    batches = [read(path) for path in paths]
    images, labels = (np.concatenate(parts) for parts in zip(*batches, strict=True))
    return image_bunch(images, labels, IMAGE, CLASS_NAMES, __doc__, str(folder), return_X_y)


def find_batches(folder, split):
    """The reader and the files of the first layout that the folder has."""
    for subfolder, names, read in _LAYOUTS:
        for place in (folder, folder / subfolder):
            paths = [place / name for name in names[split]]
            missing = [path.name for path in paths if not path.exists()]
            if not missing:
                return read, paths
            if len(missing) < len(paths):
                raise DatasetError(
                    f"{place} lacks {', '.join(missing)} of CIFAR-10's {len(paths)} {split} files. {_UNPACK}"
                )
    expected = "; ".join(", ".join(names[split]) for _, names, _ in _LAYOUTS)
    raise DatasetError(
        f"No {split} files of CIFAR-10 in {folder}. Expected the files of one layout: {expected}. Unpack "
        "cifar-10-binary.tar.gz or cifar-10-python.tar.gz there."
    )


def read_binary(path):
    """Values (n, 3072) and labels (n,) of one file of records: a label, then red, green and blue."""
    raw = np.fromfile(path, dtype=np.uint8)
    if len(raw) == 0 or len(raw) % (1 + N_VALUES):
        raise DatasetError(f"{path} holds {len(raw)} bytes, expected a multiple of {1 + N_VALUES}. {_UNPACK}")
    records = raw.reshape(-1, 1 + N_VALUES)
    return records[:, 1:], records[:, 0]


class _BatchUnpickler(pickle.Unpickler):
    """Builds arrays and plain containers; any other name in the pickle is refused."""

    def find_class(self, module, name):
        today = module.replace("numpy.core.", "numpy._core.")  # NumPy 1 wrote the old name
        if (today, name) in _ALLOWED:
            return super().find_class(today, name)
        raise DatasetError(
            f"The pickle names {module}.{name}, which no batch of CIFAR-10 needs and which might run code. "
            "It was not run; get the files again from a source you trust."
        )


def read_python(path):
    """Values (n, 3072) and labels (n,) of one pickled batch, a dictionary with `data` and `labels`."""
    with path.open("rb") as file:
        try:
            batch = _BatchUnpickler(file, encoding="bytes").load()
        except DatasetError as error:
            raise DatasetError(f"{path}: {error}") from error
        except Exception as error:  # a damaged pickle may raise anything
            raise DatasetError(f"{path} is no pickle ({error!r}). {_UNPACK}") from error
    if not isinstance(batch, dict):
        raise DatasetError(f"{path} holds a {type(batch).__name__}, expected a dictionary. {_UNPACK}")
    return _values(batch, "data", np.uint8, (N_VALUES,), path), _values(batch, "labels", np.int64, (), path)


def _values(batch, name, dtype, row_shape, path):
    """One entry of a batch, whose name may be text or bytes, as an array of shape (n, *row_shape)."""
    value = batch.get(name.encode(), batch.get(name))
    array = np.asarray([] if value is None else value)
    if array.shape[1:] != row_shape or not np.can_cast(array.dtype, dtype):
        expected = f"{np.dtype(dtype)} of shape (n, {', '.join(map(str, row_shape))})"
        raise DatasetError(
            f"{path} is no batch of CIFAR-10: `{name}` must be {expected}, "
            f"got {array.dtype} of shape {array.shape}. {_UNPACK}"
        )
    return array.astype(dtype)


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
    ("cifar-10-batches-bin", _batch_names(".bin"), read_binary),
    ("cifar-10-batches-py", _batch_names(""), read_python),
    (".", {"train": ["cifar10_train.npz"], "test": ["cifar10_test.npz"]}, read_npz),
]
