"""Fashion-MNIST from small IDX files made here, from a stand-in for OpenML, and from Debian's folder if present."""

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
import sklearn.datasets
from sklearn.utils import Bunch

from fedrela_sk.datasets import FASHION_MNIST_ROOT, _fashion_mnist, load_fashion_mnist
from fedrela_sk.exceptions import DatasetError


def idx_bytes(array):
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def write(folder, prefix, images, labels, suffix=".gz"):
    pack = gzip.compress if suffix else bytes
    (folder / f"{prefix}-images-idx3-ubyte{suffix}").write_bytes(pack(idx_bytes(images)))
    (folder / f"{prefix}-labels-idx1-ubyte{suffix}").write_bytes(pack(idx_bytes(labels)))


def pictures(n, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(256, size=(n, 28, 28), dtype=np.uint8), np.arange(n, dtype=np.uint8) % 10


@pytest.mark.parametrize("suffix", [".gz", ""])
@pytest.mark.parametrize(("split", "prefix"), [("train", "train"), ("test", "t10k")])
def test_reads_the_files_of_the_split(tmp_path, split, prefix, suffix):
    for seed, name in enumerate(["train", "t10k"]):
        write(tmp_path, name, *pictures(12 + seed, seed), suffix)
    images, labels = pictures(12 + (split == "test"), int(split == "test"))
    bunch = load_fashion_mnist(split, root=tmp_path)
    assert bunch.data.dtype == np.uint8
    assert bunch.data.shape == (len(images), 1, 28, 28)
    np.testing.assert_array_equal(bunch.data[:, 0], images)
    assert bunch.target.dtype == np.int64
    np.testing.assert_array_equal(bunch.target, labels)
    assert (len(bunch.target_names), bunch.target_names[1]) == (10, "Trouser")
    assert bunch.DESCR is _fashion_mnist.__doc__
    X, y = load_fashion_mnist(split, root=str(tmp_path), return_X_y=True)
    np.testing.assert_array_equal(X, bunch.data)
    np.testing.assert_array_equal(y, bunch.target)


def test_missing_files_and_the_three_ways_out(tmp_path):
    write(tmp_path, "train", *pictures(3))
    (tmp_path / "train-labels-idx1-ubyte.gz").unlink()
    message = (
        r"not in .*: missing train-labels-idx1-ubyte\.gz\. Install Debian's .*root, or pass download=True"
    )
    with pytest.raises(DatasetError, match=message):
        load_fashion_mnist(root=tmp_path)


def test_downloads_when_asked_and_cuts_the_split(tmp_path, monkeypatch):
    calls, labels = [], np.arange(70_000) % 10
    values = np.zeros((70_000, 784), dtype=np.uint8)
    values[:, 0], values[:, 28] = np.arange(70_000) % 256, 7

    def fake(**arguments):
        calls.append(arguments)
        return Bunch(data=values, target=labels.astype(str).astype(object))

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fake)
    train = load_fashion_mnist("train", root=tmp_path, download=True, data_home="here")
    assert calls == [{"data_id": 40996, "data_home": "here", "as_frame": False}]
    test = load_fashion_mnist("test", root=tmp_path, download=True)
    for bunch, rows in ((train, slice(0, 60_000)), (test, slice(60_000, None))):
        assert bunch.data.dtype == np.uint8
        assert bunch.data.shape == (len(labels[rows]), 1, 28, 28)
        np.testing.assert_array_equal(bunch.data[:, 0, 0, 0], values[rows, 0])
        assert (bunch.data[:, 0, 1, 0] == 7).all()
        np.testing.assert_array_equal(bunch.target, labels[rows])


def test_does_not_download_what_is_there(tmp_path, monkeypatch):
    write(tmp_path, "train", *pictures(3))
    monkeypatch.delattr(sklearn.datasets, "fetch_openml")
    assert len(load_fashion_mnist(root=tmp_path, download=True).data) == 3


def test_no_network(tmp_path, monkeypatch):
    def offline(**arguments):
        raise OSError("no route")

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", offline)
    with pytest.raises(DatasetError, match=r"data set 40996 .*no route.*or install Debian's package"):
        load_fashion_mnist(root=tmp_path, download=True)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"no gzip at all", "is no complete gzip file .*Get it again"),
        (gzip.compress(bytes(100))[:-12], "is no complete gzip file .*Get it again"),
        (gzip.compress(b""), "no IDX file of unsigned bytes: its 0 bytes start with , expected 00 00 08"),
        (
            gzip.compress(bytes([0, 0, 13, 1]) + bytes(8)),
            "its 12 bytes start with 00 00 0d 01, expected 00 00 08",
        ),
        (gzip.compress(idx_bytes(pictures(2)[0])[:-1]), r"holds 1567 values, expected \(2, 28, 28\)"),
        (
            gzip.compress(bytes([0, 0, 8, 3, 0])),
            "its 5 bytes start with 00 00 08 03, expected .* and their sizes",
        ),
    ],
    ids=["not gzip", "cut gzip", "empty", "floats", "one byte short", "no sizes"],
)
def test_damaged_files(tmp_path, content, message):
    path = tmp_path / "train-images-idx3-ubyte.gz"
    path.write_bytes(content)
    with pytest.raises(DatasetError, match=message):
        _fashion_mnist.read_idx(path)


@pytest.mark.parametrize(("parameter", "value"), [("split", "t10k"), ("root", None), ("download", "yes")])
def test_bad_parameters(parameter, value):
    with pytest.raises(
        ValueError, match=f"'{parameter}' parameter of load_fashion_mnist must be .* Got {value!r}"
    ):
        load_fashion_mnist(**{parameter: value})


@pytest.mark.skipif(
    not Path(FASHION_MNIST_ROOT).exists(), reason="Debian's package dataset-fashion-mnist is not installed"
)
def test_debians_files():
    for split, n in (("train", 60_000), ("test", 10_000)):
        bunch = load_fashion_mnist(split)
        assert bunch.data.shape == (n, 1, 28, 28)
        np.testing.assert_array_equal(np.bincount(bunch.target), n // 10)
    pixels = load_fashion_mnist().data / np.float32(255)
    assert (pixels.mean(), pixels.std()) == pytest.approx((0.2860, 0.3530), abs=1e-3)
