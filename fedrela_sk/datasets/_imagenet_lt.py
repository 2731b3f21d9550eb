"""ImageNet-LT: color pictures in 1,000 classes, cut to a long tail (Liu et al. 2019, arXiv 1904.05160).

115,846 training pictures, 1,280 of the most common class and 5 of the rarest; 20 of each class for validation
and 50 for testing. The set is three lists of files of ImageNet (ILSVRC 2012), ImageNet_LT_train.txt,
ImageNet_LT_val.txt and ImageNet_LT_test.txt, which its authors publish. Each line is the path of a picture
below ImageNet's folder and the number of its class: ``train/n01440764/n01440764_190.JPEG 0``.

ImageNet itself is given out for research after registration at image-net.org. Other long-tailed sets with
up to 1,000 classes and lists of this format, Places-LT say, are read as well. There are no natural clients:
cut it with `fedrela_sk.splitters`.
"""

from numbers import Integral
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np
from joblib import Parallel, delayed

from fedrela_sk._optional import import_extra
from fedrela_sk._sklearn import Interval, StrOptions, validate_params
from fedrela_sk._typing import AnyPath
from fedrela_sk.datasets._images import image_bunch
from fedrela_sk.exceptions import DatasetError

N_CLASSES = 1_000


@validate_params(
    {
        "root": [str, PathLike],
        "split": [StrOptions({"train", "val", "test"})],
        "list_file": [str, PathLike, None],
        "size": [Interval(Integral, 1, None, closed="left")],
        "n_jobs": [Integral, None],
        "return_X_y": ["boolean"],
    },
    prefer_skip_nested_validation=True,
)
def load_imagenet_lt(
    root: AnyPath,
    split: Literal["train", "val", "test"] = "train",
    *,
    list_file: AnyPath | None = None,
    size: int = 64,
    n_jobs: int | None = None,
    return_X_y: bool = False,
) -> Any:
    """Load ImageNet-LT from ImageNet's folder and a list of files.

    All pictures of the list are read into one array of ``3 size^2`` bytes each: for the training list 1.4 GB at
    size 64 and 17 GB at 224. The largest square in the middle of a picture is taken and resized, bilinearly.
    Needs Pillow.

    Parameters
    ----------
    root : str or path-like
        The folder that the paths of the list begin in.
    split : {"train", "val", "test"}, default="train"
    list_file : str or path-like, default=None
        The list; None: ImageNet_LT_train.txt (or _val, _test, as `split` says) in `root`.
    size : int >= 1, default=64
        Height and width of the pictures.
    n_jobs : int, default=None
        Threads that read pictures; -1 for one per core.
    return_X_y : bool, default=False
        Return `(data, target)` instead of the Bunch.

    Returns
    -------
    bunch : Bunch
        data : ndarray of shape (n, 3, size, size), uint8; image in the order of the list, channel (red, green,
            blue), row, column; 0 to 255.
        target : ndarray of shape (n,), int64, 0 to 999.
        target_names : list of str, the same numbers.
        DESCR : str.

    Raises
    ------
    DatasetError
        If the list is missing or has a line that is no path and class, or a picture is missing or damaged.
    ImportError
        If Pillow is missing.
    """
    list_file = Path(root) / f"ImageNet_LT_{split}.txt" if list_file is None else Path(list_file)
    import_extra("PIL.Image", "load_imagenet_lt", "Pillow")
    paths, labels = read_list(list_file)
    images = np.empty((len(paths), 3, size, size), dtype=np.uint8)
    Parallel(n_jobs, require="sharedmem")(
        delayed(read_picture)(Path(root) / path, image) for path, image in zip(paths, images, strict=True)
    )
    names = [str(k) for k in range(N_CLASSES)]
    return image_bunch(
        images,
        labels,
        (3, size, size),
        names,
        description=__doc__,
        source=str(list_file),
        return_X_y=return_X_y,
    )


def read_list(path):
    """Paths, a list of str, and classes, a list of int, of a list's lines; empty lines are left out."""
    if not path.is_file():
        raise DatasetError(
            f"There is no list {path}. Put the lists of ImageNet-LT into root, or pass one as list_file."
        )
    paths, labels = [], []
    text = path.read_text(encoding="utf-8-sig", errors="surrogateescape")  # names of files may be any bytes
    for number, line in enumerate(text.splitlines(), start=1):
        name, _, label = line.strip().rpartition(" ")
        if not line.strip():
            continue
        if not (name and label.isdecimal() and int(label) < N_CLASSES):
            raise DatasetError(
                f"Line {number} of {path} is {line!r}, expected the path of a picture, a space and a class from 0 "
                f"to {N_CLASSES - 1}. Get the list again."
            )
        paths.append(name.strip())
        labels.append(int(label))
    if not paths:
        raise DatasetError(f"{path} lists no picture. Get the list again.")
    return paths, labels


def read_picture(path, out):
    """Write the middle square of a picture, resized, into `out`, an array of shape (3, size, size)."""
    from PIL import Image, ImageOps

    try:
        with Image.open(path) as picture:
            square = ImageOps.fit(picture.convert("RGB"), out.shape[1:], Image.Resampling.BILINEAR)
    except FileNotFoundError as error:
        raise DatasetError(
            f"There is no picture {path}. Pass as root the folder that the paths of the list begin in."
        ) from error
    except (OSError, ValueError, SyntaxError) as error:  # the last one for a broken PNG
        raise DatasetError(f"The picture {path} is damaged ({error}). Get it again.") from error
    out[:] = np.asarray(square).transpose(2, 0, 1)
