"""FedReLaRelabeler against reference numbers, worked examples and a row-by-row twin."""

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fedrela_sk.relabel import FedReLaRelabeler

RELEASED = {"ddof": 0, "min_scale": 1e-6, "threshold": "order_statistic", "target": "argmax_of_successes"}
REFERENCE = np.load(Path(__file__).parents[1] / "reference" / "relabel_reference.npz")


@pytest.mark.parametrize("case", ["case1", "case3", "case5", "case7"])
def test_equals_the_released_code(case):
    expected = {name.removeprefix(f"{case}_"): REFERENCE[name] for name in REFERENCE if name.startswith(case)}
    Q, y = expected["Q"], expected["y"]
    relabeler = FedReLaRelabeler(float(expected["tau"]), classes=np.arange(Q.shape[1]), **RELEASED).fit(Q, y)
    assert_allclose(relabeler.prior_weight_, expected["prior_weight"], rtol=0, atol=1e-12)
    assert_allclose(relabeler.mean_, expected["mean"], rtol=0, atol=1e-12)
    assert_allclose(relabeler.scale_, expected["std"], rtol=0, atol=1e-12)
    assert_allclose(relabeler.threshold_, expected["threshold"], rtol=0, atol=1e-12)
    assert_allclose(relabeler.relabel_proba(Q, y), expected["rho"], rtol=0, atol=1e-12)
    assert_array_equal(relabeler.relabel(Q, y, uniforms=expected["uniform"]), expected["y_new"])
