"""Every method, plain and with FedReLa, on two data sets: ``python -m benchmarks.run algorithms``.

Digits cut to a long tail over 20 Dirichlet clients, and loans by state. Each row changes one thing in the same
federation: the algorithm, who takes part, the client's own data, or the loss; with its default strengths, nothing is
tuned. Plain and with FedReLa share their rounds up to the relabel round. A row is refused whose plain scores part by
more than ten points when its start weights move by a millionth (looked at with the first seed). Runs that are in
``benchmarks/results/algorithms.jsonl`` are not repeated; the table is ``algorithms.md``.
"""

import argparse
import time
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from imblearn.over_sampling import ADASYN, SMOTE, BorderlineSMOTE, RandomOverSampler
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.datasets import load_digits
from sklearn.metrics import accuracy_score, balanced_accuracy_score, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, QuantileTransformer, StandardScaler
from skorch import NeuralNetClassifier
from torch import nn

from benchmarks.suites._algorithms_report import write_report
from benchmarks.suites._commits import commit
from benchmarks.suites._jsonl import read_lines, write_lines
from benchmarks.suites._machine import machine
from benchmarks.suites._stability import moved
from fedrela_sk import DirichletSplit, FederatedClassifier, FedReLaRelabeler, make_long_tailed
from fedrela_sk.algorithms import ALGORITHMS, FedLoGe
from fedrela_sk.datasets import load_lending_club
from fedrela_sk.exceptions import NotFiniteError
from fedrela_sk.local_data import Mixup, Remix
from fedrela_sk.losses import (
    BalancedSoftmaxLoss,
    ClassBalancedLoss,
    EqualizationLoss,
    FocalLoss,
    LDAMLoss,
    LogitAdjustedLoss,
)
from fedrela_sk.metrics import majority_minority_recall, shot_recall
from fedrela_sk.nets import MLP, CosineLinear
from fedrela_sk.participation import ClusteredSampling, Mediators, OptimalSampling, UniformSampling

RESULTS = Path(__file__).parents[1] / "results"
SEEDS = (0, 1, 2)
TAU = 0.05
SHOTS = ("head", "medium", "tail")


class CosineMLP(nn.Sequential):
    """One hidden layer and a head of cosines, as LDAM needs it."""

    def __init__(self, n_features, n_classes):
        super().__init__(nn.Linear(n_features, 64), nn.ReLU(), CosineLinear(64, n_classes))


@dataclass(frozen=True)
class Row:
    """One row of the table: what differs from FedAvg.

    Attributes
    ----------
    group, name : str
    params : dict
        Parameters of `FederatedClassifier`.
    net : dict
        Parameters of the net.
    """

    group: str
    name: str
    params: dict = field(default_factory=dict)
    net: dict = field(default_factory=dict)


def rows():
    """All rows, bounds first."""
    table = [
        Row("bounds", "pooled", {"clients": 1}),
        Row("bounds", "local_only", {"algorithm": "local_only"}),
    ]
    table += [Row("algorithm", name, {"algorithm": name}) for name in ALGORITHMS if name != "local_only"]
    # the authors' norm, which is meant for the wide features of a ResNet
    table += [Row("algorithm", "FedLoGe(etf_norm=0.1)", {"algorithm": FedLoGe(etf_norm=0.1)})]
    table += [
        Row("participation", repr(rule), {"participation": rule})
        for rule in (UniformSampling(0.5), OptimalSampling(0.5), ClusteredSampling(0.5), Mediators(4))
    ]
    table += [
        Row("local_data", repr(tool), {"local_data": tool})
        for tool in (SMOTE(), BorderlineSMOTE(), ADASYN(), RandomOverSampler(), Mixup(), Remix())
    ]
    losses = (FocalLoss, ClassBalancedLoss, BalancedSoftmaxLoss, LogitAdjustedLoss, EqualizationLoss)
    table += [Row("loss", loss.__name__, net={"criterion": loss}) for loss in losses]
    mask = {"criterion": BalancedSoftmaxLoss, "criterion__absent": "mask"}
    table += [Row("loss", 'BalancedSoftmaxLoss(absent="mask")', net=mask)]
    ldam = {"criterion": LDAMLoss, "criterion__defer": 0.8, "module": CosineMLP}
    return [*table, Row("loss", "LDAMLoss, deferred, cosine head", net=ldam)]


@dataclass(frozen=True)
class Job:
    """Rows to train on and to test on, and how long to train.

    Attributes
    ----------
    X, y, groups, X_test, y_test, groups_test : ndarray
        Groups are None where `clients` cuts the rows.
    clients : int, splitter or None
    rounds, epochs, batch_size : int
    lr : float
    """

    X: Any
    y: Any
    groups: Any
    X_test: Any
    y_test: Any
    groups_test: Any
    clients: Any
    rounds: int
    epochs: int
    batch_size: int
    lr: float


@cache
def digits(seed):
    """Handwritten digits: 30 % to test on, the rest cut to a tail of 1 / 20, 20 clients at alpha 0.3."""
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X / 16, y, test_size=0.3, stratify=y, random_state=seed)
    X, y = make_long_tailed(X, y, imbalance_factor=20, n_max=120, random_state=seed)
    clients = DirichletSplit(20, alpha=0.3, random_state=seed)
    return Job(X, y, None, X_test, y_test, None, clients, rounds=60, epochs=5, batch_size=16, lr=0.1)


