"""Rounds kept in memory hold all of a method's state: its server's, its clients', what traveled once."""

import numpy as np
import pytest

from fedrela_sk import FedReLaRelabeler
from fedrela_sk.algorithms import ALGORITHMS
from tests.algorithms.helpers import TwoLayers, fit, three_classes


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_rounds_from_memory_are_the_rounds_themselves(name, tmp_path):
    data = three_classes(60, n_clients=4)
    settings = {"n_rounds": 5, "participation": 0.5, "relabeler": FedReLaRelabeler(0.2), "relabel_at": 3}
    settings["net"] = {"module__units": 40}  # wide enough for sums to depend on how tensors lie in memory
    plain, first, again = (
        fit(name, TwoLayers, data, engine="auto", **settings, memory=memory)
        for memory in (None, tmp_path, tmp_path)
    )
    assert any(tmp_path.rglob("*.safetensors"))
    for fed in (first, again):
        for groups in (None, data[2]):  # the global model, and the clients' own where there are any
            np.testing.assert_array_equal(
                fed.predict_proba(data[0], groups=groups), plain.predict_proba(data[0], groups=groups)
            )
        for way in ("up", "down"):
            column = f"bytes_{way}"
            np.testing.assert_array_equal(fed.history_.column(column), plain.history_.column(column))
