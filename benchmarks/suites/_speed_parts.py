"""The parts of the speed suite that measure this package alone; each runs in a process of its own."""

import json
import resource
import subprocess
import sys
import tempfile
import time
from itertools import pairwise

import numpy as np
import torch

from benchmarks.peers import job as J
from benchmarks.suites._relabel_job import many_clients
from benchmarks.suites._relabel_rows import relabel_rows


def _median_seconds(function, times=5):
    """Median over `times` calls after one that warms up."""
    function()
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - start)
    return float(np.median(seconds))


def gemm():
    """A round of `even` against its bare batched products: forward, gradients of weights and of inputs."""
    from benchmarks.peers.ours import fit

    torch.set_num_threads(1)
    sizes, batch, n_steps = (30, 64, 32, 2), 32, 16
    found = {}
    for n in (50, 100):
        pairs = list(pairwise(sizes))
        inputs = [torch.randn(n, batch, i) for i, _ in pairs]
        weights = [torch.randn(n, i, o) for i, o in pairs]
        outputs = [torch.randn(n, batch, o) for _, o in pairs]

        def products(inputs=inputs, weights=weights, outputs=outputs, n=n):
            for _ in range(n_steps * J.N_CLIENTS // n):
                for layer, (x, w, g) in enumerate(zip(inputs, weights, outputs, strict=True)):
                    torch.bmm(x, w)
                    torch.bmm(x.transpose(1, 2), g)
                    if layer:
                        torch.bmm(g, w.transpose(1, 2))

        found[f"stacks of {n}"] = _median_seconds(products, 9)
    _, marks = fit("even", 11, 1, "stacked")
    ours = float(np.median(np.diff(marks)[1:]))
    best = min(found.values())
    return {"products_s": found, "round_s": ours, "ratio": ours / best}


def grid():
    """A grid of 8 taus and 3 folds with and without `memory`."""
    from sklearn.datasets import make_classification
    from sklearn.model_selection import GridSearchCV, StratifiedKFold

    from fedrela_sk import DirichletSplit, FederatedClassifier, FedReLaRelabeler

    X, y = make_classification(6_000, 30, weights=[0.95], n_informative=8, random_state=0)
    taus = [0, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2]

    def search(memory, taus=taus):
        classifier = FederatedClassifier(
            clients=DirichletSplit(40, alpha=0.3, random_state=0),
            relabeler=FedReLaRelabeler(),
            relabel_at=0.8,
            n_rounds=25,
            memory=memory,
            random_state=0,
        )
        search = GridSearchCV(
            classifier, {"relabeler__tau": taus}, cv=StratifiedKFold(3), scoring="balanced_accuracy"
        )
        start = time.perf_counter()
        search.fit(X, y)
        return time.perf_counter() - start, search.cv_results_["mean_test_score"]

    search(None, taus[:1])  # warms up
    pairs = []
    for _ in range(3):
        without, scores = search(None)
        with tempfile.TemporaryDirectory() as folder:
            with_memory, cached_scores = search(folder)
        if not np.array_equal(scores, cached_scores):
            raise RuntimeError("scores with and without memory differ")
        pairs.append((without, with_memory))
    ratios = [with_memory / without for without, with_memory in pairs]
    return {"seconds": pairs, "ratio": float(np.median(ratios))}


def relabel():
    """Relabelling against the row-by-row algorithm and against one tanh over the whole matrix."""
    from fedrela_sk import FedReLaRelabeler

    torch.set_num_threads(1)
    found = {}
    for n_rows, n_classes, times in ((50_000, 100, 5), (1_000_000, 10, 5)):
        stream = np.random.default_rng(0)
        share = 0.01 ** (np.arange(n_classes) / (n_classes - 1))
        y = stream.choice(n_classes, n_rows, p=share / share.sum())
        Q = stream.dirichlet(np.full(n_classes, 0.3), n_rows)
        Q[np.arange(n_rows), y] += 1
        Q /= Q.sum(1, keepdims=True)
        uniforms = stream.random(Q.shape)
        relabeler = FedReLaRelabeler(0.05, classes=np.arange(n_classes), random_state=0)

        def ours(relabeler=relabeler, Q=Q, y=y, uniforms=uniforms):
            return relabeler.fit(Q, y).relabel(Q, y, uniforms=uniforms)

        start = time.perf_counter()
        expected = relabel_rows(Q, y, 0.05, uniforms)
        rows_s = time.perf_counter() - start
        ours_s, tanh_s = _median_seconds(ours, times), _median_seconds(lambda Q=Q: np.tanh(Q), times)
        found[f"{n_rows} x {n_classes}"] = {
            "ours_s": ours_s,
            "rows_s": rows_s,
            "tanh_s": tanh_s,
            "faster_than_rows": rows_s / ours_s,
            "times_tanh": ours_s / tanh_s,
            "labels_that_differ": int((expected != ours()).sum()),
            "relabeled": int((expected != y).sum()),
        }
    return found


def clients():
    """Relabelling of many clients in one pass against one relabeler a client; posteriors are given."""
    from fedrela_sk import FedReLaRelabeler
    from fedrela_sk.federation.relabeling._all_clients import relabel_together
    from fedrela_sk.federation.relabeling._one_client import RelabelStep
    from fedrela_sk.relabel.many._pass import ManyRows

    found = []
    for n_clients, n_rows, n_classes in ((9_946, 100, 2), (50, 1_000, 10)):
        Q, y, specs = many_clients(n_clients, n_rows, n_classes)
        step, pairs = RelabelStep(FedReLaRelabeler(0.05), np.arange(n_classes), 0, {}, 1), []
        rows = ManyRows(Q, y, y, np.array([len(spec.rows) for spec in specs]))
        for _ in range(4):  # the first warms up
            start = time.perf_counter()
            alone = [step.relabel(Q[spec.rows], y[spec.rows], spec, 0) for spec in specs]
            middle = time.perf_counter()
            together = relabel_together(step, specs, 0, rows)
            pairs.append((middle - start, time.perf_counter() - middle))
        theirs, ours = (np.concatenate([result.codes for result in done]) for done in (alone, together))
        alone_s, together_s = np.median(pairs[1:], axis=0).tolist()
        found.append(
            {
                "clients": n_clients,
                "rows": len(y),
                "classes": n_classes,
                "alone_s": alone_s,
                "together_s": together_s,
                "ratio": float(np.median([a / b for a, b in pairs[1:]])),
                "labels_that_differ": int((ours != theirs).sum()),
                "relabeled": int((ours != y).sum()),
            }
        )
    return found


def _payments(n_rows):
    from fedrela_sk.datasets import make_payments

    data = make_payments(n_rows, random_state=0)
    X = np.asarray(data.data, dtype=np.float32)
    X = (X - X.mean(0)) / (X.std(0) + 1e-6)
    X = np.hstack([X, np.tanh(X)])  # 30 columns
    return X, np.asarray(data.target), np.asarray(data.customer)


def scale_one(n_rows, n_clients):
    """Seconds per round and peak memory of one size; clients are groups of customers."""
    from skorch import NeuralNetClassifier
    from torch import nn

    from benchmarks.peers.ours import Clock
    from fedrela_sk import FederatedClassifier
    from fedrela_sk.nets import MLP
    from fedrela_sk.training import Stacked

    torch.set_num_threads(1)
    X, y, customer = _payments(n_rows)
    groups = customer % n_clients
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    net = NeuralNetClassifier(
        MLP,
        module__n_features=X.shape[1],
        module__n_classes=2,
        criterion=nn.CrossEntropyLoss,
        lr=0.05,
        batch_size=32,
        max_epochs=1,
        iterator_train__shuffle=True,
    )
    clock = Clock()
    classifier = FederatedClassifier(
        net, clients=None, n_rounds=6, engine=Stacked(chunk_size=1000), random_state=0
    ).set_callbacks(clock)
    classifier.fit(X, y, groups=groups)
    return {
        "rows": n_rows,
        "clients": len(np.unique(groups)),
        "columns": X.shape[1],
        "round_s": float(np.median(np.diff(clock.marks)[1:])),
        "before_gib": before,
        "peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


def scale():
    """1x, 3x and 10x rows and clients, each in a process of its own."""
    found = []
    for n_rows in (100_000, 300_000, 1_000_000):
        command = [sys.executable, "-m", "benchmarks.suites._speed_parts", "scale_one", str(n_rows)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        line = next(line for line in done.stdout.splitlines() if line.startswith("RESULT "))
        found.append(json.loads(line.removeprefix("RESULT ")))
    return found


def flat():
    """Memory over 1,000 rounds of a small job."""
    from sklearn.datasets import make_classification

    from fedrela_sk import FederatedClassifier

    X, y = make_classification(600, random_state=0)
    seen = []

    class Memory:
        def setup(self, estimator, context):
            pass

        def teardown(self, estimator, context):
            pass

        def on_fit_task_begin(self, estimator, context):
            pass

        def on_fit_task_end(self, estimator, context):
            if context.task_name == "round":
                with open("/proc/self/statm", encoding="ascii") as file:
                    seen.append(int(file.read().split()[1]) * resource.getpagesize() / 2**20)

    start = time.perf_counter()
    FederatedClassifier(clients=10, n_rounds=1000, random_state=0).set_callbacks(Memory()).fit(X, y)
    first, last = float(np.median(seen[:100])), float(np.median(seen[-100:]))
    return {"first_100_mib": first, "last_100_mib": last, "seconds": time.perf_counter() - start}


def fixed():
    """What a small fit and the import cost."""
    from sklearn.datasets import make_classification

    from fedrela_sk import FederatedClassifier

    X, y = make_classification(150, random_state=0)
    small = _median_seconds(lambda: FederatedClassifier(n_rounds=5, random_state=0).fit(X, y), 9)
    code = (
        "import time; a = time.perf_counter(); import sklearn; b = time.perf_counter(); "
        "import fedrela_sk; c = time.perf_counter(); print(b - a, c - b)"
    )
    runs = [
        [float(text) for text in done.stdout.split()]
        for done in (
            subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
            for _ in range(7)
        )
    ]
    alone, added = np.median(runs, axis=0).tolist()
    torch_free = subprocess.run(
        [sys.executable, "-c", "import fedrela_sk, sys; sys.exit('torch' in sys.modules)"], check=False
    )
    return {
        "fit_5_rounds_150_rows_s": small,
        "import_sklearn_s": alone,
        "added_ms": 1000 * added,
        "imports_torch": bool(torch_free.returncode),
    }


if __name__ == "__main__":
    name, *rest = sys.argv[1:]
    if name == "scale_one":
        answer = scale_one(int(rest[0]), int(rest[0]) // 100)
    else:
        answer = {
            "gemm": gemm,
            "grid": grid,
            "relabel": relabel,
            "clients": clients,
            "scale": scale,
            "flat": flat,
            "fixed": fixed,
        }[name]()
    print("RESULT " + json.dumps(answer))