@cache
def loans(seed):
    """Loans by state, 5 % of them bad: half to train on, half to test on."""
    bunch = load_lending_club()
    numbers = make_pipeline(
        QuantileTransformer(output_distribution="normal", n_quantiles=200), StandardScaler()
    )
    names = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    features = make_column_transformer(
        (numbers, make_column_selector(dtype_include="number")),
        (names, make_column_selector(dtype_include="category")),
    )
    y, groups = np.asarray(bunch.target), np.asarray(bunch.groups)
    train, test = train_test_split(np.arange(len(y)), test_size=0.5, stratify=y, random_state=seed)
    X = features.fit_transform(bunch.data.iloc[train]).astype(np.float32)
    X_test = features.transform(bunch.data.iloc[test]).astype(np.float32)
    return Job(
        X,
        y[train],
        groups[train],
        X_test,
        y[test],
        groups[test],
        None,
        rounds=40,
        epochs=2,
        batch_size=64,
        lr=0.1,
    )


JOBS = {"digits": digits, "loans": loans}


def make_classifier(row, job, tau, seed, memory):
    """The federation of one row."""
    net = {
        "module": MLP,
        "module__n_features": job.X.shape[1],
        "module__n_classes": len(np.unique(job.y)),
        "criterion": nn.CrossEntropyLoss,
        "lr": job.lr,
        "batch_size": job.batch_size,
        "max_epochs": job.epochs,
        "iterator_train__shuffle": True,
    } | row.net
    params = {
        "clients": job.clients,
        "n_rounds": job.rounds,
        "relabeler": FedReLaRelabeler(tau),
        "memory": memory,
        "random_state": seed,
    } | row.params
    return FederatedClassifier(NeuralNetClassifier(**net), **params)


def run(row, job, seed):
    """Figures of one row and seed: plain, then with FedReLa from the same rounds."""
    found = []
    with TemporaryDirectory() as memory:
        for tau in (0.0, TAU):
            classifier = make_classifier(row, job, tau, seed, memory)
            try:
                classifier.fit(job.X, job.y, groups=_groups(row, job))
            except NotFiniteError as error:  # a finding, not a failure of the suite
                found.append({"tau": tau, "diverged": str(error)})
                continue
            found.append(measure(classifier, job) | {"tau": tau})
    return found


def points_apart(row, job, seed, plain):
    """How far a plain run's scores part from those of a start that is moved by a millionth, a share of 1.

    Parameters
    ----------
    row : Row
    job : Job
    seed : int
    plain : dict
        Figures of the plain run.
    """
    beside = replace(row, net=row.net | {"module": moved(row.net.get("module", MLP))})
    try:
        found = measure(
            make_classifier(beside, job, 0.0, seed, None).fit(job.X, job.y, groups=_groups(row, job)), job
        )
    except NotFiniteError:
        return 1.0
    return max(abs(found[score] - plain[score]) for score in ("accuracy", "balanced_accuracy"))


def _groups(row, job):
    return None if row.params.get("clients", job.clients) is not None else job.groups


def measure(classifier, job):
    """Scores on the test rows, traffic and time of one fitted federation."""
    predicted = classifier.predict(job.X_test)
    counts = np.bincount(job.y)
    labels = np.arange(len(counts))
    if len(counts) == 2:  # no medium class: the common one is the head, the rare one the tail
        common, rare = majority_minority_recall(job.y_test, predicted, counts=counts, labels=labels).values()
        recalls = {"head": common, "medium": float("nan"), "tail": rare}
    else:
        recalls = shot_recall(job.y_test, predicted, counts=counts, labels=labels)
    history = classifier.history_
    up, down = history.column("bytes_up"), history.column("bytes_down")
    figures = {
        "accuracy": accuracy_score(job.y_test, predicted),
        "balanced_accuracy": balanced_accuracy_score(job.y_test, predicted),
        **{shot: recalls[shot] for shot in SHOTS},
        "bytes": float(np.mean(up + down)),
        "round_seconds": float(np.median(history.column("seconds"))),
        "relabeled": int(classifier.relabeled_mask_.sum()),
        "engine": classifier.engine_.split(" (")[0],
    }
    if len(counts) == 2:
        figures["auc"] = roc_auc_score(job.y_test, classifier.predict_proba(job.X_test)[:, 1])
    if job.groups_test is not None and classifier._own_models is not None:
        own = classifier.predict(job.X_test, groups=job.groups_test)
        figures["own_balanced_accuracy"] = balanced_accuracy_score(job.y_test, own)
    return {
        key: (float(value) if isinstance(value, np.floating) else value) for key, value in figures.items()
    }


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run algorithms", description=__doc__)
    parser.add_argument("--only", help="rows whose name contains this, run again")
    options = parser.parse_args(arguments)
    path = RESULTS / "algorithms.jsonl"
    done = _read(path)
    todo = [
        (name, row, seed)
        for name in JOBS
        for row in rows()
        for seed in SEEDS
        if (options.only and options.only in row.name) or (name, row.name, seed) not in done
    ]
    began = time.perf_counter()
    for i, (name, row, seed) in enumerate(todo):
        result = run(row, JOBS[name](seed), seed)
        line = {
            "job": name,
            "row": row.name,
            "seed": seed,
            "runs": result,
            "processor": machine()["processor"],
            "commit": commit(),
        }
        if seed == SEEDS[0] and "diverged" not in result[0]:
            line["moved"] = points_apart(row, JOBS[name](seed), seed, result[0])
        done[name, row.name, seed] = line
        write_lines(path, done.values())
        left = (time.perf_counter() - began) / (i + 1) * (len(todo) - i - 1)
        print(
            f"{i + 1}/{len(todo)} {name} {row.name} seed {seed}: about {left / 60:.0f} min left", flush=True
        )
    write_report(RESULTS / "algorithms.md", rows(), done, machine())


def _read(path):
    return {(line["job"], line["row"], line["seed"]): line for line in read_lines(path)}
