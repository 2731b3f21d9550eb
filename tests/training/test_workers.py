"""joblib workers: bit for bit what one process gives, and nothing left behind."""

import gc
import importlib.util
import mmap
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from dataclasses import replace
from pathlib import Path

import cloudpickle
import joblib
import numpy as np
import pytest
import torch
from joblib._parallel_backends import ThreadingBackend
from torch import nn

from fedrela_sk.algorithms import Algorithm, Broadcast, FedAvg
from fedrela_sk.exceptions import ClientError, NetError, NotFiniteError
from fedrela_sk.training import Instructions, LocalData, Loop, Stacked
from fedrela_sk.training import _workers as room
from fedrela_sk.training._threads import torch_threads
from fedrela_sk.training._workers import WorkerPool, _Message
from fedrela_sk.training.runtime import _shared
from fedrela_sk.training.runtime._shared import read_shared
from tests.training import nets

ROOT = Path(__file__).parents[2]
SIZES = (1, 2, 33, 70, 40, 31, 32, 65, 5, 12)
ENGINES = {"loop": Loop(), "stacked": Stacked(chunk_size=3)}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Where pools write; it must be empty after every test."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield tmp_path
    assert not list(tmp_path.glob("fedrela_sk_*"))


@pytest.fixture(autouse=True)
def one_thread():
    """Results are the same for one number of torch threads; workers use 1 unless told otherwise."""
    with torch_threads(1):
        yield


@pytest.fixture(params=ENGINES.values(), ids=ENGINES)
def settings(request):
    return request.param


class Dropped(nn.Sequential):
    def __init__(self):
        super().__init__(
            nn.Linear(nets.N_FEATURES, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, nets.N_CLASSES)
        )


class Everything(Algorithm):
    """Uses state at both ends, keeps a layer at its client, and reports where it ran."""

    def client_init(self, params):
        return {"visits": torch.zeros((), dtype=torch.float64)}

    def server_broadcast(self, server_state):
        return Broadcast(every_round=server_state)

    def server_init(self, params, job=None):
        return {"pull": torch.tensor(0.01, dtype=torch.float64)}

    def shared(self, names):
        return tuple(name for name in names if not name.startswith("0."))

    def client_penalty(self, params, local):
        moved = sum(((params[name] - local.anchor[name]) ** 2).sum() for name in params)
        return local.server["pull"] * (1 + local.state["visits"]) * moved

    def client_finish(self, params, local, run):
        where = torch.tensor([os.getpid(), torch.get_num_threads()])
        return params | {"where": where}, {"visits": local.state["visits"] + 1}

    def server_step(self, params, aggregated, server_state, facts):
        aggregated.pop("where")
        return params | aggregated, {"pull": 2 * server_state["pull"]}


def make(settings, module=Dropped, algorithm=None, n_jobs=None, n_threads=1, weighted=True, **params):
    """(engine or pool, net, clients) on the same job."""
    net = nets.make_net(module, **params)
    data, clients = nets.make_job(SIZES, weighted=weighted)
    engine = settings.start(net, data, algorithm or FedAvg(), nets.N_CLASSES, 0)
    if n_jobs is not None:
        engine = WorkerPool(engine, settings.start, n_jobs, n_threads)
    return engine, net, clients


def relabeled(clients):
    """The same clients with new labels."""
    return [(spec, rows, (y + 1) % nets.N_CLASSES, factors) for spec, rows, y, factors in clients]


