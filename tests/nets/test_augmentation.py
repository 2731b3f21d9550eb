"""The mark of layers that augment."""

import torch
from torch import nn

from fedrela_sk.nets import Augmentation


class Twice(Augmentation):
    def forward(self, X):
        return 2 * X if self.training else X


def test_a_layer_of_this_kind_can_be_found_and_switched():
    net = nn.Sequential(Twice(), nn.Identity())
    assert [isinstance(layer, Augmentation) for layer in net] == [True, False]
    x = torch.ones(1)
    assert net(x).item() == 2
    assert net.eval()(x).item() == 1
