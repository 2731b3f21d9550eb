"""Parity, speed and memory on one GPU, in a few minutes: ``python -m benchmarks.gpu_check``.

Prints one Markdown table and writes ``benchmarks/results/gpu_check.md``. Without a GPU it says so and writes
nothing.
"""

import sys
import time
from pathlib import Path

import numpy as np
import torch
from skorch import NeuralNetClassifier
from torch import nn

from benchmarks.peers import job as J
from benchmarks.suites._machine import facts_of_run
from benchmarks.suites._markdown import table
from benchmarks.suites._relabel_job import many_clients
from fedrela_sk import FederatedClassifier, FedReLaRelabeler
from fedrela_sk.federation.relabeling._all_clients import relabel_together
from fedrela_sk.federation.relabeling._one_client import RelabelStep
from fedrela_sk.relabel.many._pass import ManyRows
from fedrela_sk.training import Stacked

# clients, mean rows of each, classes
RELABELINGS = ((9_946, 100, 2), (50, 1_000, 10), (100, 5_000, 100))
RESULT = Path(__file__).parent / "results" / "gpu_check.md"


def fit(job, engine, device, rounds, dtype=torch.float32, relabeler=None):
    """(fitted classifier, median seconds a round without the first, peak GPU memory in MiB)."""
    parts, _ = J.data(job)
    X = np.concatenate([X.numpy() for X, _ in parts])
    y = np.concatenate([y.numpy() for _, y in parts])
    groups = np.repeat(np.arange(len(parts)), [len(y) for _, y in parts])
    net = NeuralNetClassifier(
        J.model(job).to(dtype),
        criterion=nn.CrossEntropyLoss,
        lr=J.LR,
        batch_size=J.BATCH[job],
        max_epochs=1,
        device=device,
    )
    torch.cuda.reset_peak_memory_stats()
    classifier = FederatedClassifier(
        net, clients=None, n_rounds=rounds, engine=engine, relabeler=relabeler, relabel_at=0.5, random_state=0
    ).fit(X, y, groups=groups)
    seconds = classifier.history_.column("seconds")[1:]
    return classifier, float(np.median(seconds)), torch.cuda.max_memory_allocated() / 2**20


def difference(one, two):
    """Largest difference of two fits' global weights."""
    pairs = zip(one.net_.module_.parameters(), two.net_.module_.parameters(), strict=True)
    return max((a - b).abs().max().item() for a, b in pairs)


def relabeling(n_clients, n_rows, n_classes, device, times=3):
    """One relabelling of given posteriors: NumPy on the host against torch on `device`, where they lie.

    Returns
    -------
    found : dict
        Median seconds of both after a first time, changed labels, and labels in which the two differ.
    """
    Q, y, specs = many_clients(n_clients, n_rows, n_classes)
    step = RelabelStep(FedReLaRelabeler(0.05), np.arange(n_classes), 0, {}, 1)
    sizes = np.array([len(spec.rows) for spec in specs])
    labels, seconds = [], []
    for given in (Q, torch.from_numpy(Q).to(device)):
        took = []
        for _ in range(times + 1):
            start = time.perf_counter()
            done = relabel_together(step, specs, 0, ManyRows(given, y, y, sizes))
            took.append(time.perf_counter() - start)
        labels.append(np.concatenate([result.codes for result in done]))
        seconds.append(float(np.median(took[1:])))
    return {
        "rows": len(y),
        "host_s": seconds[0],
        "device_s": seconds[1],
        "relabelled": int((labels[0] != y).sum()),
        "different": int((labels[0] != labels[1]).sum()),
    }


def _engines():
    rows = []
    for job, rounds in (("even", 4), ("tab", 4), ("cnn", 3)):
        loop, seconds, peak = fit(job, "loop", "cuda", rounds)
        rows.append([job, "loop", f"{seconds:.4f}", f"{peak:.0f}", ""])
        for engine in (Stacked(), Stacked(chunk_size=100), Stacked(chunk_size=100, precision="bf16")):
            other, seconds, peak = fit(job, engine, "cuda", rounds)
            apart = f"{difference(loop, other):.2e}"
            rows.append([job, str(engine), f"{seconds:.4f}", f"{peak:.0f}", apart])
    return table(["job", "engine", "s a round", "peak MiB", "largest difference from the loop"], rows)


def _float64():
    loop, stacked = (
        fit("even", engine, "cuda", 6, torch.float64, FedReLaRelabeler(0.05))[0]
        for engine in ("loop", "stacked")
    )
    same = np.array_equal(loop.y_relabeled_, stacked.y_relabeled_)
    return (
        f"float64 with relabelling: largest difference {difference(loop, stacked):.2e}, "
        f"labels {'equal' if same else 'DIFFERENT'}, {int(loop.relabeled_mask_.sum())} relabelled.\n"
    )


def _relabelings():
    rows = []
    for n_clients, n_rows, n_classes in RELABELINGS:
        found = relabeling(n_clients, n_rows, n_classes, "cuda")
        seconds = [f"{found[name]:.3f}" for name in ("host_s", "device_s")]
        counts = [str(found[name]) for name in ("relabelled", "different")]
        rows.append([str(n_clients), str(found["rows"]), str(n_classes), *seconds, *counts])
    columns = ["clients", "rows", "classes", "host s", "GPU s", "relabelled", "labels that differ"]
    return "One relabelling of given posteriors, tau 0.05: NumPy on the host, torch on the GPU.\n\n" + table(
        columns, rows
    )


def main():
    if not torch.cuda.is_available():
        sys.exit("No GPU: nothing was checked and nothing was written.")
    began = time.perf_counter()
    facts = [torch.cuda.get_device_name(), *(f"{name} {value}" for name, value in facts_of_run().items())]
    parts = ["# GPU check\n", ", ".join(facts) + "\n", _engines(), _float64(), _relabelings()]
    parts.append(f"The whole check took {time.perf_counter() - began:.0f} s.\n")
    RESULT.write_text("\n".join(parts))
    print(RESULT.read_text())


if __name__ == "__main__":
    main()
