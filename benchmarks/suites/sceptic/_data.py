"""The sets: rows to train on and to test on, who holds them, and what was done to them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, QuantileTransformer, StandardScaler

from benchmarks.suites.sceptic._readers import merge_rare, read_fraud, read_kddcup, read_table
from fedrela_sk import DirichletSplit
from fedrela_sk.datasets import load_fars, load_lending_club, make_payments

N_CRASHES = 20_000
N_PAYMENTS = 40_000
MIN_ROWS = 30  # of every class where something is chosen by a metric
ALPHA = 0.3
INNER_FOLDS = 3


@dataclass(frozen=True)
class Job:
    """One set and seed.

    Attributes
    ----------
    X, X_test : ndarray of shape (n_rows, n_features), float32
    y, y_test : ndarray of int
    groups, groups_test : ndarray
        The client of each row.
    class_names : list of str
    said : str
        What was done to the rows.
    overlap : float
        Test rows over training rows where seeds cut the same rows anew, else 0: by this the variance of a
        mean over seeds is underestimated if seeds are taken as independent (Nadeau and Bengio, 2003).
    amount, day : ndarray or None
        Of the test rows, where they are payments.
    inner : list of (ndarray, ndarray)
        Folds of the training rows, the same for everything that is chosen.
    """

    X: Any
    y: Any
    groups: Any
    X_test: Any
    y_test: Any
    groups_test: Any
    class_names: list
    said: str
    overlap: float = 0.0
    amount: Any = None
    day: Any = None
    inner: Any = None

    @property
    def binary(self):
        """Whether there are two classes."""
        return len(self.class_names) == 2

    @property
    def counts(self):
        """Training rows of each class."""
        return np.bincount(self.y, minlength=len(self.class_names))


def _features(train, test):
    """Both as dense float32: numbers by their rank among the training rows, on a normal scale; names one-hot."""
    numbers = make_pipeline(
        QuantileTransformer(output_distribution="normal", n_quantiles=500, random_state=0), StandardScaler()
    )
    names = OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=20, sparse_output=False)
    both = make_column_transformer(
        (numbers, make_column_selector(dtype_include="number")),
        (names, make_column_selector(dtype_include="category")),
    )
    train = both.fit_transform(train) if hasattr(train, "columns") else numbers.fit_transform(train)
    test = both.transform(test) if hasattr(test, "columns") else numbers.transform(test)
    return train.astype(np.float32), test.astype(np.float32)


def _job(X, y, groups, train, test, *, class_names, said, seed, **facts):
    rows = X.iloc if hasattr(X, "iloc") else X
    X_train, X_test = _features(rows[train], rows[test])
    cut = StratifiedKFold(INNER_FOLDS, shuffle=True, random_state=seed)
    return Job(
        X=X_train,
        y=y[train],
        groups=groups[train],
        X_test=X_test,
        y_test=y[test],
        groups_test=groups[test],
        class_names=class_names,
        said=said,
        inner=list(cut.split(X_train, y[train])),
        **facts,
    )


def _repeated(X, y, groups, class_names, said, seed, *, train_size=0.5):
    """A stratified cut, another one for each seed."""
    train, test = train_test_split(np.arange(len(y)), train_size=train_size, stratify=y, random_state=seed)
    overlap = len(test) / len(train)
    said = f"{said}; a stratified {train_size:.0%} of {len(y):,} rows trains, the rest tests, each seed cuts anew"
    return _job(X, y, groups, train, test, class_names=class_names, said=said, seed=seed, overlap=overlap)


def loans(seed):
    """Loans by state."""
    bunch = load_lending_club()
    y, groups = np.asarray(bunch.target), np.asarray(bunch.groups)
    return _repeated(bunch.data, y, groups, list(bunch.target_names), "clients are states", seed)


def fars(seed):
    """Persons in road crashes by state, a subsample."""
    bunch = load_fars()
    y, groups = np.asarray(bunch.target), np.asarray(bunch.groups)
    kept, _ = train_test_split(np.arange(len(y)), train_size=N_CRASHES, stratify=groups, random_state=0)
    said = f"{N_CRASHES:,} of {len(y):,} rows for time, stratified by state; clients are states"
    return _repeated(bunch.data.iloc[kept], y[kept], groups[kept], list(bunch.target_names), said, seed)


def payments(seed):
    """Simulated payments by bank: another world for each seed, tested a week after training."""
    bunch = make_payments(N_PAYMENTS, n_banks=20, random_state=seed)
    train, test = np.flatnonzero(bunch.day < 14), np.flatnonzero(bunch.day >= 21)
    said = (
        f"{N_PAYMENTS:,} payments of 20 banks, simulated anew for each seed; days 0-13 train, days 21-34 test (a "
        "fraud is known after a week); clients are banks"
    )
    facts = {"amount": bunch.amount[test], "day": bunch.day[test]}
    names = list(bunch.target_names)
    return _job(
        bunch.data, bunch.target, bunch.groups, train, test, class_names=names, said=said, seed=seed, **facts
    )


def fraud(seed):
    """Payments of the Fraud Detection Handbook by region, cut by time and by card."""
    return _fraud(seed)


def fraud_third(seed):
    """The same with a third of the frauds, 0.3 %: the only set whose prevalence is made."""
    return _fraud(seed, kept=1 / 3)


def _fraud(seed, kept=1.0):
    arrays = read_fraud()
    day, even, y = arrays["day"], arrays["customer_id"] % 2 == 0, arrays["y"].astype(np.int64)
    train = _thinned(np.flatnonzero((day >= 115) & (day <= 121) & even), y, kept)
    test = _thinned(np.flatnonzero((day >= 129) & (day <= 135) & ~even), y, kept)
    less = (
        ""
        if kept == 1
        else f"a share of {kept:.2f} of the frauds, drawn once, so not the natural prevalence; "
    )
    said = (
        f"{less}days 115-121 of cards with an even number train, days 129-135 of cards with an odd one test: "
        f"{y[train].sum()} and {y[test].sum()} frauds; the seed moves nets, batches, folds and draws, not the cut; "
        "clients are regions"
    )
    X, groups, names = arrays["X"], arrays["region"].astype(int), ["genuine", "fraud"]
    facts = {"amount": X[test, 0].astype(float), "day": day[test]}
    return _job(X, y, groups, train, test, class_names=names, said=said, seed=seed, **facts)


def _thinned(rows, y, kept):
    """Rows less some of the positive ones, drawn at random but the same always."""
    positive = rows[y[rows] == 1]
    n_less = len(positive) - round(kept * len(positive))
    return np.setdiff1d(rows, np.random.default_rng(0).choice(positive, n_less, replace=False))


def _dirichlet(X, labels, n_min, n_clients, seed, train_size=0.5):
    kept, labels, said = merge_rare(labels, n_min)
    class_names, y = np.unique(labels, return_inverse=True)
    groups = np.empty(len(y), dtype=int)
    split = DirichletSplit(n_clients, alpha=ALPHA, random_state=seed)
    for client, (_, rows) in enumerate(split.split(np.zeros((len(y), 1)), y)):
        groups[rows] = client
    said = f"{said}; {n_clients} Dirichlet clients (alpha {ALPHA:g})"
    return _repeated(X.iloc[kept], y, groups, class_names.tolist(), said, seed, train_size=train_size)


def shuttle(seed):
    """Radiator positions of the space shuttle."""
    X, labels = read_table("shuttle", "Class")
    return _dirichlet(X, labels, 60, 20, seed)


def page_blocks(seed):
    """Blocks of scanned pages."""
    X, labels = read_table("page_blocks", "Class")
    return _dirichlet(X, labels, 60, 10, seed)


def kddcup(seed):
    """Network connections, distinct rows."""
    X, labels = read_kddcup()
    return _dirichlet(X, labels, 150, 20, seed, train_size=0.2)


SETS = {
    "loans": loans,
    "fars": fars,
    "payments": payments,
    "fraud": fraud,
    "shuttle": shuttle,
    "page_blocks": page_blocks,
    "kddcup": kddcup,
    "fraud_third": fraud_third,
}
