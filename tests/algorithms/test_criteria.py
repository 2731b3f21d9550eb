"""What the net's criterion says beside its name: every method follows it, or refuses it."""

import numpy as np
import pytest
import torch

from fedrela_sk.algorithms import ALGORITHMS, CLIMB, MOON, FedIR, FedMix
from fedrela_sk.exceptions import NetError
from tests.algorithms.helpers import TwoLayers, fit, three_classes

DATA = three_classes(60)
OTHERS = {
    "climb, in motion": CLIMB(epsilon=0.0, dual_lr=50.0, dual_every=1),
    "climb, batches": CLIMB(epsilon=0.0, dual_lr=10.0, dual_every=1, losses="sum_of_batches"),
    "fedir, uniform": FedIR("uniform"),
    "fedmix, naive": FedMix(0.2, naive=True),
    "moon, strong": MOON(5.0, projection=None),
}
BARE = [name for name in sorted(ALGORITHMS) if ALGORITHMS[name].bare_loss]
FULL = [name for name in sorted(ALGORITHMS) if not ALGORITHMS[name].bare_loss]


def posteriors(name, **net):
    settings = {"batch_size": 8} | {f"criterion__{key}": value for key, value in net.items()}
    return fit(OTHERS.get(name, name), TwoLayers, DATA, n_rounds=3, lr=0.1, net=settings).predict_proba(
        DATA[0]
    )


def weights(*values):
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize("name", [*FULL, *OTHERS])
def test_class_weights_that_are_alike_change_nothing_and_others_do(name):
    plain = posteriors(name)
    np.testing.assert_allclose(posteriors(name, weight=weights(0.2, 0.2, 0.2)), plain, rtol=0, atol=1e-13)
    assert abs(posteriors(name, weight=weights(0.2, 1.0, 5.0)) - plain).max() > 1e-4


@pytest.mark.parametrize("name", FULL)
def test_labels_are_smoothed(name):
    assert abs(posteriors(name, label_smoothing=0.3) - posteriors(name)).max() > 1e-4


@pytest.mark.parametrize("name", BARE)
@pytest.mark.parametrize(
    ("setting", "value"), [("weight", weights(1, 1, 2)), ("label_smoothing", 0.1), ("ignore_index", 1)]
)
def test_a_loss_that_takes_nothing_from_it_refuses_what_it_would_leave_out(name, setting, value):
    with pytest.raises(NetError, match=f"criterion__{setting}=.* would not be used"):
        posteriors(name, **{setting: value})


def test_every_loss_of_its_own_was_looked_at():
    """Methods that replace the loss and still follow the criterion."""
    own = {name for name, kind in ALGORITHMS.items() if kind.own_loss}
    assert own - set(BARE) == own & set(FULL) >= {"fedir", "fedmix", "moon"}
