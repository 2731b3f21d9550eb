"""The data of the main job: rows, clients, folds, and how long to train on them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import StratifiedKFold, TimeSeriesSplit, train_test_split

from fedrela_sk.datasets import load_fars, load_lending_club, make_payments
from fedrela_sk.splitters import DirichletSplit

N_FOLDS = 3
N_PAYMENTS = 40_000
N_CRASHES = 20_000


@dataclass(frozen=True)
class Training:
    """How a client trains, and for how many rounds.

    Attributes
    ----------
    rounds, epochs, batch_size : int
    lr : float
    """

    rounds: int
    epochs: int
    batch_size: int
    lr: float


@dataclass(frozen=True)
class Problem:
    """One data set, ready for the study.

    Attributes
    ----------
    title : str
    X : DataFrame of shape (n_rows, n_features)
    y : ndarray of shape (n_rows,), int64
    groups : ndarray of shape (n_rows,) or None
        Client of each row; None where `clients` cuts the rows.
    clients : int, splitter or None
        As `FederatedClassifier` takes it.
    who : str
        What the clients are.
    class_names : dict of int to str
    rare : int
        The rarest class.
    folds : list of (ndarray, ndarray)
        Training rows and test rows.
    cut : str
        How the folds were made.
    training : Training
    """

    title: str
    X: Any
    y: Any
    groups: Any
    clients: Any
    who: str
    class_names: dict
    rare: int
    folds: list
    cut: str
    training: Training

    @property
    def binary(self):
        """Whether there are two classes."""
        return len(self.class_names) == 2


def load_problem(options):
    """`Problem` that the command line asks for."""
    title, bunch, who, training = _LOADERS[options.data](options.seed)
    X, y, groups = bunch.data, np.asarray(bunch.target), np.asarray(bunch.groups)
    if options.data == "payments":
        # a fraud is known after a week, so a week lies between training and test rows
        cut = TimeSeriesSplit(N_FOLDS, test_size=len(y) // 7, gap=len(y) // 5)
        how = (
            f"{N_FOLDS} folds by time: 5 days to judge, a week before them left out, the days before to train"
        )
    else:
        cut = StratifiedKFold(N_FOLDS, shuffle=True, random_state=options.seed)
        how = f"{N_FOLDS} stratified folds"
    clients, groups, who = _clients(options, groups, who)
    return Problem(
        title=title,
        X=X,
        y=y,
        groups=groups,
        clients=clients,
        who=who,
        class_names=dict(enumerate(bunch.target_names)),
        rare=int(np.bincount(y).argmin()),
        folds=list(cut.split(X, y)),
        cut=how,
        training=training,
    )


def _clients(options, groups, who):
    """(`clients` of the federation, groups, what they are)."""
    number, alpha = options.clients.number, options.clients.alpha
    if number is None:
        return None, groups, who
    if alpha is None:
        return number, None, "even IID clients"
    return DirichletSplit(number, alpha=alpha), None, f"Dirichlet clients (alpha {alpha:g})"


def _loans(seed):
    bunch = load_lending_club()
    title = "Loans of a US platform, good or bad"
    return title, bunch, "states", Training(rounds=30, epochs=2, batch_size=128, lr=0.3)


def _payments(seed):
    bunch = make_payments(N_PAYMENTS, random_state=seed)
    bunch.data = pd.DataFrame(bunch.data, columns=bunch.feature_names)
    title = "Simulated card payments, genuine or fraud"
    return title, bunch, "banks", Training(rounds=30, epochs=2, batch_size=128, lr=0.1)


def _crashes(seed):
    bunch = load_fars(unknown="nan")
    rows, _ = train_test_split(
        np.arange(len(bunch.target)), train_size=N_CRASHES, stratify=bunch.target, random_state=seed
    )
    rows = np.sort(rows)
    bunch.data, bunch.target, bunch.groups = (
        table.iloc[rows].reset_index(drop=True) for table in (bunch.data, bunch.target, bunch.groups)
    )
    title = f"Persons in fatal US road crashes ({N_CRASHES:,} of 99,759, drawn), five degrees of injury"
    return title, bunch, "states", Training(rounds=30, epochs=2, batch_size=128, lr=0.1)


_LOADERS = {"loans": _loans, "payments": _payments, "fars": _crashes}
