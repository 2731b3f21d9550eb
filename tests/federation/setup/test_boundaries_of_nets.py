"""What the federation says where a net, its data or its workers do not fit together."""

from datetime import datetime

import numpy as np
import pytest
import torch
from torch import nn

from fedrela_sk import FederatedClassifier, FedReLaRelabeler
from fedrela_sk.exceptions import ClientError, NetError
from fedrela_sk.nets import Augmentation
from tests.federation.helpers import make_net, make_rows

X, CODES = make_rows(80)


class Short(nn.Module):
    """A layer in bfloat16."""

    def __init__(self):
        super().__init__()
        self.last = nn.Linear(X.shape[1], int(CODES.max()) + 1).to(torch.bfloat16)

    def forward(self, x):
        return self.last(x)


class Breaks(Augmentation):
    def forward(self, x):
        if self.training and not torch.is_grad_enabled():
            raise RuntimeError("out of crops")
        return x


class Augmented(nn.Sequential):
    def __init__(self):
        super().__init__(Breaks(), nn.Linear(X.shape[1], int(CODES.max()) + 1))


def test_short_floats_go_to_the_loop_and_not_to_workers():
    net = make_net(Short, criterion=nn.CrossEntropyLoss)
    fed = FederatedClassifier(net, clients=4, n_rounds=2, random_state=0).fit(X, CODES)
    assert fed.engine_ == "loop (its parameters are torch.bfloat16)"
    with pytest.raises(ValueError, match=r"n_jobs=2 needs a net in float32 or float64, got torch\.bfloat16"):
        FederatedClassifier(net, clients=4, n_rounds=2, n_jobs=2, random_state=0).fit(X, CODES)


def test_errors_in_the_posterior_pass_name_client_and_round():
    fed = FederatedClassifier(
        make_net(Augmented),
        clients=4,
        n_rounds=5,
        relabeler=FedReLaRelabeler(),
        relabel_posteriors={"augment": True},
        random_state=0,
    )
    message = "Relabeling of client 0 before round 4 failed: RuntimeError: out of crops"
    with pytest.raises(ClientError, match=message):
        fed.fit(X, CODES)


def test_dates_are_client_names():
    dates = np.array(["2020-01-01", "2020-01-02"], dtype="datetime64[ns]")[np.arange(80) % 2]
    fed = FederatedClassifier(clients=None, n_rounds=1, random_state=0).fit(X, CODES, groups=dates)
    assert fed.client_names_ == [datetime(2020, 1, 1), datetime(2020, 1, 2)]


def test_the_default_net_is_for_tables():
    images = np.zeros((80, 2, 3, 3), dtype=np.float32)
    with pytest.raises(NetError, match=r"X has shape \(80, 2, 3, 3\).*Pass a net of your own"):
        FederatedClassifier().fit(images, CODES)


def test_a_relabeler_is_checked_before_the_first_round():
    seen = []
    fed = FederatedClassifier(
        clients=4, n_rounds=5, relabeler=FedReLaRelabeler(5), lr_schedule=lambda t: seen.append(t) or 1.0
    )
    with pytest.raises(
        ValueError, match=r"'tau' parameter of FedReLaRelabeler must be a float.*Got 5 instead"
    ):
        fed.fit(X, CODES)
    assert seen == []


def test_read_only_weights_are_copied(recwarn):
    weights = np.linspace(0.5, 1.5, 80)
    weights.flags.writeable = False
    FederatedClassifier(clients=4, n_rounds=1, random_state=0).fit(X, CODES, sample_weight=weights)
    assert not [warning for warning in recwarn if "not writable" in str(warning.message)]
