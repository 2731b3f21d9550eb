"""A weight that layers share has several names and still is one weight, for every method."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from fedrela_sk.algorithms import ALGORITHMS, CLIMB, MOON, SCAFFOLD, FedAvg, RatioLoss
from fedrela_sk.algorithms._records import frozen_names, trainable_names
from fedrela_sk.participation._base import Choice, Participation
from tests.algorithms.helpers import fit, three_classes

DATA = three_classes(60)


class Twice(nn.Module):
    """One square layer used twice, then a head."""

    def __init__(self):
        super().__init__()
        kind = {"dtype": torch.float64}
        self.first = nn.Linear(3, 3, **kind)
        self.norm = nn.BatchNorm1d(3, **kind)
        self.head = nn.Linear(3, 3, **kind)

    def forward(self, x):
        h = torch.tanh(self.norm(self.first(x)))
        return self.head(torch.tanh(self.again(h)))

    def again(self, h):
        return self.first(h)


class TwoNames(Twice):
    """The layer hangs under two names."""

    def __init__(self):
        super().__init__()
        self.second = self.first

    def again(self, h):
        return self.second(h)


class OneWeight(Twice):
    """Two layers hold the same weight and the same bias."""

    def __init__(self):
        super().__init__()
        self.second = nn.Module()
        self.second.weight, self.second.bias = self.first.weight, self.first.bias

    def again(self, h):
        return F.linear(h, self.second.weight, self.second.bias)


OTHERS = {
    "climb, in motion": CLIMB(epsilon=0.0, dual_lr=50.0, dual_every=1),
    "fedavg, half way": FedAvg(server_lr=0.5),
    "moon, plain": MOON(projection=None),
    "ratio_loss, large": RatioLoss(beta=1.0),
    "scaffold, I": SCAFFOLD("I"),
}


@pytest.mark.parametrize("module", [TwoNames, OneWeight])
@pytest.mark.parametrize("name", [*sorted(ALGORITHMS), *OTHERS])
def test_a_weight_of_two_names_is_one_weight(name, module):
    plain, shared = (
        fit(OTHERS.get(name, name), kind, DATA, n_rounds=3, lr=0.2, participation=0.7).predict_proba(DATA[0])
        for kind in (Twice, module)
    )
    np.testing.assert_allclose(plain, shared, rtol=0, atol=1e-13)


def test_both_names_hold_the_new_weight():
    params = fit("fedadam", OneWeight, DATA, n_rounds=2).net_.module_.state_dict()
    assert torch.equal(params["first.weight"], params["second.weight"])


class Far(Participation):
    """All clients, their mean displacement times 1.5."""

    def _choose(self, round, stream, sizes, counts):
        n = len(sizes)
        return Choice(tuple((i,) for i in range(n)), (1.0,) * n, total=1.5)


@pytest.mark.parametrize("module", [TwoNames, OneWeight])
def test_a_longer_step_moves_both_names(module):
    plain, shared = (
        fit("fedavg", kind, DATA, n_rounds=2, participation=Far()).predict_proba(DATA[0])
        for kind in (Twice, module)
    )
    np.testing.assert_allclose(plain, shared, rtol=0, atol=1e-13)


def test_every_name_of_a_weight_is_said_to_learn_or_not():
    module = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    module[1].weight = module[0].weight
    assert trainable_names(module) == ("0.weight", "1.weight")
    assert frozen_names(module) == set()
    module[0].weight.requires_grad_(False)
    assert trainable_names(module) == ()
    assert frozen_names(module) == {"0.weight", "1.weight"}
