"""Modules of two layers that may be the head."""

import torch
from torch import nn


class Branches(nn.Module):
    """Two layers of three outputs, the head first; `after` makes the output from theirs."""

    def __init__(self, after=lambda head, other: head):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(5, 4), nn.Dropout(0.5))
        self.head, self.other = nn.Linear(4, 3), nn.Linear(4, 3)
        self.after = after

    def forward(self, x):
        h = self.body(x)
        return self.after(self.head(h), self.other(h))


class Unused(Branches):
    """The second layer never runs, and a softmax follows the first."""

    def forward(self, x):
        return torch.softmax(self.head(self.body(x)), dim=1)


class Pair(Branches):
    """Returns its features beside its output."""

    def forward(self, x):
        h = self.body(x)
        return self.head(h), self.other(h)
