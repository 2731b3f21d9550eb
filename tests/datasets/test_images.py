"""The checks that all readers of images share."""

import numpy as np
import pytest

from fedrela_sk.datasets._images import image_bunch
from fedrela_sk.exceptions import DatasetError


def bunch_of(images, labels, return_X_y=False):
    return image_bunch(
        images, labels, (1, 2, 2), ["a", "b"], description="words", source="the folder", return_X_y=return_X_y
    )


def test_shape_and_types():
    values = np.arange(12, dtype=np.uint8).reshape(3, 4)
    bunch = bunch_of(values[:, ::-1], [0, 1, 1])
    assert bunch.data.flags.c_contiguous
    np.testing.assert_array_equal(bunch.data, values[:, ::-1].reshape(3, 1, 2, 2))
    assert (bunch.target.dtype, bunch.target_names, bunch.DESCR) == (np.int64, ["a", "b"], "words")
    X, y = bunch_of(values, [0, 1, 1], return_X_y=True)
    assert X.shape == (3, 1, 2, 2)
    assert y.tolist() == [0, 1, 1]


@pytest.mark.parametrize(
    ("shape", "labels", "message"),
    [
        ((2, 3), [0, 1], r"the folder has images of shape \(2, 3\), expected 4 values each\. Get"),
        ((0, 4), [], r"the folder has images of shape \(0, 4\), expected 4 values each\. Get"),
        ((2, 4), [0], r"the folder has 2 images and 1 labels\. Get"),
        ((2, 4), [0, 2], r"Image 1 of the folder has label 2, expected 0 to 1\. Get"),
        ((2, 4), [-1, 2], r"Image 0 of the folder has label -1, expected 0 to 1\. Get"),
    ],
)
def test_damaged_sets(shape, labels, message):
    with pytest.raises(DatasetError, match=message):
        bunch_of(np.zeros(shape, dtype=np.uint8), labels)
