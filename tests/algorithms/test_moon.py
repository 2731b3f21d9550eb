"""MOON: a contrast of features with the global and the client's own last model."""

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from fedrela_sk.algorithms import MOON, FedAvg, Local
from fedrela_sk.algorithms._moon import SEEN
from fedrela_sk.algorithms._tags import tagged
from fedrela_sk.nets import MLP
from fedrela_sk.training import Batch, Model
from tests.algorithms.heads import WithBatchNorm
from tests.algorithms.helpers import TwoLayers, fit, three_classes

DATA = three_classes(40)


def reference(fed, start, n_rounds, lr, n_steps, mu, encode, temperature=0.5):
    """Full-batch rounds of the clients that took part in those of `fed`, in plain torch."""
    X, y, groups = DATA
    X, y = torch.from_numpy(X), torch.from_numpy(y)
    server, previous = start, {}
    for round in range(n_rounds):
        ends, sizes = [], []
        for k in fed.history_[round].participants:
            rows = torch.from_numpy(np.flatnonzero(groups == k))
            net = copy.deepcopy(server)
            optimizer = torch.optim.SGD(net.parameters(), lr, momentum=0.5)
            for _ in range(n_steps):
                loss = F.cross_entropy(net(X[rows]), y[rows])
                if k in previous:
                    z = encode(net, X[rows])
                    with torch.no_grad():
                        others = encode(server, X[rows]), encode(previous[k], X[rows])
                    pair = torch.stack([F.cosine_similarity(z, other) for other in others], 1) / temperature
                    loss = loss + mu * F.cross_entropy(pair, torch.zeros(len(rows), dtype=torch.int64))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            previous[k] = net
            ends.append(net)
            sizes.append(len(rows))
        server = copy.deepcopy(server)
        with torch.no_grad():
            for params in zip(server.parameters(), *(net.parameters() for net in ends), strict=True):
                params[0].copy_(sum(n * p for n, p in zip(sizes, params[1:], strict=True)) / sum(sizes))
    return server


def projected(net, x):
    """Input of the new last layer."""
    return net[2][:3](net[1](net[0](x)))


def hidden(net, x):
    return net[1](net[0](x))


@pytest.mark.parametrize("engine", ["loop", "stacked"])
@pytest.mark.parametrize(
    ("algorithm", "encode"), [(MOON(), projected), (MOON(3.0, 0.2, projection=None), hidden)]
)
def test_rounds_as_in_plain_torch(algorithm, encode, engine):
    settings = {
        "n_rounds": 4, "participation": 0.6, "engine": engine, "net": {"optimizer__momentum": 0.5}, "epochs": 3,
    }  # fmt: skip
    fed = fit(algorithm, TwoLayers, DATA, lr=0.3, **settings)
    start = fit(algorithm, TwoLayers, DATA, lr=0.0).net_.module_
    assert len({record.participants for record in fed.history_}) > 1
    expected = reference(fed, start, 4, 0.3, 3, algorithm.mu, encode, algorithm.temperature)
    plain = reference(fed, start, 4, 0.3, 3, 0.0, encode)
    for name, param in fed.net_.module_.named_parameters():
        torch.testing.assert_close(param, dict(expected.named_parameters())[name], rtol=0, atol=1e-12)
    assert (
        max((a - b).abs().max() for a, b in zip(expected.parameters(), plain.parameters(), strict=True))
        > 1e-5
    )


@pytest.mark.parametrize("engine", ["loop", "stacked"])
def test_without_strength_it_is_fedavg_on_the_same_net(engine):
    class Projected(nn.Sequential):
        def __init__(self):
            super().__init__(*TwoLayers().children())
            MOON().prepare_module(self, 3)
            self.double()

    off = fit(MOON(0.0), TwoLayers, DATA, n_rounds=3, engine=engine).predict_proba(DATA[0])
    plain = fit(FedAvg(), Projected, DATA, n_rounds=3, engine=engine).predict_proba(DATA[0])
    np.testing.assert_array_equal(off, plain)


def test_the_first_round_has_no_contrast():
    first, off = (fit(MOON(mu), TwoLayers, DATA).predict_proba(DATA[0]) for mu in (5.0, 0.0))
    np.testing.assert_allclose(first, off, rtol=0, atol=1e-14)