def run(engine, net, clients, algorithm=None):
    """All that a few rounds leave: tensors, losses, updates. Clients come and go, labels change."""
    algorithm = algorithm or FedAvg()
    params = {name: tensor.clone() for name, tensor in nets.tensors_of(net.module_).items()}
    server, states, kept, trace = algorithm.server_init(params, None), {}, {}, []
    for round, here in enumerate((clients[:6], clients[3:], relabeled(clients), relabeled(clients)[::2])):
        tasks = [
            replace(task, params=params | kept.get(task.client.position, {}))
            for task in nets.make_tasks(here, params, states)
        ]
        updates = list(engine.train(tasks, Instructions(round, server, 0.9**round)))
        singles = [single for update in updates for single in update.singles()]
        states |= {s.client.position: s.state for s in singles if s.state}
        kept |= {s.client.position: s.kept for s in singles if s.kept}
        trace += [
            (s.client.key, s.loss, s.n_steps, s.weight, s.notes, s.tensors | s.kept | s.state)
            for s in singles
        ]
        params, server = nets.server_round(
            algorithm, updates, params, server, nets.facts_of(round, len(clients))
        )
    engine.close()
    return params, trace


def assert_same(one, other, but=("where",)):
    """Bit for bit the same tensors, losses and notes, in the same order."""
    assert list(one[0]) == list(other[0])
    assert all(torch.equal(one[0][name], other[0][name]) for name in one[0])
    assert [record[:5] for record in one[1]] == [record[:5] for record in other[1]]
    for *_, tensors in one[1]:
        assert all(torch.is_tensor(tensor) for tensor in tensors.values())
    for (*_, first), (*_, second) in zip(one[1], other[1], strict=True):
        assert first.keys() == second.keys()
        assert all(torch.equal(first[name], second[name]) for name in first.keys() - set(but))


@pytest.mark.parametrize("algorithm", [FedAvg(), Everything()], ids=["fedavg", "everything"])
def test_threads_give_what_one_process_gives(settings, algorithm):
    alone = run(*make(settings, algorithm=algorithm), algorithm)
    for n_jobs in (2, 4):
        with joblib.parallel_config("threading"):
            assert_same(alone, run(*make(settings, algorithm=algorithm, n_jobs=n_jobs), algorithm))


def test_processes_give_what_one_process_gives():
    """One pool for all of it: both engines, a module of this function's own, large weights, an error."""

    class Local(nn.Sequential):
        def __init__(self, units=8):
            super().__init__(
                nn.Linear(nets.N_FEATURES, units),
                nn.BatchNorm1d(units),
                nn.Dropout(0.5),
                nn.Linear(units, nets.N_CLASSES),
            )

    with joblib.parallel_config("loky"):
        for settings in ENGINES.values():
            alone = run(*make(settings, Local, Everything()), Everything())
            spread = run(*make(settings, Local, Everything(), 2), Everything())
            assert_same(alone, spread)
            places = torch.stack([tensors["where"] for *_, tensors in spread[1]])
            assert os.getpid() not in places[:, 0].tolist()
            assert set(places[:, 1].tolist()) == {1}
        # arrays over a megabyte are mapped by joblib, not sent
        many = {"module__units": 150_000, "max_epochs": 1, "batch_size": -1}
        pool, net, clients = make(Stacked(2), Local, n_jobs=2, **many)
        tasks = nets.make_tasks(clients[1:3], nets.tensors_of(net.module_))
        (update,) = pool.train(tasks, Instructions(0))
        (own,) = pool.engine.train(tasks, Instructions(0))
        assert all(torch.equal(update.tensors[name], own.tensors[name]) for name in own.tensors)
        assert update.tensors["0.weight"].numel() > 2**20
        pool.close()
        pool, net, clients = make(Loop(), Fails, n_jobs=2)
        tasks = nets.make_tasks(clients, nets.tensors_of(net.module_))
        with pytest.raises(
            ClientError, match=r"Client 3 failed in round 5: RuntimeError: 70 rows are too many"
        ):
            list(pool.train(tasks, Instructions(5)))
        pool.close()


class Fails(nn.Linear):
    """Does not like a client of 70 rows: its last batch has 6."""

    def __init__(self):
        super().__init__(nets.N_FEATURES, nets.N_CLASSES)

    def forward(self, x):
        if len(x) == 6:
            raise RuntimeError("70 rows are too many")
        return super().forward(x)


