"""Both engines run a method's hooks to the same model, and so do permuted clients."""

import numpy as np
import pytest

from fedrela_sk import FedReLaRelabeler
from fedrela_sk.algorithms import ALGORITHMS
from tests.algorithms.helpers import TwoLayers, engines_of, fit, three_classes

BOTH = [name for name in sorted(ALGORITHMS) if "stacked" in engines_of(name)]


def ragged():
    """Clients of 1, 7, 12, 30 and 40 rows; the smallest holds one class."""
    X, y, _ = three_classes()
    return X, y, np.repeat(np.arange(5), [1, 7, 12, 30, 40])


@pytest.mark.parametrize("name", BOTH)
def test_the_loop_and_the_stack_agree(name):
    """Partial participation, ragged clients, momentum, new labels in between."""
    data = ragged()
    settings = {
        "n_rounds": 5,
        "participation": 0.6,
        "relabeler": FedReLaRelabeler(0.2),
        "relabel_at": 3,
        "net": {"batch_size": 8, "optimizer__momentum": 0.5, "iterator_train__shuffle": True},
        "lr": 0.1,
    }
    loop, stacked = (fit(name, TwoLayers, data, engine=engine, **settings) for engine in ("loop", "stacked"))
    assert loop.relabeled_mask_.any()
    np.testing.assert_allclose(loop.predict_proba(data[0]), stacked.predict_proba(data[0]), atol=1e-10)
    for way in ("up", "down"):
        column = f"bytes_{way}"
        np.testing.assert_array_equal(loop.history_.column(column), stacked.history_.column(column))
