"""CIFAR-10 in its three layouts, made small here, and the pair of files in the data folder."""

import io
import pickle
import sys

import numpy as np
import pytest

from fedrela_sk.datasets import _cifar10, load_cifar10
from fedrela_sk.exceptions import DatasetError
from tests.datasets.cifar import binary, python2_pickle, python3_pickle

TRAIN = [f"data_batch_{k}" for k in range(1, 6)]


def batch_of(seed, n=4):
    rng = np.random.default_rng(seed)
    return rng.integers(256, size=(n, 3, 32, 32), dtype=np.uint8), rng.integers(10, size=n)


WRITERS = {
    "binary": (".bin", binary),
    "python 2": ("", lambda images, labels: python2_pickle(images, labels=labels)),
    **{
        f"python 3, protocol {p}": ("", lambda images, labels, p=p: python3_pickle(images, p, labels=labels))
        for p in range(2, 6)
    },
}


def write(folder, writer):
    suffix, dump = WRITERS[writer]
    folder.mkdir(exist_ok=True)
    for seed, name in enumerate([*TRAIN, "test_batch"]):
        (folder / f"{name}{suffix}").write_bytes(dump(*batch_of(seed)))


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.filterwarnings("error")
def test_reads_binary_and_python_batches(tmp_path, writer):
    write(tmp_path, writer)
    bunch = load_cifar10(tmp_path)
    batches = [batch_of(seed) for seed in range(5)]
    assert bunch.data.dtype == np.uint8
    np.testing.assert_array_equal(bunch.data, np.concatenate([images for images, _ in batches]))
    assert bunch.target.dtype == np.int64
    np.testing.assert_array_equal(bunch.target, np.concatenate([labels for _, labels in batches]))
    assert (len(bunch.target_names), bunch.target_names[6]) == (10, "frog")
    assert bunch.DESCR is _cifar10.__doc__
    X, y = load_cifar10(str(tmp_path), "test", return_X_y=True)
    np.testing.assert_array_equal(X, batch_of(5)[0])
    np.testing.assert_array_equal(y, batch_of(5)[1])


@pytest.mark.parametrize(
    ("subfolder", "writer"), [("cifar-10-batches-bin", "binary"), ("cifar-10-batches-py", "python 2")]
)
def test_finds_the_folder_inside_an_archive(tmp_path, subfolder, writer):
    write(tmp_path / subfolder, writer)
    np.testing.assert_array_equal(load_cifar10(tmp_path, "test").data, batch_of(5)[0])


def test_binary_comes_before_python(tmp_path):
    write(tmp_path, "binary")
    for name in TRAIN:
        (tmp_path / name).write_bytes(b"not read")
    assert len(load_cifar10(tmp_path).data) == 20


class Shell:
    def __reduce__(self):
        return (exec, (f"import pathlib; pathlib.Path(r'{self.path}').touch()",))


def test_a_pickle_that_runs_code_is_refused(tmp_path):
    evil = Shell()
    evil.path = tmp_path / "executed"
    (tmp_path / "test_batch").write_bytes(pickle.dumps({"data": evil}, protocol=2))
    with pytest.raises(
        DatasetError, match=r"test_batch: The pickle names \w+\.exec, .*might run code.*not run"
    ):
        load_cifar10(tmp_path, "test")
    assert not evil.path.exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is no pickle .*EOFError.*Unpack"),
        (b"\x80\x02}(U", "is no pickle .*Unpack"),
        (pickle.dumps([1, 2]), "holds a list, expected a dictionary. Unpack"),
        (
            pickle.dumps({"labels": [1]}),
            r"`data` must be uint8 of shape \(n, 3072\), got float64 of shape \(0,\)",
        ),
        (
            pickle.dumps({"data": np.zeros((2, 3072)), "labels": [1, 2]}),
            r"`data` must be uint8 of shape \(n, 3072\), got float64 of shape \(2, 3072\). Unpack",
        ),
        (
            pickle.dumps({"data": np.zeros((2, 5), np.uint8), "labels": [1, 2]}),
            r"`data` must be uint8 of shape \(n, 3072\), got uint8 of shape \(2, 5\). Unpack",
        ),
        (
            pickle.dumps({"data": np.zeros((2, 3072), np.uint8), "fine_labels": [1, 2]}),
            r"`labels` must be int64 of shape \(n,\), got float64 of shape \(0,\). Unpack",
        ),
    ],
    ids=["empty", "cut", "list", "no data", "floats", "small images", "CIFAR-100"],
)
def test_damaged_pickles(tmp_path, content, message):
    (tmp_path / "test_batch").write_bytes(content)
    with pytest.raises(DatasetError, match=f"test_batch .*{message}"):
        load_cifar10(tmp_path, "test")


@pytest.mark.parametrize("size", [0, 3072, 3074])
def test_damaged_binary(tmp_path, size):
    (tmp_path / "test_batch.bin").write_bytes(bytes(size))
    with pytest.raises(
        DatasetError, match=rf"test_batch\.bin holds {size} bytes, expected a multiple of 3073"
    ):
        load_cifar10(tmp_path, "test")


def test_a_label_out_of_range(tmp_path):
    (tmp_path / "test_batch.bin").write_bytes(bytes([10]) + bytes(3072))
    with pytest.raises(
        DatasetError, match=r"Image 0 of .* has label 10, expected 0 to 9\. Get the files again"
    ):
        load_cifar10(tmp_path, "test")


