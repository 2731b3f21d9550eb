"""Whole federations: the stacked engine against the loop, and the same bits under any workers."""

import os
import tempfile

import joblib
import numpy as np
import pytest
import torch
from skorch import NeuralNetClassifier
from skorch.callbacks import GradientNormClipping
from torch import nn

from fedrela_sk import FederatedClassifier, FedReLaRelabeler
from fedrela_sk.aggregation import WeightedMean
from fedrela_sk.algorithms import FedAvg
from fedrela_sk.exceptions import NetError, NotFiniteError
from fedrela_sk.training import Stacked
from fedrela_sk.training._threads import torch_threads

N_FEATURES, N_CLASSES = 4, 3
RAGGED = (1, 2, 33, 70, 31, 32, 65, 5, 120)


def make_rows(sizes, seed=0):
    """Overlapping classes, each rarer than the one before; rows of client after client."""
    stream = np.random.default_rng(seed)
    n = sum(sizes)
    y = stream.choice(N_CLASSES, n, p=[0.6, 0.3, 0.1])
    X = stream.normal(size=(n, N_FEATURES))
    X[:, 0] += y
    return X, y, np.repeat(np.arange(len(sizes)), sizes)


class Dense(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(N_FEATURES, 8), nn.ReLU(), nn.Linear(8, N_CLASSES))
        self.double()


class Normed(nn.Sequential):
    def __init__(self):
        super().__init__(
            nn.Linear(N_FEATURES, 8), nn.BatchNorm1d(8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, N_CLASSES)
        )
        self.double()


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.flat, self.first, self.norm = nn.Flatten(), nn.Linear(N_FEATURES, 8), nn.LayerNorm(8)
        self.second, self.last = nn.Linear(8, 8), nn.Linear(8, N_CLASSES)
        self.double()

    def forward(self, x):
        h = torch.tanh(self.norm(self.first(self.flat(x))))
        return self.last(h + torch.relu(self.second(h)))


