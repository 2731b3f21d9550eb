"""What the readers of image sets return, and the checks they share."""

import numpy as np
from sklearn.utils import Bunch

from fedrela_sk.exceptions import DatasetError


def image_bunch(images, labels, shape, class_names, *, description, source, return_X_y):
    """Bunch of uint8 images (n, channels, height, width) and int64 labels.

    Parameters
    ----------
    images : ndarray of uint8
        The first axis counts images, the others hold their values in the order of `shape`.
    labels : ndarray of shape (n,)
    shape : tuple of int
        (channels, height, width).
    source : str
        Where they were read, for the errors.

    Raises
    ------
    DatasetError
        If images have another size, there are not as many labels as images, or a label has no class.
    """
    if images[:1].size != np.prod(shape):
        raise DatasetError(
            f"{source} has images of shape {images.shape}, expected {np.prod(shape)} values each. "
            "Get the files again."
        )
    if len(images) != len(labels):
        raise DatasetError(
            f"{source} has {len(images)} images and {len(labels)} labels. "
            "Get the files again, all from one source."
        )
    target = np.asarray(labels, dtype=np.int64)
    wrong = np.flatnonzero((target < 0) | (target >= len(class_names)))
    if len(wrong):
        raise DatasetError(
            f"Image {wrong[0]} of {source} has label {target[wrong[0]]}, "
            f"expected 0 to {len(class_names) - 1}. Get the files again."
        )
    data = np.ascontiguousarray(images).reshape(-1, *shape)
    if return_X_y:
        return data, target
    return Bunch(data=data, target=target, target_names=list(class_names), DESCR=description)