def test_an_error_in_a_worker_names_client_and_round(settings):
    with joblib.parallel_config("threading"):
        pool, net, clients = make(settings, nets.Dense, n_jobs=2, lr=1e200)
        with pytest.raises(NotFiniteError, match=r"client \d in round 7 is"):
            list(pool.train(nets.make_tasks(clients, nets.tensors_of(net.module_)), Instructions(7)))
        pool.close()


def test_workers_use_as_many_torch_threads_as_the_fit_settled(settings):
    for n_threads in (1, 3):
        with joblib.parallel_config("threading"):
            spread = run(*make(settings, algorithm=Everything(), n_jobs=2, n_threads=n_threads), Everything())
        assert {int(tensors["where"][1]) for *_, tensors in spread[1]} == {n_threads}


def test_a_round_may_be_left_early(settings):
    with joblib.parallel_config("threading"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "[0-9]+ tasks", UserWarning)  # joblib: some work was for nothing
        pool, net, clients = make(settings, n_jobs=2)
        arriving = pool.train(nets.make_tasks(clients, nets.tensors_of(net.module_)), Instructions(0))
        next(arriving)
        arriving.close()
        pool.close()


# --- what is written and sent ---------------------------------------------------------------------------


def test_rows_and_labels_are_written_when_they_are_new(folder):
    pool, net, clients = make(Loop(), n_jobs=2)
    versions, files = [], []

    def write(here):
        pool._write_layout(nets.make_tasks(here, nets.tensors_of(net.module_)))
        versions.append(pool._version)
        files.append(sorted(file.name for file in folder.glob("*/*")))

    write(clients[:4])
    write(clients[:4])
    write(clients[1:3])
    first = room._load_layout(pool._folder.path)
    write(clients[2:5])  # a new one
    write(clients[:5])  # all of them are known
    write(relabeled(clients[:1]))
    assert versions == [1, 1, 1, 2, 2, 3]
    assert len(set(map(tuple, files))) == 1
    layout = room._load_layout(pool._folder.path)
    assert sorted(layout) == [0, 1, 2, 3, 4]
    assert torch.equal(layout[0][2], relabeled(clients)[0][2])
    assert torch.equal(layout[1][2], clients[1][2])
    for position in range(4):  # what somebody still holds of a client does not move under them
        np.testing.assert_array_equal(first[position][0].rows, clients[position][0].rows)
    pool.close()


def test_a_message_holds_no_rows():
    net = nets.make_net(nets.Dense)
    sizes = []
    for n in (10, 10_000):
        _, clients = nets.make_job((n, n))
        tasks = nets.make_tasks(clients, nets.tensors_of(net.module_))
        sizes.append(len(pickle.dumps(_Message.of(tasks, Instructions(0)))))
    assert sizes[0] == sizes[1]
    n_numbers = sum(t.numel() for t in nets.tensors_of(net.module_).values())
    assert sizes[0] < 8 * n_numbers + 2000  # one model for both clients


def test_a_worker_holds_one_fit(monkeypatch):
    monkeypatch.setattr(room, "_held", {})
    pools = [make(Loop(), n_jobs=2)[0] for _ in range(2)]
    for pool in pools:
        held = room._load(pool._folder.path, (pool.token, 1))
        assert room._load(pool._folder.path, (pool.token, 1)) is held
        assert [token for token, _ in room._held.values()] == [(pool.token, 1)]
        assert torch.equal(held["engine"].data.X, pool.engine.data.X)
        assert held["engine"].data.X.data_ptr() != pool.engine.data.X.data_ptr()
        rows = pool.engine.data.X[:3] + 1
        pool.set_data(LocalData(rows))
        other = room._load(pool._folder.path, (pool.token, 2))
        assert torch.equal(other["engine"].data.X, rows)
        pool.close()


def test_threads_keep_nothing_of_a_fit(monkeypatch):
    """A thread that frees tensors while the interpreter ends aborts the process: nothing is its own."""
    monkeypatch.setattr(room, "_held", {})
    with joblib.parallel_config("threading"):
        pool, net, clients = make(Loop(), n_jobs=2)
        list(pool.train(nets.make_tasks(clients, nets.tensors_of(net.module_)), Instructions(0)))
    assert {token for token, _ in room._held.values()} == {(pool.token, 1)}
    pool.close()
    assert not room._held