class Vmapped(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(N_FEATURES, 8), nn.Linear(8, N_CLASSES)
        self.double()

    def forward(self, x):
        h = self.first(x)
        return self.last(h * torch.softmax(h, dim=-1))


class Dropped(nn.Sequential):
    def __init__(self):
        super().__init__(
            nn.Linear(N_FEATURES, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.ReLU(), nn.Linear(8, N_CLASSES)
        )


def fit(data, module=Dense, engine="loop", sample_weight=None, net=None, **params):
    """A federation of one client per group: three rounds, new labels before the second."""
    X, y, groups = data
    settings = {
        "criterion": nn.CrossEntropyLoss,
        "lr": 0.1,
        "batch_size": 32,
        "max_epochs": 2,
        "iterator_train__shuffle": True,
    }
    defaults = {
        "clients": None,
        "n_rounds": 3,
        "relabel_at": 1,
        "relabeler": FedReLaRelabeler(0.1),
        "random_state": 0,
    }
    estimator = NeuralNetClassifier(module, **(settings | (net or {})))
    fed = FederatedClassifier(estimator, engine=engine, **(defaults | params))
    return fed.fit(X, y, groups=groups, sample_weight=sample_weight)


def history_of(fed):
    """All of the history that does not depend on the order of sums or on the clock."""
    names = (
        "round",
        "n_samples",
        "n_steps",
        "n_relabeled",
        "relabeled_clients",
        "bytes_up",
        "bytes_down",
        "notes",
    )
    return [{name: getattr(record, name) for name in names} for record in fed.history_]


def assert_close(loop, stacked, X, tolerance):
    """The same federation but for rounding; new labels are equal."""
    assert loop.engine_.startswith("loop")
    assert stacked.engine_.startswith("stacked")
    np.testing.assert_array_equal(stacked.y_relabeled_, loop.y_relabeled_)
    np.testing.assert_allclose(stacked.predict_proba(X), loop.predict_proba(X), rtol=0, atol=tolerance)
    assert history_of(stacked) == history_of(loop)
    for name in ("train_loss", "valid_loss", "valid_score"):
        one, other = ([getattr(r, name) for r in fed.history_] for fed in (loop, stacked))
        np.testing.assert_allclose(other, one, rtol=tolerance, atol=tolerance)
    assert [set(r.participants) for r in loop.history_] == [set(r.participants) for r in stacked.history_]
    if loop.net_ is None:
        return
    for (name, tensor), other in zip(
        loop.net_.module_.state_dict().items(), stacked.net_.module_.state_dict().values(), strict=True
    ):
        torch.testing.assert_close(other, tensor, rtol=0, atol=tolerance, msg=name)


# --- one federation, two engines ------------------------------------------------------------------------

DATA = make_rows(RAGGED)
WEIGHTS = np.random.default_rng(1).integers(0, 4, len(DATA[1])).astype(float)


@pytest.mark.parametrize("module", [Dense, Normed, Residual, Vmapped])
def test_every_kind_of_module(module):
    loop, stacked = (fit(DATA, module, engine) for engine in ("loop", "stacked"))
    assert loop.relabeled_mask_.any()
    assert stacked.engine_ == "stacked (asked for)"
    assert_close(loop, stacked, DATA[0], 1e-10)


@pytest.mark.parametrize(
    "params",
    [
        {"net": {"optimizer__momentum": 0.9, "optimizer__weight_decay": 0.01}},
        {"net": {"optimizer": torch.optim.Adam, "lr": 0.01}},
        {"net": {"callbacks": [GradientNormClipping(0.2)]}},
        {"participation": 0.5, "n_rounds": 6, "relabel_at": 2},
        {"sample_weight": WEIGHTS},
        {"sample_weight": WEIGHTS, "class_weight": "balanced", "client_weight": "uniform"},
        {"class_weight": {0: 0.5, 2: 4.0}, "lr_schedule": 0.5},
        {"algorithm": "local_only"},
        {"algorithm": "local_only", "participation": 0.5, "n_rounds": 4},
        {"validation": 0.3, "select": "best_validation"},
        {"relabel_every": 1, "relabel_posteriors": {"mode": "train", "passes": 2}},
        {"engine": Stacked(chunk_size=2)},
        {"module": Normed, "sample_weight": WEIGHTS + 1, "participation": 0.7, "validation": 0.2},
    ],
    ids=range(13),
)
def test_every_setting(params):
    loop = fit(DATA, **(params | {"engine": "loop"}))
    stacked = fit(DATA, **({"engine": "stacked"} | params))
    assert loop.relabeled_mask_.any()
    assert_close(loop, stacked, DATA[0], 1e-10)


def test_very_ragged_clients():
    data = make_rows((4000, 1, 3, 65))
    loop, stacked = (
        fit(data, Dense, engine, net={"optimizer__momentum": 0.9}) for engine in ("loop", "stacked")
    )
    assert_close(loop, stacked, data[0], 1e-10)


class Single(Residual):
    def __init__(self):
        super().__init__()
        self.float()


def test_float32_agrees_for_one_round():
    loop, stacked = (fit(DATA, Single, engine, n_rounds=1) for engine in ("loop", "stacked"))
    assert stacked.net_.module_.first.weight.dtype == torch.float32
    assert_close(loop, stacked, DATA[0], 1e-5)


@pytest.mark.parametrize(
    ("layers", "why"),
    [
        ([nn.Linear(N_FEATURES, N_CLASSES)], "direct"),
        ([nn.Linear(N_FEATURES, 6), nn.ReLU(), nn.Linear(6, N_CLASSES)], "direct"),
        ([nn.Linear(N_FEATURES, 6), nn.SiLU(), nn.Dropout(0.2), nn.Linear(6, N_CLASSES)], "direct"),
        ([nn.Linear(N_FEATURES, 6), nn.LayerNorm(6), nn.Tanh(), nn.Linear(6, N_CLASSES)], "direct"),
        ([nn.Linear(N_FEATURES, 6), nn.BatchNorm1d(6), nn.Linear(6, N_CLASSES)], "direct"),
        ([nn.Flatten(), nn.Linear(N_FEATURES, N_CLASSES)], "direct"),
        ([Residual().float()], "direct"),
        ([Vmapped().float()], "vmap"),
    ],
)
def test_auto_stacks_the_modules_it_should(layers, why):
    fed = fit(DATA, nn.Sequential(*layers), "auto", n_rounds=2)
    assert fed.engine_ == f"stacked ({why}, a small net)"


def test_auto_leaves_the_rest_to_the_loop_and_says_why():
    class Across(Dense):
        def forward(self, x):
            return super().forward(x - x.mean(0))

    fed = fit(DATA, Across, "auto", n_rounds=1)
    assert fed.engine_.startswith(
        "loop ('mean' in its forward pass has no known stacked form; under vmap: its output"
    )
    with pytest.raises(NetError, match=r"'mean' in its forward pass .*Use engine='loop', or 'auto'"):
        fit(DATA, Across, "stacked")


# --- the same bits --------------------------------------------------------------------------------------


def assert_same(one, other, rows=slice(None)):
    """Bit for bit the same federation; `rows` says where the rows of `one` are in `other`."""
    X = DATA[0]
    np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))
    np.testing.assert_array_equal(one.y_relabeled_, other.y_relabeled_[rows])
    assert history_of(one) == history_of(other)
    assert [(r.train_loss, r.participants) for r in one.history_] == [
        (r.train_loss, r.participants) for r in other.history_
    ]
    assert one.engine_ == other.engine_


