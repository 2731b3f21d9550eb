"""Ratios and the monitor on made-up changes."""

import math

import numpy as np
import torch

from fedrela_sk.algorithms._class_changes import class_composition, class_ratios, own_weights

# one row per class, one column per weight
CHANGES = torch.tensor(
    [
        [10.0, 1.0, -2.0, 0.0, 5.0, -1.0],
        [2.0, 4.0, -1.0, 0.0, 4.0, -3.0],
        [-4.0, 3.0, 6.0, 0.0, 0.0, -2.0],
    ],
    dtype=torch.float64,
)


def equal_others(n_classes=4, per_class=3, seed=0):
    """Changes in which all classes but one move each weight alike."""
    rng = np.random.default_rng(seed)
    changes = np.repeat(rng.uniform(-0.3, 0.3, (1, n_classes * per_class)), n_classes, axis=0)
    for p in range(n_classes):
        changes[p, p * per_class : (p + 1) * per_class] = rng.uniform(1, 2, per_class)
    return torch.from_numpy(changes)


def test_own_weights_are_moved_up_the_most_and_by_nobody_else_by_four_fifths():
    """Columns: 0 clear; 1 a second reaches 75 %; 2 clear; 3 nothing moves; 4 a second reaches 80 %; 5 all down."""
    assert own_weights(CHANGES).int().tolist() == [
        [1, 0, 0, 0, 0, 0],
        [0, 1, 0, 0, 0, 0],
        [0, 0, 1, 0, 0, 0],
    ]


def test_a_larger_change_in_the_other_direction_counts():
    assert not own_weights(torch.tensor([[1.0], [-0.8]])).any()
    assert own_weights(torch.tensor([[1.0], [-0.79]])).tolist() == [[True], [False]]


def test_ratios_are_of_sums():
    """|10| / |(2 - 4) / 2|, |4| / |(1 + 3) / 2|, |6| / |(-2 - 1) / 2|."""
    np.testing.assert_allclose(class_ratios(CHANGES), [10, 2, 4], rtol=1e-15)
    more = torch.cat([CHANGES, torch.tensor([[7.0], [1.0], [2.0]])], dim=1)
    assert class_ratios(more)[0].item() == 34  # |10 + 7| / |-1 + 1.5|


def test_without_own_weights_or_without_others_the_ratio_is_ten():
    assert class_ratios(torch.tensor([[1.0, 1.0], [1.0, 1.0]])).tolist() == [10, 10]
    assert class_ratios(torch.eye(3)).tolist() == [10, 10, 10]


def test_a_scale_moves_no_ratio_and_symmetry_makes_all_alike():
    np.testing.assert_allclose(class_ratios(CHANGES * 1e-3), class_ratios(CHANGES), rtol=1e-12)
    np.testing.assert_allclose(class_ratios(3 * torch.eye(4) - 1.0), [2.0] * 4, rtol=1e-6)


def test_the_monitor_recovers_the_rows_of_every_class():
    changes, n = equal_others(), np.array([100.0, 60, 30, 10])
    n_auxiliary, n_participants = 16, 5
    moved = torch.from_numpy(n @ changes.numpy() / (n_participants * n_auxiliary))
    got = class_composition(changes, moved, n_auxiliary, n_participants, n.sum(), limit=math.inf)
    np.testing.assert_allclose(got, n, rtol=1e-12)
    scaled = class_composition(changes / 7, moved / 7, n_auxiliary, n_participants, n.sum(), limit=math.inf)
    np.testing.assert_allclose(scaled, n, rtol=1e-12)


def test_estimates_above_the_limit_are_left_out():
    """1.5 x 200 / 4 = 75 rows: the class of 100 gets the even share."""
    changes, n = equal_others(), np.array([100.0, 60, 30, 10])
    moved = torch.from_numpy(n @ changes.numpy() / 80)
    np.testing.assert_allclose(class_composition(changes, moved, 16, 5, 200.0), [50, 60, 30, 10], rtol=1e-12)
