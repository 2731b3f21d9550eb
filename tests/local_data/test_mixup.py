"""mixup and Remix: shares by hand, and what switches them off."""

import numpy as np
import pytest

from fedrela_sk.local_data import Mixup, Remix

COUNTS = np.array([1000.0, 100.0, 50.0])


class Fixed:
    """A stream whose share is known and whose partners are the rows turned round."""

    def __init__(self, share):
        self.share = share

    def beta(self, a, b):
        return self.share

    def permutation(self, n):
        return np.arange(n)[::-1]


def test_one_share_for_the_whole_batch():
    mix = Mixup(0.4).mix(np.array([0, 1, 2]), COUNTS, Fixed(0.3))
    assert mix.x_share == 0.3
    assert mix.partner.tolist() == [2, 1, 0]
    assert mix.y_share.tolist() == [0.3, 0.3, 0.3]


@pytest.mark.parametrize(
    ("own", "partner", "share", "expected"),
    [(0, 1, 0.4, 0.0), (0, 1, 0.6, 0.6), (1, 0, 0.6, 1.0), (1, 0, 0.4, 0.4), (1, 2, 0.4, 0.4)],
)
def test_remix_gives_the_label_of_the_rarer_class(own, partner, share, expected):
    mix = Remix().mix(np.array([own, partner]), COUNTS, Fixed(share))
    assert mix.x_share == share
    assert mix.y_share[0] == expected


@pytest.mark.parametrize(
    ("own", "partner", "share", "expected"),
    [(0, 1, 0.4, 0.0), (1, 0, 0.6, 1.0), (0, 1, 0.5, 0.5), (1, 0, 0.5, 0.5)],
)
def test_remix_at_its_limits(own, partner, share, expected):
    mix = Remix().mix(np.array([own, partner]), np.array([300.0, 100.0]), Fixed(share))
    assert mix.y_share[0] == expected


def test_remix_without_a_common_class_is_mixup():
    y, stream = np.array([0, 1, 2, 0, 1]), np.random.default_rng
    ours, plain = Remix(kappa=np.inf).mix(y, COUNTS, stream(3)), Mixup().mix(y, COUNTS, stream(3))
    np.testing.assert_array_equal(ours.partner, plain.partner)
    np.testing.assert_array_equal(ours.y_share, plain.y_share)


def test_an_alpha_of_zero_mixes_nothing():
    mix = Mixup(0).mix(np.array([0, 1]), COUNTS, np.random.default_rng(0))
    assert mix.x_share == 1.0
    assert mix.y_share.tolist() == [1.0, 1.0]


def test_shares_follow_the_beta_distribution():
    stream = np.random.default_rng(0)
    shares = [Mixup(0.2).mix(np.array([0]), COUNTS, stream).x_share for _ in range(4000)]
    assert np.mean(shares) == pytest.approx(0.5, abs=0.02)
    assert np.var(shares) == pytest.approx(0.25 / 1.4, rel=0.05)  # of Beta(0.2, 0.2)


def test_parameters_are_those_of_an_estimator():
    assert Remix(alpha=0.2, kappa=2, tau=0.1).get_params() == {"alpha": 0.2, "kappa": 2, "tau": 0.1}
