"""What the relabelling step costs (the paper's appendix B.1): ``python -m benchmarks.run cost``.

Long-tailed Fashion-MNIST over 40 clients and a small net, and long-tailed CIFAR-10 with a ResNet-8. CPU
seconds of one process, so that whoever else uses the machine counts little. The page is
``benchmarks/results/cost.md``.
"""

import argparse
import time
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import numpy as np
import torch

from benchmarks.suites._machine import facts_of_run
from benchmarks.suites._markdown import table
from benchmarks.suites.paper._data import images
from benchmarks.suites.paper._nets import make_net
from fedrela_sk import DirichletSplit, FederatedClassifier, FedReLaRelabeler
from fedrela_sk.federation._round import Round

RESULTS = Path(__file__).parents[1] / "results"
N_ROUNDS = 6
LABELS_AT = 20
WAYS = {
    "one pass, evaluation mode (the paper)": {},
    "five passes, training mode, augmented (released code)": {"passes": 5, "augment": True, "mode": "train"},
    "posteriors of the last local epoch": {"passes": "training"},
}
SGD = {"lr": 0.05, "momentum": 0.9, "weight_decay": 1e-5, "batch_size": 32}
JOBS = {
    "Fashion-MNIST-LT, small CNN": (
        ("fashion_mnist", "tail", 100, (), 6000, 1000),
        {"kind": "small_cnn", "widths": [8, 16], "hidden": 64},
        (2, 5),
    ),
    "CIFAR-10-LT, ResNet-8 (width 16)": (
        ("cifar10", "tail", 100, (), 500, 100),
        {"kind": "resnet8", "width": 16, "augment": True},
        (5,),
    ),
}


def federation(data, net, epochs, **params):
    """The federation that all ways to collect posteriors share."""
    return FederatedClassifier(
        make_net(net | SGD | {"epochs": epochs}, data),
        clients=DirichletSplit(40, alpha=0.3, random_state=0),
        random_state=0,
        **params,
    )


@contextmanager
def steps_timed():
    """CPU seconds of every relabelling step inside: the own step of a round is wrapped."""
    seconds, step = [], Round.relabel

    def timed(self, *args):
        began = time.process_time()
        relabeled = step(self, *args)
        if relabeled:
            seconds.append(time.process_time() - began)
        return relabeled

    with patch.object(Round, "relabel", timed):
        yield seconds


def seconds_of(data, net, epochs, posteriors):
    """CPU seconds of the rest of a round, and of one relabelling (median); all rounds but the first relabel."""
    relabelling = {"relabeler": FedReLaRelabeler(0.05), "relabel_posteriors": posteriors}
    fed = federation(data, net, epochs, n_rounds=N_ROUNDS, relabel_at=1, relabel_every=1, **relabelling)
    with steps_timed() as steps:
        began = time.process_time()
        fed.fit(data.X, data.y)
        total = time.process_time() - began
    return (total - sum(steps)) / N_ROUNDS, float(np.median(steps))


def labels_of(data, net, posteriors, memory):
    """New labels after the same `LABELS_AT` rounds of 2 local epochs."""
    when = {"n_rounds": LABELS_AT + 1, "relabel_at": LABELS_AT, "memory": memory}
    relabelling = {"relabeler": FedReLaRelabeler(0.05), "relabel_posteriors": posteriors}
    return federation(data, net, 2, **when, **relabelling).fit(data.X, data.y).y_relabeled_


def main(arguments=None):
    argparse.ArgumentParser(prog="python -m benchmarks.run cost", description=__doc__).parse_args(arguments)
    torch.set_num_threads(1)
    times, labels = [], []
    for title, (cut, net, all_epochs) in JOBS.items():
        data = images(*cut)
        for epochs in all_epochs:
            for way, posteriors in WAYS.items():
                times.append(_time_line(title, epochs, way, *seconds_of(data, net, epochs, posteriors)))
                print(" | ".join(times[-1]), flush=True)
        with TemporaryDirectory() as memory:
            found = {way: labels_of(data, net, posteriors, memory) for way, posteriors in WAYS.items()}
        labels += [_labels_line(title, way, found[way], next(iter(found.values())), data.y) for way in WAYS]
        print(labels[-2:], flush=True)
    _write(times, labels)


def _time_line(title, epochs, way, seconds, added):
    shares = [f"{100 * added / seconds:.0f} %", f"{100 * added / (500 * seconds):.3f} %"]
    return [title, str(epochs), way, f"{seconds:.2f}", f"{added:.3f}", *shares]


def _labels_line(title, way, labels, first, y):
    moved, base = labels != y, first != y
    both = f"{(moved & base).sum():,}"
    return [title, way, f"{len(y):,}", f"{moved.sum():,}", both, f"{(labels != first).sum():,}"]


def _write(times, labels):
    facts = ", ".join(f"{name} {value}" for name, value in facts_of_run().items())
    time_columns = [
        "data and net",
        "local epochs",
        "posteriors",
        "rest of a round, CPU s",
        "relabelling, CPU s",
    ]
    time_columns += ["share of one round", "share of 500 rounds"]
    label_columns = [
        "data and net",
        "posteriors",
        "rows",
        "relabelled",
        "also with one pass",
        "other label than then",
    ]
    text = (
        "# What the relabelling step costs\n\n"
        f"Made by `python -m benchmarks.run cost`: {facts}.\n\n"
        f"CPU seconds of one process, one thread, in fits of {N_ROUNDS} rounds that relabel before every round but "
        "the first: the step itself (median), and the rest of a round (mean), which holds the "
        "recording of posteriors in the last row of each three.\n\n"
        f"{table(time_columns, times)}\n"
        f"New labels after the same {LABELS_AT} rounds of two local epochs, tau 5 %:\n\n"
        f"{table(label_columns, labels)}"
    )
    (RESULTS / "cost.md").write_text(text, encoding="utf-8")