def test_a_process_ends_after_the_units_of_its_threads():
    units, told = room._Underway(), []
    ending = threading.Thread(target=lambda: (units.end(), told.append("ended")))
    with units:
        ending.start()
        while not units._ending:
            time.sleep(0.01)
        with pytest.raises(RuntimeError, match="This process is ending"):
            units.__enter__()
        told.append("trained")
    ending.join()
    assert told == ["trained", "ended"]


class Locked(nn.Linear):
    """Holds something that cannot be sent."""

    def __init__(self):
        super().__init__(nets.N_FEATURES, nets.N_CLASSES)
        self.lock = threading.Lock()


def test_a_net_that_cannot_be_sent_is_an_error_and_leaves_nothing():
    with pytest.raises(
        NetError, match=r"cannot be sent to other processes \(TypeError.*lock.*Leave n_jobs at None"
    ):
        make(Loop(), Locked, n_jobs=2)


def test_cloudpickle_is_found_where_older_joblib_keeps_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    monkeypatch.setattr(joblib.externals, "cloudpickle", cloudpickle, raising=False)
    spec = importlib.util.spec_from_file_location("shared_again", _shared.__file__)
    again = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "shared_again", again)
    spec.loader.exec_module(again)
    assert again.cloudpickle is cloudpickle


def test_data_are_mapped_not_copied():
    pool, *_ = make(Loop(), n_jobs=2)
    X, _, weights, _, _ = read_shared(pool._folder.path, "data")
    for array in (X, weights):
        while isinstance(array.base, np.ndarray):
            array = array.base
        assert isinstance(array.base.obj, mmap.mmap)
    pool.close()


# --- one set of files, however often rows and labels change ----------------------------------------------------


def test_files_stay_as_many_and_as_large(folder):
    """Refreshes of `local_data` write new rows over the old ones."""
    pool, net, clients = make(Loop(), n_jobs=2)
    X = pool.engine.data.X
    sizes = []
    for version in range(6):
        pool.set_data(LocalData(torch.cat([X, X[: 50 - 7 * version] + version])))
        pool._write_layout(
            nets.make_tasks([relabeled(clients), clients][version % 2], nets.tensors_of(net.module_))
        )
        found = read_shared(pool._folder.path, "data")[0]
        np.testing.assert_array_equal(found, pool.engine.data.X.numpy())
        sizes.append(
            (len(list(folder.glob("*/*"))), sum(f.stat().st_size for f in folder.glob("*/*.arrays")))
        )
    assert len(set(sizes)) == 1
    pool.close()


def test_no_file_is_removed_or_cut_before_the_end(monkeypatch):
    """Windows refuses both while a worker holds the file mapped: here they are errors until `close`."""

    def refused(*args, **kwargs):
        raise PermissionError("a worker holds this file")

    honest = open

    def careful(file, mode="r", *args, **kwargs):
        if "w" in mode and os.path.exists(file) and str(file).endswith(".arrays"):
            refused()
        return honest(file, mode, *args, **kwargs)

    alone = run(*make(Loop(), algorithm=Everything()), Everything())
    pool, net, clients = make(Loop(), algorithm=Everything(), n_jobs=2)
    with monkeypatch.context() as patch, joblib.parallel_config("threading"):
        for name in ("remove", "unlink", "rename", "replace", "truncate"):
            patch.setattr(os, name, refused)
        patch.setattr(_shared, "open", careful, raising=False)
        patch.setattr(pool, "close", lambda: None)
        assert_same(alone, run(pool, net, clients, Everything()))
    pool.close()


