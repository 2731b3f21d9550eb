"""Copies of one row are never relabeled for the rounding of the net: nets x dtypes x widths of batches x engines."""

from functools import cache, partial

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn

from fedrela_sk import FederatedClassifier, FedReLaRelabeler
from fedrela_sk.relabel._contract import fit_told
from fedrela_sk.training._net import tensors_of, write_tensors
from fedrela_sk.training._posteriors import in_evaluation, unit_of
from tests.federation.helpers import make_fed, make_net

N_COPIES = 1025
DTYPES = [torch.float32, torch.float64]


class Dense(nn.Sequential):
    def __init__(self, dtype, units=64):
        super().__init__(nn.Linear(64, units, dtype=dtype), nn.ReLU(), nn.Linear(units, 10, dtype=dtype))


class Wide(Dense):
    def __init__(self, dtype):
        super().__init__(dtype, units=513)


class Convolution(nn.Sequential):
    def __init__(self, dtype):
        super().__init__(
            nn.Unflatten(1, (1, 8, 8)),
            nn.Conv2d(1, 7, 3, dtype=dtype),
            nn.BatchNorm2d(7, dtype=dtype),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(252, 10, dtype=dtype),
        )


class Attention(nn.Module):
    def __init__(self, dtype):
        super().__init__()
        self.inner = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True, dtype=dtype)
        self.out = nn.Linear(64, 10, dtype=dtype)

    def forward(self, X):
        return self.out(self.inner(X.unflatten(1, (8, 8))).flatten(1))


NETS = {"dense": Dense, "wide": Wide, "convolution": Convolution, "attention": Attention}


@cache
def digits():
    X, y = load_digits(return_X_y=True)
    return X / 16, y


def copies_and_others(row):
    """1,025 copies of one digit, which are the common class 0, and other digits of rarer classes."""
    X, y = digits()
    others = np.flatnonzero(y != y[row])[:60]
    labels = np.concatenate([np.zeros(N_COPIES, dtype=int), 1 + np.arange(60) % 9])
    return np.concatenate([np.tile(X[row], (N_COPIES, 1)), X[others]]), labels


def random_net(kind, dtype, seed, span=20.0):
    """A net whose logits for digits span up to `span`."""
    torch.manual_seed(seed)
    net = make_net(partial(NETS[kind], dtype)).initialize()
    with torch.no_grad():
        logits = net.module_.eval()(torch.from_numpy(digits()[0][:200]).to(dtype))
        last = [layer for layer in net.module_.modules() if isinstance(layer, nn.Linear)][-1]
        factor = span / (logits.amax(1) - logits.amin(1)).max()
        last.weight *= factor
        last.bias *= factor
    return net


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", NETS)
@pytest.mark.parametrize("batch_size", [1024, 1000, 100, 7, 1])
def test_the_bound_covers_batches_of_two_widths(kind, dtype, batch_size):
    """The second guard by itself: the last batch is shorter than the others."""
    for seed in range(3):
        net = random_net(kind, dtype, seed)
        X, y = copies_and_others(seed)
        Q = in_evaluation(net, torch.from_numpy(X).to(dtype), 10, batch_size).numpy()
        relabeler = FedReLaRelabeler(classes=np.arange(10))
        fit_told(relabeler, Q, y, eps=unit_of(net.module_))
        np.testing.assert_array_equal(relabeler.scale_[0], 0)
        assert not relabeler.relabel_proba(Q, y)[:N_COPIES].any()
        mixed = relabeler.transform(Q[:N_COPIES])
        np.testing.assert_allclose(mixed, mixed[[0] * N_COPIES], rtol=0, atol=1000 * unit_of(net.module_))


def test_a_filled_batch_changes_no_row():
    """What fills a batch is thrown away, and every row is there once."""
    net = random_net("dense", torch.float64, 0)
    X = torch.from_numpy(digits()[0])
    for batch_size in (1, 7, 1000, 1796, 1797, 5000, -1):
        Q = in_evaluation(net, X, 10, batch_size, one_width=True)
        torch.testing.assert_close(Q, in_evaluation(net, X, 10, 1797), rtol=1e-11, atol=0)


def test_a_batch_is_no_wider_than_asked():
    net, widths = random_net("dense", torch.float64, 0), []
    net.module_.register_forward_pre_hook(lambda module, rows: widths.append(len(rows[0])))
    in_evaluation(net, torch.from_numpy(digits()[0]), 10, 500, one_width=True)
    assert widths == [500] * 4


@pytest.mark.parametrize("engine", ["loop", "stacked"])
@pytest.mark.parametrize("mode", ["eval", "train"])
@pytest.mark.parametrize("batch_size", [64, 1000])
@pytest.mark.parametrize("dtype", DTYPES)
def test_no_copy_is_relabeled_in_a_federation(dtype, batch_size, mode, engine):
    for seed in range(3):
        X, y = copies_and_others(seed)
        net = make_net(Dense, module__dtype=dtype, batch_size=batch_size, iterator_train__shuffle=True)
        fed = make_fed(
            net,
            clients=1,
            n_rounds=2,
            relabel_at=1,
            relabeler=FedReLaRelabeler(0.1),
            relabel_posteriors={"mode": mode},
            engine=engine,
            random_state=seed,
        ).fit(X, y)
        assert fed.relabel_round_ == 1
        np.testing.assert_array_equal(fed.relabelers_[0].scale_[0], 0)
        assert not fed.relabeled_mask_[:N_COPIES].any()


def test_no_copy_is_relabeled_by_the_default_net_trained_on_digits():
    X, y = digits()
    fed = FederatedClassifier(clients=3, n_rounds=10, random_state=0).fit(X, y)
    trained = tensors_of(fed.net_.module_)
    for row in range(5):
        X, y = copies_and_others(row)
        write_tensors(fed.net_.module_, trained)
        Q = in_evaluation(fed.net_, torch.from_numpy(X).float(), 10).numpy()
        relabeler = fit_told(FedReLaRelabeler(classes=np.arange(10)), Q, y, eps=unit_of(fed.net_.module_))
        assert not relabeler.relabel_proba(Q, y)[:N_COPIES].any()


def test_the_unit_is_that_of_the_coarsest_parameter():
    assert unit_of(nn.Linear(1, 1)) == 2.0**-23
    assert unit_of(nn.Linear(1, 1).double()) == 2.0**-52
    assert unit_of(nn.Sequential(nn.Linear(1, 1).double(), nn.Linear(1, 1).half())) == 2.0**-10
    assert unit_of(nn.ReLU()) == 2.0**-23
