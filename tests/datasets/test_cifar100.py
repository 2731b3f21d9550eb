"""CIFAR-100 in its two layouts, made small here: the data folder does not have it."""

import pickle

import numpy as np
import pytest

from fedrela_sk.datasets import _cifar100, load_cifar100
from fedrela_sk.exceptions import DatasetError
from tests.datasets.cifar import binary, python2_pickle, python3_pickle


def pictures(split, n=5):
    """Pictures and their classes; the file beside them says that all are of superclass 7."""
    stream = np.random.default_rng(("train", "test").index(split))
    images = stream.integers(256, size=(n, 3, 32, 32), dtype=np.uint8)
    return images, stream.integers(100, size=n), np.full(n, 7)


def as_binary(images, fine, coarse):
    return binary(images, coarse, fine)


def as_python2(images, fine, coarse):
    return python2_pickle(images, coarse_labels=coarse, fine_labels=fine)


def as_python3(images, fine, coarse):
    return python3_pickle(images, 4, coarse_labels=coarse, fine_labels=fine)


WRITERS = {"binary": (".bin", as_binary), "python 2": ("", as_python2), "python 3": ("", as_python3)}


def write(folder, writer):
    suffix, dump = WRITERS[writer]
    folder.mkdir(exist_ok=True)
    for split in ("train", "test"):
        (folder / f"{split}{suffix}").write_bytes(dump(*pictures(split)))


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.filterwarnings("error")
def test_reads_both_layouts(tmp_path, writer):
    write(tmp_path, writer)
    images, fine, _ = pictures("train")
    bunch = load_cifar100(tmp_path)
    assert (bunch.data.dtype, bunch.target.dtype) == (np.uint8, np.int64)
    np.testing.assert_array_equal(bunch.data, images)
    np.testing.assert_array_equal(bunch.target, fine)
    assert bunch.DESCR is _cifar100.__doc__
    X, y = load_cifar100(str(tmp_path), "test", return_X_y=True)
    np.testing.assert_array_equal(X, pictures("test")[0])
    np.testing.assert_array_equal(y, pictures("test")[1])


@pytest.mark.parametrize(
    ("subfolder", "writer"), [("cifar-100-binary", "binary"), ("cifar-100-python", "python 2")]
)
def test_finds_the_folder_inside_an_archive(tmp_path, subfolder, writer):
    write(tmp_path / subfolder, writer)
    (tmp_path / "test").mkdir()  # no file of CIFAR-100
    np.testing.assert_array_equal(load_cifar100(tmp_path, "test").data, pictures("test")[0])


def test_binary_comes_before_python(tmp_path):
    write(tmp_path, "binary")
    (tmp_path / "train").write_bytes(b"not read")
    assert len(load_cifar100(tmp_path).data) == 5


def test_the_classes_are_a_hundred_in_alphabetical_order(tmp_path):
    write(tmp_path, "binary")
    names = load_cifar100(tmp_path).target_names
    assert (len(set(names)), names[0], names[53], names[99]) == (100, "apple", "orange", "worm")
    assert names == sorted(names)


def test_damaged_binary(tmp_path):
    (tmp_path / "test.bin").write_bytes(bytes(3073))
    with pytest.raises(
        DatasetError, match=r"test\.bin holds 3073 bytes, expected a multiple of 3074. Unpack"
    ):
        load_cifar100(tmp_path, "test")


def test_a_label_out_of_range(tmp_path):
    (tmp_path / "test.bin").write_bytes(bytes([0, 100]) + bytes(3072))
    with pytest.raises(DatasetError, match=r"Image 0 of .* has label 100, expected 0 to 99\. Get the files"):
        load_cifar100(tmp_path, "test")


def test_the_pickle_of_cifar10(tmp_path):
    (tmp_path / "test").write_bytes(pickle.dumps({"data": np.zeros((2, 3072), np.uint8), "labels": [1, 2]}))
    with pytest.raises(DatasetError, match=r"test is no batch of CIFAR-100: `fine_labels` must be int64"):
        load_cifar100(tmp_path, "test")


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (5, r"`fine_labels` must be int64 of shape \(n,\), got int64 of shape \(\)"),
        ([[1], [2, 3]], r"`fine_labels` is no array \(.*inhomogeneous"),
    ],
)
def test_labels_that_are_no_list_of_numbers(tmp_path, labels, message):
    (tmp_path / "test").write_bytes(
        pickle.dumps({"data": np.zeros((2, 3072), np.uint8), "fine_labels": labels})
    )
    with pytest.raises(DatasetError, match=rf"test is no batch of CIFAR-100: {message}.* Unpack"):
        load_cifar100(tmp_path, "test")


def test_a_pickle_that_runs_code_is_refused(tmp_path):
    (tmp_path / "test").write_bytes(b"cos\ngetcwd\n(tR.")
    with pytest.raises(DatasetError, match=r"test: The pickle names os\.getcwd, .*might run code.*not run"):
        load_cifar100(tmp_path, "test")


def test_no_layout(tmp_path):
    message = (
        r"No test files of CIFAR-100 in .*: test\.bin; test\. Unpack cifar-100-binary\.tar\.gz or cifar-100-"
    )
    with pytest.raises(DatasetError, match=message):
        load_cifar100(tmp_path, "test")


@pytest.mark.parametrize(("parameter", "value"), [("folder", 3), ("split", "validation"), ("return_X_y", 2)])
def test_bad_parameters(parameter, value):
    arguments = {"folder": ".", parameter: value}
    with pytest.raises(
        ValueError, match=f"'{parameter}' parameter of load_cifar100 must be .* Got {value!r}"
    ):
        load_cifar100(**arguments)
