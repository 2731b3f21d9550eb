"""Shares of a total as whole numbers, by hand and by what they promise."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedrela_sk._apportion import apportion


def test_by_hand():
    assert apportion([0.5, 0.3, 0.2], 10).tolist() == [5, 3, 2]
    assert apportion([0.5, 0.25, 0.25], 3).tolist() == [1, 1, 1]  # 1.5, 0.75, 0.75
    assert apportion([0.25, 0.25, 0.25, 0.25], 2).tolist() == [1, 1, 0, 0]  # ties: the earlier
    assert apportion([0.9, 0.1], 0).tolist() == [0, 0]
    assert apportion([0.5, 0.26, 0.24], 10).tolist() == [5, 3, 2]
    assert apportion([0.98, 0.01, 0.01], 4, least=1).tolist() == [2, 1, 1]


@given(
    total=st.integers(0, 10_000),
    weights=st.lists(st.floats(1e-6, 1), min_size=1, max_size=30),
    least=st.sampled_from([0, 1, 3]),
)
def test_the_sum_is_kept_and_every_entry_is_within_one_of_its_share(total, weights, least):
    total += least * len(weights)
    shares = np.array(weights) / sum(weights)
    sizes = apportion(shares, total, least)
    assert sizes.sum() == total
    assert sizes.min() >= least
    assert np.abs(sizes - least - (total - least * len(shares)) * shares).max() < 1 + 1e-6
