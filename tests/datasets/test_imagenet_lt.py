"""ImageNet-LT from lists of files, with a handful of pictures made here."""

import sys

import numpy as np
import pytest

from fedrela_sk.datasets import _imagenet_lt, load_imagenet_lt
from fedrela_sk.exceptions import DatasetError

Image = pytest.importorskip("PIL.Image")
COLORS = [(200, 30, 60), (10, 220, 90), (0, 0, 255)]


def write(root, lines, name="ImageNet_LT_train.txt"):
    (root / name).write_text("".join(line + "\n" for line in lines), encoding="utf-8")


def save(pixels, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.asarray(pixels, dtype=np.uint8)).save(path)


def make_folder(root):
    """Three pictures of one color each, of different sizes and formats, and their list."""
    names = ["train/n01/n01_1.png", "train/n01/a b.png", "train/n02/n02_7.JPEG"]
    for name, color, shape in zip(names, COLORS, [(20, 30), (8, 8), (41, 17)], strict=True):
        save(np.broadcast_to(color, (*shape, 3)), root / name)
    write(root, [f"{names[0]} 4", f"{names[1]} 4", "", f"{names[2]} 999"])


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_reads_a_list(tmp_path, n_jobs):
    make_folder(tmp_path)
    bunch = load_imagenet_lt(tmp_path, size=16, n_jobs=n_jobs)
    assert (bunch.data.shape, bunch.data.dtype, bunch.data.flags.c_contiguous) == (
        (3, 3, 16, 16),
        np.uint8,
        True,
    )
    assert (bunch.target.tolist(), bunch.target.dtype) == ([4, 4, 999], np.int64)
    assert (len(bunch.target_names), bunch.target_names[999]) == (1000, "999")
    assert bunch.DESCR is _imagenet_lt.__doc__
    expected = np.array(COLORS)[:, :, None, None] * np.ones((1, 1, 16, 16))
    np.testing.assert_allclose(bunch.data, expected, atol=4)  # JPEG rounds colors
    np.testing.assert_array_equal(bunch.data[:2], expected[:2])


@pytest.mark.parametrize("wide", [True, False])
def test_the_middle_square_is_taken(tmp_path, wide):
    """Four columns of pixels at each side are cut off, the square of 4 x 4 pixels stays as it is."""
    stream = np.random.default_rng(0)
    square = stream.integers(256, size=(4, 4, 3))
    pixels = np.concatenate([np.zeros((4, 4, 3)), square, np.full((4, 4, 3), 255)], axis=1)
    save(pixels if wide else pixels.transpose(1, 0, 2), tmp_path / "x.png")
    write(tmp_path, ["x.png 0"])
    X, y = load_imagenet_lt(tmp_path, size=4, return_X_y=True)
    np.testing.assert_array_equal(X[0], (square if wide else square.transpose(1, 0, 2)).transpose(2, 0, 1))
    assert y.tolist() == [0]


def test_it_is_resized_by_averaging_neighbors(tmp_path):
    pixels = np.kron(np.array([[0, 100], [200, 40]]), np.ones((8, 8)))[:, :, None] * np.ones(3)
    save(pixels, tmp_path / "x.png")
    write(tmp_path, ["x.png 0"])
    means = load_imagenet_lt(tmp_path, size=1).data[0, :, 0, 0]
    np.testing.assert_allclose(means, 85, atol=1)


def test_gray_and_transparent_pictures_have_three_channels(tmp_path):
    save(np.full((5, 5), 77), tmp_path / "gray.png")
    save(np.full((5, 5, 4), [9, 8, 7, 255]), tmp_path / "clear.png")
    write(tmp_path, ["gray.png 0", "clear.png 1"])
    X, _ = load_imagenet_lt(tmp_path, size=2, return_X_y=True)
    assert X[:, :, 0, 0].tolist() == [[77, 77, 77], [9, 8, 7]]


def test_lists_by_split_and_of_the_callers_own(tmp_path):
    make_folder(tmp_path)
    (tmp_path / "lists").mkdir()
    write(tmp_path, ["train/n01/a b.png 3"], "ImageNet_LT_val.txt")
    write(tmp_path, ["train/n02/n02_7.JPEG 2"], "lists/own.txt")
    assert load_imagenet_lt(tmp_path, "val", size=2).target.tolist() == [3]
    own = load_imagenet_lt(str(tmp_path), list_file=tmp_path / "lists/own.txt", size=2)
    assert own.target.tolist() == [2]
    with pytest.raises(DatasetError, match=r"no list .*ImageNet_LT_test\.txt\. Put the lists .* list_file"):
        load_imagenet_lt(tmp_path, "test")


@pytest.mark.parametrize("line", ["x.png", "x.png -1", "x.png 1000", "x.png 1.0", "7", "x.png\t7"])
def test_lines_that_are_no_path_and_class(tmp_path, line):
    save(np.zeros((2, 2, 3)), tmp_path / "x.png")
    write(tmp_path, ["x.png 0", "", line])
    with pytest.raises(DatasetError, match=r"Line 3 of .* is .*, expected the path .* class from 0 to 999\."):
        load_imagenet_lt(tmp_path)


def test_a_mark_at_the_start_of_a_list_is_no_part_of_a_name(tmp_path):
    save(np.zeros((2, 2, 3)), tmp_path / "x.png")
    (tmp_path / "ImageNet_LT_train.txt").write_bytes(b"\xef\xbb\xbfx.png 5\r\n")
    assert load_imagenet_lt(tmp_path, size=1).target.tolist() == [5]


def test_a_list_that_is_no_text(tmp_path):
    (tmp_path / "ImageNet_LT_train.txt").write_bytes(b"\x1f\x8b\x00\xff")
    with pytest.raises(DatasetError, match=r"Line 1 of .* is .*dcff', expected the path of a picture"):
        load_imagenet_lt(tmp_path)


def test_an_empty_list(tmp_path):
    write(tmp_path, [""])
    with pytest.raises(DatasetError, match=r"ImageNet_LT_train\.txt lists no picture"):
        load_imagenet_lt(tmp_path)


def test_a_missing_and_a_damaged_picture(tmp_path):
    write(tmp_path, ["train/x.png 0"])
    with pytest.raises(DatasetError, match=r"no picture .*train.x\.png\. Pass as root the folder"):
        load_imagenet_lt(tmp_path)
    save(np.random.default_rng(0).integers(256, size=(64, 64, 3)), tmp_path / "train/x.png")
    whole = (tmp_path / "train/x.png").read_bytes()
    for content in (b"", b"no picture", whole[: len(whole) // 2]):
        (tmp_path / "train/x.png").write_bytes(content)
        with pytest.raises(DatasetError, match=r"The picture .*x\.png is damaged .* Get it again"):
            load_imagenet_lt(tmp_path)


def test_without_pillow(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(ImportError, match=r"needs Pillow.*pip install 'fedrela_sk\[plots\]'"):
        load_imagenet_lt(tmp_path)


@pytest.mark.parametrize(
    ("parameter", "value"), [("root", 3), ("split", "dev"), ("size", 0), ("list_file", 1), ("n_jobs", "all")]
)
def test_bad_parameters(parameter, value):
    arguments = {"root": ".", parameter: value}
    with pytest.raises(
        ValueError, match=f"'{parameter}' parameter of load_imagenet_lt must be .* Got {value!r}"
    ):
        load_imagenet_lt(**arguments)
