"""What CIFAR-10 and CIFAR-100 share: their files, records of bytes and pickled dictionaries."""

import pickle
from os import PathLike

import numpy as np

from fedrela_sk._sklearn import StrOptions
from fedrela_sk.exceptions import DatasetError

# of both readers
PARAMETERS = {
    "folder": [str, PathLike],
    "split": [StrOptions({"train", "test"})],
    "return_X_y": ["boolean"],
}
IMAGE = (3, 32, 32)
N_VALUES = 3_072
UNPACK = "Unpack the archive again."

# all that a pickled batch may name: the parts of a NumPy array, and what makes bytes of text
_ALLOWED = {
    ("numpy", "dtype"),
    ("numpy", "ndarray"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy._core.numeric", "_frombuffer"),
    ("_codecs", "encode"),
}


def find_files(folder, split, layouts, name):
    """The reader and the files of the first layout that a folder has.

    Parameters
    ----------
    folder : Path
    split : str
    layouts : list of (str, dict of lists of str, callable)
        Folder inside the original archive, names of the files of each split, reader of one file.
    name : str
        Of the data set, which is that of its archives too.

    Raises
    ------
    DatasetError
        If the folder has none, or only a part of one.
    """
    for subfolder, names, read in layouts:
        for place in (folder, folder / subfolder):
            paths = [place / file for file in names[split]]
            missing = [path.name for path in paths if not path.is_file()]
            if not missing:
                return read, paths
            if len(missing) < len(paths):
                raise DatasetError(
                    f"{place} lacks {', '.join(missing)} of {name}'s {len(paths)} {split} files. {UNPACK}"
                )
    expected = "; ".join(", ".join(names[split]) for _, names, _ in layouts)
    archive = name.lower()
    raise DatasetError(
        f"No {split} files of {name} in {folder}. Expected the files of one layout: {expected}. Unpack "
        f"{archive}-binary.tar.gz or {archive}-python.tar.gz there."
    )


def binary_reader(n_labels):
    """A reader of one file of records: `n_labels` labels, of which the last counts, then red, green and blue.

    It takes a path and returns values (n, 3072) and labels (n,).
    """
    size = n_labels + N_VALUES

    def read_binary(path):
        raw = np.fromfile(path, dtype=np.uint8)
        if len(raw) == 0 or len(raw) % size:
            raise DatasetError(f"{path} holds {len(raw)} bytes, expected a multiple of {size}. {UNPACK}")
        records = raw.reshape(-1, size)
        return records[:, n_labels:], records[:, n_labels - 1]

    return read_binary


def python_reader(label_name, name):
    """A reader of one pickled batch, a dictionary with `data` and the entry `label_name`.

    It takes a path and returns values (n, 3072) and labels (n,). `name` is that of the data set, for errors.
    """

    def read_python(path):
        batch = _unpickle(path)
        values = _entry(batch, "data", np.uint8, (N_VALUES,), path, name)
        return values, _entry(batch, label_name, np.int64, (), path, name)

    return read_python


class _BatchUnpickler(pickle.Unpickler):
    """Builds arrays and plain containers; any other name in the pickle is refused."""

    def find_class(self, module, name):
        today = module.replace("numpy.core.", "numpy._core.")  # NumPy 1 wrote the old name
        if (today, name) in _ALLOWED:
            return super().find_class(today, name)
        raise DatasetError(
            f"The pickle names {module}.{name}, which no batch of CIFAR needs and which might run code. "
            "It was not run; get the files again from a source you trust."
        )


def _unpickle(path):
    with path.open("rb") as file:
        try:
            batch = _BatchUnpickler(file, encoding="bytes").load()
        except DatasetError as error:
            raise DatasetError(f"{path}: {error}") from error
        except Exception as error:  # a damaged pickle may raise anything
            raise DatasetError(f"{path} is no pickle ({error!r}). {UNPACK}") from error
    if not isinstance(batch, dict):
        raise DatasetError(f"{path} holds a {type(batch).__name__}, expected a dictionary. {UNPACK}")
    return batch


def _entry(batch, key, dtype, row_shape, path, name):
    """One entry of a batch, whose key may be text or bytes, as an array of shape (n, *row_shape)."""
    value = batch.get(key.encode(), batch.get(key))
    try:
        array = np.asarray([] if value is None else value)
    except ValueError as error:  # rows of several lengths
        raise DatasetError(
            f"{path} is no batch of {name}: `{key}` is no array ({error}). {UNPACK}"
        ) from error
    if array.ndim == 0 or array.shape[1:] != row_shape or not np.can_cast(array.dtype, dtype):
        expected = f"{np.dtype(dtype)} of shape {('n', *row_shape)}".replace("'", "")
        raise DatasetError(
            f"{path} is no batch of {name}: `{key}` must be {expected}, "
            f"got {array.dtype} of shape {array.shape}. {UNPACK}"
        )
    return array.astype(dtype)
