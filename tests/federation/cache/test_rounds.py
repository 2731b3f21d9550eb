"""`memory`: training up to the relabel round happens once, and nobody can tell by the results."""

import os
from pathlib import Path

import joblib
import numpy as np
import pytest
import torch
from sklearn.model_selection import GridSearchCV, KFold, PredefinedSplit, StratifiedKFold

from fedrela_sk import FedReLaRelabeler
from fedrela_sk.algorithms import Algorithm, Broadcast, FedAvg
from fedrela_sk.federation.cache import _rounds as room
from fedrela_sk.training import Loop, Stacked
from tests.federation.helpers import Logits, WithBatchNorm, make_fed, make_net, make_rows

X, Y = make_rows(90)
WEIGHTS = np.random.default_rng(0).integers(1, 4, len(X)).astype(float)


class Counted(FedAvg):
    """FedAvg that leaves a line in a file for every round."""

    def __init__(self, log=None):
        super().__init__()
        self.log = log

    def server_aggregator(self):
        with open(self.log, "a") as file:
            file.write("round\n")
        return super().server_aggregator()


class Remembers(Algorithm):
    """State at the server and at the clients; the sum over names would show their order."""

    def server_broadcast(self, server_state):
        return Broadcast(every_round=server_state)

    def server_init(self, params, job=None):
        return {name: torch.zeros((), dtype=torch.float64) for name in ("z", "a", "m")}

    def client_init(self, params):
        return {name: torch.zeros((), dtype=torch.float64) for name in ("z", "a", "m")}

    def client_correct(self, grads, params, local):
        pull = sum(local.state.values()) + sum(local.server.values())
        return {name: grad + 0.01 * pull for name, grad in grads.items()}

    def client_finish(self, params, local, run):
        moved = sum((params[name] - local.anchor[name]).sum() for name in params)
        state = {name: own + moved / 3**i for i, (name, own) in enumerate(local.state.items())}
        return params | {"moved": moved}, state

    def server_step(self, params, aggregated, server_state, facts):
        moved = aggregated.pop("moved")
        return aggregated, {name: own + moved / 7**i for i, (name, own) in enumerate(server_state.items())}


def make(memory=None, net=None, **params):
    """Relabels before the third of four rounds; batches of 10, shuffled."""
    net = make_net(batch_size=10, iterator_train__shuffle=True) if net is None else net
    defaults = {"n_rounds": 4, "relabel_at": 2, "relabeler": FedReLaRelabeler(0.2), "memory": memory}
    return make_fed(net, **(defaults | params))


def fit(memory=None, X=X, y=Y, groups=None, sample_weight=None, **params):
    return make(memory, **params).fit(X, y, groups=groups, sample_weight=sample_weight)


def entries(folder):
    return sorted(file.stem for file in Path(folder).glob("*.json"))


def history_of(fed):
    """All that the history says but the time."""
    records = [{k: v for k, v in record.as_dict().items() if k != "seconds"} for record in fed.history_]
    return str(records), fed.history_.notes


def assert_same(one, other):
    """Bit for bit the same fit."""
    np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))
    np.testing.assert_array_equal(one.y_relabeled_, other.y_relabeled_)
    assert history_of(one) == history_of(other)
    assert one.engine_ == other.engine_
    report, again = one.relabel_report().to_frame(), other.relabel_report().to_frame()
    assert report.equals(again)


# --- the same results -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"engine": "stacked"},
        {"net": make_net(WithBatchNorm, batch_size=10, optimizer__momentum=0.9), "engine": "stacked"},
        {"algorithm": "local_only", "participation": 0.5},
        {"algorithm": Remembers()},
        {"algorithm": Remembers(), "engine": Stacked(2), "participation": 0.7},
        {"validation": 0.3, "select": "best_validation"},
        {"validation": 0.3, "select": "best_validation", "algorithm": "local_only"},
        {
            "sample_weight": WEIGHTS,
            "class_weight": "balanced",
            "lr_schedule": 0.5,
            "client_weight": "uniform",
        },
        {"participation": 0.3, "relabel_every": 1, "n_rounds": 6},
        {"groups": np.repeat(["b", "a", "c"], 30), "clients": None},
    ],
    ids=range(11),
)
def test_results_are_the_same_bit_for_bit(tmp_path, params):
    plain, first, second = (fit(memory, **params) for memory in (None, tmp_path, tmp_path))
    assert plain.relabeled_mask_.any()
    assert len(entries(tmp_path)) == 1
    assert_same(plain, first)
    assert_same(plain, second)