def test_a_part_of_a_layout(tmp_path):
    write(tmp_path, "binary")
    (tmp_path / "data_batch_3.bin").unlink()
    with pytest.raises(DatasetError, match=r"lacks data_batch_3\.bin of CIFAR-10's 5 train files\. Unpack"):
        load_cifar10(tmp_path)


def test_no_layout(tmp_path):
    message = (
        r"No test files of CIFAR-10 in .*: test_batch\.bin; test_batch; cifar10_test\.npz\. Unpack cifar-10-b"
    )
    with pytest.raises(DatasetError, match=message):
        load_cifar10(tmp_path, "test")


def write_npz(path, **changes):
    """Three pictures of one color each as JPEG files, whose common first bytes are stored once."""
    image = pytest.importorskip("PIL.Image")
    files = []
    for color in COLORS:
        file = io.BytesIO()
        image.new("RGB", (32, 32), color).save(file, "JPEG", quality=75)
        files.append(file.getvalue())
    n_common = next(i for i in range(len(files[0])) if len({f[i] for f in files}) > 1)
    arrays = {
        "header": np.frombuffer(files[0][:n_common], np.uint8),
        "body": np.frombuffer(b"".join(f[n_common:] for f in files), np.uint8),
        "offsets": np.cumsum([0, *(len(f) - n_common for f in files)], dtype=np.uint32),
        "labels": np.array([3, 1, 4], dtype=np.uint8),
    }
    np.savez(path, **{name: value for name, value in {**arrays, **changes}.items() if value is not None})


COLORS = [(200, 30, 60), (10, 220, 90), (0, 0, 255)]


def test_reads_npz(tmp_path):
    write_npz(tmp_path / "cifar10_test.npz")
    X, y = load_cifar10(tmp_path, "test", return_X_y=True)
    assert (X.shape, X.dtype, X.flags.c_contiguous) == ((3, 3, 32, 32), np.uint8, True)
    assert y.tolist() == [3, 1, 4]
    # JPEG rounds colors: a few of 255 levels
    np.testing.assert_allclose(X, np.array(COLORS)[:, :, None, None] * np.ones((1, 1, 32, 32)), atol=4)


def test_npz_without_an_array(tmp_path):
    write_npz(tmp_path / "cifar10_test.npz", offsets=None)
    with pytest.raises(
        DatasetError, match=r"cifar10_test\.npz is damaged or lacks an array .*offsets.*Use the orig"
    ):
        load_cifar10(tmp_path, "test")


def test_damaged_npz(tmp_path):
    (tmp_path / "cifar10_test.npz").write_bytes(b"PK\x03\x04 nothing")
    with pytest.raises(DatasetError, match=r"cifar10_test\.npz is damaged or lacks an array"):
        load_cifar10(tmp_path, "test")


def test_damaged_image(tmp_path):
    write_npz(tmp_path / "cifar10_test.npz", body=np.zeros(2000, np.uint8))
    with pytest.raises(DatasetError, match=r"Image 0 of .*cifar10_test\.npz is damaged .*Get the file again"):
        load_cifar10(tmp_path, "test")


def test_npz_without_pillow(tmp_path, monkeypatch):
    (tmp_path / "cifar10_test.npz").touch()
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(ImportError, match=r"needs Pillow.*pip install 'fedrela_sk\[plots\]'"):
        load_cifar10(tmp_path, "test")


@pytest.mark.parametrize(("parameter", "value"), [("folder", 3), ("split", "validation"), ("return_X_y", 2)])
def test_bad_parameters(parameter, value):
    arguments = {"folder": ".", parameter: value}
    with pytest.raises(ValueError, match=f"'{parameter}' parameter of load_cifar10 must be .* Got {value!r}"):
        load_cifar10(**arguments)


def test_the_data_folder(data_folder, tmp_path):
    counts = {}
    for split in ("train", "test"):
        with np.load(data_folder / "cifar10" / f"cifar10_{split}.npz") as arrays:
            counts[split] = np.bincount(arrays["labels"])
            whole = dict(arrays)
    np.testing.assert_array_equal(counts["train"], [5000] * 10)
    np.testing.assert_array_equal(counts["test"], [1000] * 10)
    for number in ("50,000", "10,000", "5,000 and 1,000 of each class"):
        assert number in _cifar10.__doc__
    # the first 1,000 test pictures, 100 of each class, are enough to read
    offsets = whole["offsets"][:1001]
    cut = {"header": whole["header"], "body": whole["body"][: offsets[-1]], "offsets": offsets}
    np.savez(tmp_path / "cifar10_test.npz", **cut, labels=whole["labels"][:1000])
    bunch = load_cifar10(tmp_path, "test")
    assert bunch.data.shape == (1000, 3, 32, 32)
    np.testing.assert_array_equal(np.bincount(bunch.target), 100)
    assert bunch.target_names == whole["class_names"].tolist()
    # means of all 10,000 original test pictures; those of 1,000 have a standard error of 0.004
    np.testing.assert_allclose(bunch.data.mean(axis=(0, 2, 3)) / 255, [0.494, 0.485, 0.450], atol=0.02)
    # red, green and blue are in this order: the sky of planes and ships is blue, deer and frogs are not
    blueness = (bunch.data[:, 2].astype(float) - bunch.data[:, 0]).mean(axis=(1, 2))
    assert blueness[np.isin(bunch.target, [0, 8])].mean() > 0 > blueness[np.isin(bunch.target, [4, 6])].mean()
