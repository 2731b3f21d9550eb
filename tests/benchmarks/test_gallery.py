"""Figure 2: which changes and which images are shown."""

import numpy as np

from benchmarks.suites import gallery
from fedrela_sk.report import RelabelReport


def report():
    old = np.array([0] * 8 + [1] * 3 + [2])
    new = np.array([1] * 8 + [2] * 3 + [0])
    n = len(old)
    numbers = [np.linspace(0, 1, n) for _ in range(3)]
    rho = np.array([0.1, 0.9, 0.2, 0.8, 0.3, 0.7, 0.4, 0.6, 0.5, 0.2, 0.7, 1.0])
    return RelabelReport(np.arange(n), old, new, *numbers, rho, client=np.zeros(n), round=np.zeros(n))


def test_changes_are_sorted_by_how_often_they_occur():
    assert gallery.frequent_pairs(report()) == [(0, 1, 8), (1, 2, 3), (2, 0, 1)]


def test_images_with_the_largest_and_the_smallest_rho():
    shown = gallery.chosen(report(), 0, 1)
    np.testing.assert_allclose(report().rho[shown], [0.9, 0.8, 0.7, 0.3, 0.2, 0.1])


def test_no_image_is_shown_twice_where_there_are_few():
    assert sorted(gallery.chosen(report(), 1, 2).tolist()) == [8, 9, 10]
    assert gallery.chosen(report(), 2, 0).tolist() == [11]


def test_the_picture_is_drawn(tmp_path):
    gallery.draw(tmp_path / "gallery.png", report(), np.zeros((12, 28, 28), np.uint8), list("abc"))
    assert (tmp_path / "gallery.png").stat().st_size > 1000
