"""Images lie channels last in memory where that changes nothing but rounding, and nowhere else."""

import numpy as np
import pytest
import torch
from skorch import NeuralNetClassifier
from torch import nn

from fedrela_sk import FederatedClassifier, FedReLaRelabeler
from fedrela_sk.federation.setup import _plan as _planning
from fedrela_sk.training._layout import from_array, laid_out, to_array
from fedrela_sk.training._net import tensors_of

STREAM = np.random.default_rng(0)
IMAGES = STREAM.normal(size=(60, 3, 6, 6))
LABELS = STREAM.integers(3, size=60)
IMAGES[np.arange(60), LABELS] += 1.0


class Images(nn.Sequential):
    """Convolution, pooling, BatchNorm, Dropout and a head, in float64."""

    def __init__(self):
        super().__init__(
            nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.2), nn.Flatten(),
            nn.Linear(16, 3),
        )  # fmt: skip
        self.double()


class Views(nn.Module):
    """Reads activations in the order in which they lie, which channels last would change."""

    def __init__(self):
        super().__init__()
        self.conv, self.head = nn.Conv2d(3, 4, 3), nn.Linear(64, 3)
        self.double()

    def forward(self, x):
        x = self.conv(x)
        return self.head(x.view(len(x), -1))


class Strided(Views):
    """Takes memory itself for the image: no error, another output."""

    def forward(self, x):
        x = self.conv(x)
        return self.head(x.as_strided((len(x), 64), (64, 1)))


class Dense(nn.Sequential):
    """No convolution."""

    def __init__(self):
        super().__init__(nn.Flatten(), nn.Linear(108, 3))
        self.double()


def make_net(module=Images, **params):
    settings = {
        "criterion": nn.CrossEntropyLoss,
        "batch_size": 7,
        "iterator_train__shuffle": True,
        "lr": 0.05,
    }
    return NeuralNetClassifier(module, **(settings | params))


def channels_last(X):
    return X.is_contiguous(memory_format=torch.channels_last) and not X.is_contiguous()


@pytest.mark.parametrize(
    ("module", "moved"), [(Images, True), (Views, False), (Strided, False), (Dense, False)]
)
def test_only_modules_that_compute_the_same_get_it(module, moved):
    net = make_net(module).initialize()
    before = {name: tensor.clone() for name, tensor in tensors_of(net.module_).items()}
    state = torch.get_rng_state()
    X = torch.from_numpy(IMAGES)
    Z = laid_out(net, X)
    assert channels_last(Z) == moved
    assert torch.equal(Z, X)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(before[name], tensor) for name, tensor in tensors_of(net.module_).items())


@pytest.mark.parametrize("shape", [(60, 1, 6, 6), (60, 5), (60, 3, 6)])
def test_only_images_of_several_channels_have_another_layout(shape):
    X = torch.zeros(shape)
    assert laid_out(make_net().initialize(), X) is X


def fit(**params):
    settings = {"clients": 4, "n_rounds": 3, "engine": "loop", "random_state": 0, "relabel_at": 2}
    fed = FederatedClassifier(make_net(), relabeler=FedReLaRelabeler(0.3), **(settings | params))
    return fed.fit(IMAGES, LABELS)


def test_a_run_is_the_same_but_for_rounding(monkeypatch):
    class WithoutChance(Images):
        """Dropout draws other masks in another layout, by the same law."""

        def __init__(self):
            super().__init__()
            self[4].p = 0.0

    def run():
        fed = FederatedClassifier(
            make_net(WithoutChance), clients=4, n_rounds=3, engine="loop", random_state=0,
            relabeler=FedReLaRelabeler(0.3), relabel_at=2,
        )  # fmt: skip
        return fed.fit(IMAGES, LABELS)

    seen = []
    monkeypatch.setattr(_planning, "laid_out", lambda net, X: seen.append(laid_out(net, X)) or seen[-1])
    other = run()
    assert channels_last(seen[0])
    monkeypatch.setattr(_planning, "laid_out", lambda net, X: X)
    usual = run()
    assert usual.relabeled_mask_.any()
    np.testing.assert_array_equal(other.y_relabeled_, usual.y_relabeled_)
    np.testing.assert_allclose(other.predict_proba(IMAGES), usual.predict_proba(IMAGES), atol=1e-10)


@pytest.mark.parametrize("n_jobs", [2, 4])
def test_workers_have_it_too_and_change_nothing(n_jobs):
    alone, together = fit(), fit(n_jobs=n_jobs)
    for name, tensor in tensors_of(alone.net_.module_).items():
        assert torch.equal(tensor, tensors_of(together.net_.module_)[name])


@pytest.mark.parametrize("last", [True, False])
def test_an_array_and_back(last):
    X = torch.from_numpy(IMAGES)
    X = X.contiguous(memory_format=torch.channels_last) if last else X
    array, was_last = to_array(X)
    assert was_last == last
    assert array.flags.c_contiguous
    back = from_array(array, was_last)
    assert torch.equal(back, X)
    assert back.stride() == X.stride()
    assert back.data_ptr() == X.data_ptr()