def test_what_cannot_be_removed_is_blanked(folder, monkeypatch):
    """Windows again: a worker still holds a file when the fit ends. Its rows are gone all the same."""
    pool, *_ = make(Loop(), n_jobs=2)
    rows = pool.engine.data.X.numpy().tobytes()
    (file,) = folder.glob("*/data.arrays")
    assert rows in file.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", lambda *args, **kwargs: None)
        pool.close()
    left = list(folder.glob("*/*"))
    assert left
    assert all(set(file.read_bytes()) <= {0} for file in left)
    shutil.rmtree(file.parent)


# --- backends ----------------------------------------------------------------------------------------------------


class NoGenerators(ThreadingBackend):
    """As Ray's and older ones of Dask: `return_as="generator"` is an error with it."""

    supports_return_generator = False


class Ignorant(ThreadingBackend):
    """A backend that was written before joblib knew generators."""

    @property
    def supports_return_generator(self):
        raise AttributeError("supports_return_generator")


joblib.register_parallel_backend("no_generators", NoGenerators)


@pytest.mark.parametrize("backend", ["multiprocessing", "no_generators"])
def test_backends_without_generators_give_what_one_process_gives(settings, backend):
    alone = run(*make(settings, algorithm=Everything()), Everything())
    with joblib.parallel_config(backend):
        assert_same(alone, run(*make(settings, algorithm=Everything(), n_jobs=2), Everything()))


def test_a_backend_that_says_nothing_of_generators_returns_a_list(monkeypatch):
    monkeypatch.setattr(room, "get_active_backend", lambda: (Ignorant(nesting_level=0), 2))
    assert room._return_as() == "list"
    monkeypatch.undo()
    for backend, way in {"loky": "generator", "threading": "generator", "multiprocessing": "list"}.items():
        with joblib.parallel_config(backend):
            assert room._return_as() == way


# --- nothing stays -----------------------------------------------------------------------------------------------

JOB = """
import os, signal, sys, tempfile
import joblib, numpy as np
from tests.federation.helpers import make_fed, make_rows
from tests.training.test_workers import Ends

signal.signal(signal.SIGINT, signal.default_int_handler)  # processes in the background ignore it
tempfile.tempdir = sys.argv[1]
X, y = make_rows(60)
with joblib.parallel_config(sys.argv[2]):
    make_fed(algorithm=Ends(sys.argv[3], os.getpid()), n_jobs=2, n_rounds=3).fit(X, y)
"""


class Ends(FedAvg):
    """Ends the fit in its second round, one way or another, in the main process."""

    def __init__(self, how="error", pid=0):
        super().__init__()
        self.how, self.pid = how, pid

    def server_step(self, params, aggregated, server_state, facts):
        if facts.round == 1:
            assert list(Path(tempfile.gettempdir()).glob("fedrela_sk_*/data.arrays"))
            {"error": self.fail, "interrupt": self.interrupt, "exit": sys.exit}[self.how]()
        return super().server_step(params, aggregated, server_state, facts)

    def fail(self):
        raise ValueError("as it was asked to")

    def interrupt(self):
        os.kill(self.pid, signal.SIGINT)
        time.sleep(5)


@pytest.mark.parametrize(
    ("backend", "how"),
    [("loky", "interrupt"), ("multiprocessing", "interrupt"), ("threading", "error"), ("threading", "exit")],
)
def test_nothing_stays_in_the_temporary_folder(tmp_path, backend, how):
    """After an error, Ctrl-C and the end of the interpreter."""
    command = [sys.executable, "-c", JOB, str(tmp_path), backend, how]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert {"error": "as it was asked to", "interrupt": "KeyboardInterrupt", "exit": ""}[how] in done.stderr
    assert (done.returncode == 0) == (how == "exit")
    assert not list(tmp_path.glob("fedrela_sk_*"))


def test_a_crew_that_is_never_closed_leaves_nothing(folder):
    pool, *_ = make(Loop(), n_jobs=2)
    assert list(folder.glob("fedrela_sk_*"))
    del pool
    gc.collect()
    assert not list(folder.glob("fedrela_sk_*"))