def test_the_best_round_may_lie_in_what_was_stored(tmp_path):
    """The rate grows until training falls apart: the best round is one of the first two."""
    params = {"validation": 0.3, "select": "best_validation", "lr_schedule": 300.0}
    plain, first, second = (fit(memory, **params) for memory in (None, tmp_path, tmp_path))
    assert "lies before the relabel round 2" in plain.history_.notes[-1]
    assert_same(plain, first)
    assert_same(plain, second)


# --- what hits and what misses --------------------------------------------------------------------------

HITS = {
    "tau": {"relabeler": FedReLaRelabeler(0.01)},
    "relabeler": {
        "relabeler": FedReLaRelabeler(0.3, threshold="order_statistic", target="argmax_of_successes")
    },
    "posteriors": {"relabel_posteriors": {"passes": 2, "mode": "train"}},
    "refresh": {"relabel_every": 1},
    "rounds": {"n_rounds": 7},
    "the same round as a share": {"relabel_at": 0.5},
    "workers": {"n_jobs": 2},
    "verbose": {"verbose": 1},
    "weights that are all one": {"sample_weight": np.ones(90)},
    "the same rows from a splitter": {"clients": PredefinedSplit(np.arange(90) // 30)},
}


def shifted(array, row, step):
    copy = array.copy()
    copy.flat[row] += step
    return copy


class OtherLogits(Logits):
    """The same net under another name."""


MISSES = {
    "one number": {"X": shifted(X, 100, 1e-9)},
    "one label": {"y": np.where(np.arange(90) == 50, (Y + 1) % 3, Y)},
    "all weights": {"sample_weight": np.full(90, 2.0)},
    "one weight": {"sample_weight": shifted(np.ones(90), 50, 1.0)},
    "one row less": {"X": X[:-1], "y": Y[:-1]},
    "names of classes": {"y": Y + 1},
    "seed": {"random_state": 1},
    "clients": {"clients": KFold(4)},
    "names of clients": {"clients": None, "groups": np.arange(90) // 30 + 5},
    "relabel round": {"relabel_at": 3},
    "participation": {"participation": 0.5},
    "client weight": {"client_weight": "uniform"},
    "class weight": {"class_weight": {0: 2.0}},
    "rate": {"lr_schedule": 0.5},
    "validation": {"validation": 0.2},
    "other validation": {"validation": 0.3},
    "selection": {"validation": 0.2, "select": "best_validation"},
    "posteriors recorded in training": {"relabel_posteriors": {"passes": "training"}},
    "algorithm": {"algorithm": "local_only"},
    "algorithm's parameters": {"algorithm": Counted(os.devnull)},
    "engine": {"engine": "stacked"},
    "chunk size": {"engine": Stacked(2)},
    "precision": {"engine": Stacked(2, precision="bf16")},
} | {
    f"net: {name}": {"net": make_net(**({"batch_size": 10, "iterator_train__shuffle": True} | changes))}
    for name, changes in {
        "module": {"module": OtherLogits},
        "dtype": {"module__dtype": torch.float32},
        "instance": {"module": Logits()},
        "lr": {"lr": 0.2},
        "batch size": {"batch_size": 11},
        "order": {"iterator_train__shuffle": False},
        "epochs": {"max_epochs": 2},
        "optimizer": {"optimizer": torch.optim.Adam},
        "momentum": {"optimizer__momentum": 0.9},
        "smoothing": {"criterion__label_smoothing": 0.1},
        "class tensor": {"criterion__weight": torch.ones(3, dtype=torch.float64)},
        "other class tensor": {"criterion__weight": torch.tensor([1.0, 2.0, 1.0], dtype=torch.float64)},
    }.items()
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder that holds the entry of the fit without changes."""
    folder = tmp_path_factory.mktemp("memory")
    fit(folder, clients=KFold(3))
    assert len(entries(folder)) == 1
    return folder


@pytest.mark.parametrize("changes", HITS.values(), ids=HITS)
def test_what_matters_after_the_relabel_round_alone_hits(folder, changes, monkeypatch):
    before = entries(folder)
    monkeypatch.setattr(room, "write_state", None)
    with joblib.parallel_config("threading"):
        found = fit(folder, **({"clients": KFold(3)} | changes))
    assert entries(folder) == before
    assert_same(found, fit(**({"clients": KFold(3)} | changes | {"n_jobs": None})))


def test_whatever_matters_before_it_misses(folder):
    before, seen = set(entries(folder)), {}
    for name, changes in MISSES.items():
        fit(folder, **({"clients": KFold(3)} | changes))
        new = set(entries(folder)) - before
        assert len(new) == 1, name
        seen[name] = new.pop()
        before = set(entries(folder))
    assert len(set(seen.values())) == len(MISSES)


class Own(Loop):
    """An engine of the user's own, with a setting."""

    def __init__(self, depth=1):
        self.depth = depth


def test_an_engine_of_the_users_own_counts_with_its_settings(tmp_path):
    for engine in ("loop", Own(), Own(2)):
        before = len(entries(tmp_path))
        for _ in range(2):
            fit(tmp_path, engine=engine)
            assert len(entries(tmp_path)) == before + 1
    fit(tmp_path, engine=Loop())
    assert len(entries(tmp_path)) == 3


def test_validation_rows_count(tmp_path):
    for X_val, y_val in (
        (X[:10], Y[:10]),
        (X[:11], Y[:11]),
        (shifted(X[:10], 3, 1.0), Y[:10]),
        (X[:10], Y[1:11]),
    ):
        before = len(entries(tmp_path))
        for _ in range(2):
            make(tmp_path).fit(X, Y, X_val=X_val, y_val=y_val)
            assert len(entries(tmp_path)) == before + 1


def test_without_a_relabel_round_nothing_is_stored(tmp_path):
    fit(tmp_path / "never", relabeler=None)
    fit(tmp_path / "never", relabel_at=4)
    assert not (tmp_path / "never").exists()


# --- a search -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("backend", "n_jobs"), [("threading", 1), ("threading", 2), ("threading", 4), ("loky", 2)]
)
def test_a_search_trains_one_prefix_per_fold_and_one_for_its_refit(tmp_path, backend, n_jobs):
    """One that is in the making is waited for."""
    taus, n_folds = [0.0, 0.05, 0.1, 0.2], 2
    log = tmp_path / "log"
    fed = make(tmp_path / "memory", algorithm=Counted(str(log)), n_rounds=5, relabel_at=4)
    with joblib.parallel_config(backend):
        search = GridSearchCV(fed, {"relabeler__tau": taus}, cv=StratifiedKFold(n_folds), n_jobs=n_jobs).fit(
            X, Y
        )
    assert len(entries(tmp_path / "memory")) == n_folds + 1
    n_fits = n_folds * len(taus) + 1
    assert len(log.read_text().splitlines()) == 4 * (n_folds + 1) + 1 * n_fits
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_what_is_no_folder_is_refused():
    with pytest.raises(ValueError, match=r"'memory' parameter .* Got 5"):
        fit(5)


def test_the_log_says_what_came_from_memory(folder, caplog):
    with caplog.at_level("INFO", "fedrela_sk"):
        fit(folder, clients=KFold(3), verbose=1)
    assert caplog.messages[0] == "rounds 1 to 2 from memory"
    assert [message.split(",")[0] for message in caplog.messages[1:]] == ["round 3/4", "round 4/4"]