class Angles(nn.Module):
    """Features (cos a, sin a) of the angle a = w x, and a head."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.tensor(0.0, dtype=torch.float64))
        self.head = nn.Linear(2, 2, dtype=torch.float64)

    def forward(self, x):
        angle = self.w * x[:, 0]
        return self.head(torch.stack([angle.cos(), angle.sin()], 1))


def contrast(near, far, seen=1.0, mu=1.0, temperature=0.5):
    """(term of one row, gradient of w) with cosines `near` to the global model's and `far` to the last one's."""
    module = Angles()
    received = {name: p.detach().clone() for name, p in module.named_parameters()}
    at = lambda cosine: received | {"w": torch.tensor(np.arccos(cosine), dtype=torch.float64)}  # noqa: E731
    x, y = torch.ones(1, 1, dtype=torch.float64), torch.zeros(1, dtype=torch.int64)
    criterion = nn.CrossEntropyLoss()
    state = {SEEN: torch.tensor(seen)} | tagged("previous", at(far))
    local = Local(at(near), state, {}, None)
    batch, model = Batch(x, y, torch.ones(1, dtype=torch.float64), criterion), Model(module, criterion, 2)
    loss = MOON(mu, temperature).client_loss(model, batch, local) - F.cross_entropy(module(x), y)
    return loss.item(), torch.autograd.grad(loss, module.w)[0].item()


@pytest.mark.parametrize(
    ("near", "far", "term"),
    [(0.8, 0.2, 0.263282), (1, -1, 0.018150), (-1, 1, 4.018150), (0.3, 0.3, np.log(2))],
)
def test_the_term_of_a_row(near, far, term):
    assert contrast(near, far)[0] == pytest.approx(term, abs=1e-6)
    assert contrast(near, far, mu=3.0)[0] == pytest.approx(3 * contrast(near, far)[0], abs=1e-9)


def test_equal_models_pull_nowhere_and_others_do():
    assert contrast(0.3, 0.3)[1] == pytest.approx(0, abs=1e-12)
    # softplus'((far - near) / T) (sin a_far - sin a_near) / T for cos(w - a) at w = 0
    slope = (np.sqrt(1 - 0.2**2) - np.sqrt(1 - 0.8**2)) / 0.5 / (1 + np.exp((0.8 - 0.2) / 0.5))
    assert contrast(0.8, 0.2)[1] == pytest.approx(slope, abs=1e-9)


def test_no_last_model_no_term():
    assert contrast(0.8, 0.2, seen=0.0) == (pytest.approx(0, abs=1e-15), 0.0)


def test_features_of_zero_harm_nobody():
    class Dead(TwoLayers):
        def __init__(self):
            super().__init__()
            self[1] = nn.ReLU()
            nn.init.constant_(self[0].bias, -100.0)

    fed = fit(MOON(projection=None), Dead, DATA, n_rounds=3)
    assert np.isfinite(fed.predict_proba(DATA[0])).all()


def test_the_papers_projection():
    module = MOON().prepare_module(MLP(7, 5, hidden=(16,)), 5)
    assert [type(layer) for layer in module[2]] == [nn.Linear, nn.ReLU, nn.Linear, nn.Linear]
    widths = [(layer.in_features, layer.out_features) for layer in module[2] if isinstance(layer, nn.Linear)]
    assert widths == [(16, 16), (16, 256), (256, 5)]
    head = sum(p.numel() for p in module[2].parameters())
    assert head == 16**2 + 16 + 256 * 16 + 256 + 257 * 5
    assert Model(module, nn.CrossEntropyLoss(), 5).features(torch.zeros(2, 7))[0].shape == (2, 256)


def test_a_named_head():
    class TwoEnds(MLP):
        def __init__(self):
            super().__init__(7, 5, hidden=(5,))

    for projection in (8, None):
        module = MOON(projection=projection, head="0").prepare_module(TwoEnds(), 5)
        features, _ = Model(module, nn.CrossEntropyLoss(), 5).features(torch.zeros(2, 7))
        assert features.shape == (2, 8 if projection else 7)


def test_statistics_of_batch_norm_see_a_clients_own_batches_alone():
    """Two extra passes a batch leave them as FedAvg's with the same weights."""
    settings = {"n_rounds": 2, "lr": 0.0, "epochs": 2}
    moon, plain = (
        fit(algorithm, WithBatchNorm, DATA, **settings).net_.module_
        for algorithm in (MOON(projection=None), "fedavg")
    )
    for buffer, other in zip(moon.buffers(), plain.buffers(), strict=True):
        assert torch.equal(buffer, other)
    moved = fit(MOON(projection=None), WithBatchNorm, DATA, n_rounds=3)
    assert np.isfinite(moved.predict_proba(DATA[0])).all()


def test_the_ledger():
    """TwoLayers without projection: (3 + 1) 4 + (4 + 1) 3 = 31 numbers of 8 bytes; three clients."""
    history = fit(MOON(projection=None), TwoLayers, DATA, n_rounds=2).history_
    assert history.column("bytes_up").tolist() == [3 * (31 * 8 + 8)] * 2
    assert history.column("bytes_down").tolist() == [3 * 31 * 8] * 2


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"mu": -1}, "mu must be a finite number >= 0, got -1"),
        ({"temperature": 0}, "temperature must be a finite number > 0, got 0"),
        ({"projection": 0}, "projection must be a whole number >= 1, got 0"),
    ],
)
def test_settings_out_of_range(settings, message):
    with pytest.raises(ValueError, match=message):
        fit(MOON(**settings), TwoLayers, DATA)