BITS = {
    "loop": {"engine": "loop"},
    "stacked": {"engine": Stacked(chunk_size=3)},
    "drawing": {"engine": Stacked(chunk_size=3), "module": Dropped, "validation": 0.2},
    "drawing loop": {"engine": "loop", "module": Dropped, "participation": 0.6},
    "kept": {
        "engine": Stacked(chunk_size=3),
        "algorithm": "local_only",
        "participation": 0.6,
        "n_rounds": 4,
    },
    "weights": {
        "engine": "stacked",
        "sample_weight": WEIGHTS,
        "class_weight": "balanced",
        "relabel_every": 1,
    },
    "recorded": {
        "engine": Stacked(chunk_size=3),
        "relabel_posteriors": {"passes": "training"},
        "participation": 0.8,
        "n_rounds": 4,
    },
    "recorded loop": {"engine": "loop", "module": Dropped, "relabel_posteriors": {"passes": "training"}},
}


@pytest.mark.parametrize("params", BITS.values(), ids=BITS)
def test_workers_that_are_threads_change_nothing(params):
    alone = fit(DATA, **params)
    assert alone.relabeled_mask_.any()
    with joblib.parallel_config("threading"):
        for n_jobs in (1, 2, 4):
            assert_same(alone, fit(DATA, n_jobs=n_jobs, **params))


class Reports(FedAvg):
    """FedAvg whose clients report their process and its torch threads."""

    seen = []

    def client_finish(self, params, local, run):
        place = torch.tensor([os.getpid(), torch.get_num_threads()], dtype=torch.float64)
        return params | {"place": place}, local.state

    def server_aggregator(self):
        return Places()

    def server_step(self, params, aggregated, server_state, facts):
        return {name: aggregated[name] for name in params}, server_state


class Places(WeightedMean):
    """Keeps what was reported, in this process."""

    def add(self, tensors, weight):
        Reports.seen.append(tuple(tensors["place"].long().tolist()))
        super().add(tensors, weight)

    def add_stack(self, stacks, weights):
        Reports.seen.extend(map(tuple, stacks["place"].long().tolist()))
        super().add_stack(stacks, weights)


@pytest.fixture
def two_threads():
    with torch_threads(2):
        yield


def places_of(**params):
    """(processes, numbers of torch threads) in which the clients of a fit trained."""
    Reports.seen = []
    fit(DATA, algorithm=Reports(), n_rounds=1, **params)
    processes, threads = map(set, zip(*Reports.seen, strict=True))
    return processes, threads


def test_threads_of_workers_are_those_that_the_fit_settled(two_threads):
    for params in (BITS["loop"], BITS["stacked"]):
        with joblib.parallel_config("threading"):
            assert places_of(**params) == places_of(n_jobs=2, **params) == ({os.getpid()}, {1})
            large = params | {"net": {"batch_size": 10**6}}  # no longer tiny: torch's own number stays
            assert places_of(**large) == places_of(n_jobs=2, **large) == ({os.getpid()}, {2})
    assert torch.get_num_threads() == 2


def test_workers_that_are_processes_change_nothing(tmp_path, monkeypatch, two_threads):
    """One pool for all of it; a module of this function's own; no temporary file stays, not after an error either."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    class Own(Dropped):
        pass

    with joblib.parallel_config("loky"):
        for params in BITS.values():
            params = params | ({"module": Own} if params.get("module") is Dropped else {})
            assert_same(fit(DATA, **params), fit(DATA, n_jobs=2, **params))
        assert_same(fit(DATA, **BITS["weights"]), fit(DATA, n_jobs=4, **BITS["weights"]))
        processes, threads = places_of(n_jobs=2, **BITS["stacked"])
        assert os.getpid() not in processes
        assert threads == {1}
        assert places_of(n_jobs=2, engine="loop", net={"batch_size": 10**6})[1] == {2}
        X, y, groups = DATA
        X = np.where((groups == 5)[:, None], 1e200 * X, X)
        with pytest.raises(NotFiniteError, match=r"of client 5 in round 0 is .*Lower the learning rate"):
            fit((X, y, groups), engine="loop", n_jobs=2)
    assert not list(tmp_path.glob("fedrela_sk_*"))


@pytest.mark.parametrize("params", BITS.values(), ids=BITS)
def test_the_order_of_the_clients_rows_changes_nothing(params):
    """Rows are shuffled over the table, each client's own stay in their order."""
    X, y, groups = DATA
    places = np.random.default_rng(5).permutation(groups)
    order = np.empty(len(y), dtype=int)  # order[i]: the row that now stands in place i
    for group in np.unique(groups):
        order[places == group] = np.flatnonzero(groups == group)
    moved = params | ({"sample_weight": params["sample_weight"][order]} if "sample_weight" in params else {})
    one, other = fit(DATA, **params), fit((X[order], y[order], groups[order]), **moved)
    assert_same(one, other, np.argsort(order))


def test_a_second_fit_gives_the_same(tmp_path):
    for params in BITS.values():
        fed = fit(DATA, **params)
        first = fed.predict_proba(DATA[0])
        fed.fit(DATA[0], DATA[1], groups=DATA[2], sample_weight=params.get("sample_weight"))
        np.testing.assert_array_equal(fed.predict_proba(DATA[0]), first)
