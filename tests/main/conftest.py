"""A small problem and one study of it, made once."""

import io
from pathlib import Path

import joblib
import numpy as np
import pytest
from rich.console import Console
from sklearn.model_selection import StratifiedKFold

from fedrela_sk._main._arguments import Clients, Options
from fedrela_sk._main._problem import Problem, Training
from fedrela_sk._main._progress import RoundDisplay
from fedrela_sk._main._study import run_study
from fedrela_sk.datasets import load_lending_club


@pytest.fixture(scope="session")
def options():
    return Options(data="loans", clients=Clients(), rounds=None, tau=(0.0, 0.3), seed=0, out=Path("out"))


@pytest.fixture(scope="session")
def small_problem():
    """Bad loans and four times as many good ones, from six states."""
    loans = load_lending_club()
    y, groups = loans.target.to_numpy(), loans.groups.to_numpy()
    rows = np.isin(groups, ["CA", "TX", "NY", "FL", "IL", "NJ"])
    rows = np.sort(np.concatenate([np.flatnonzero(rows & (y == 1)), np.flatnonzero(rows & (y == 0))[:800]]))
    X, y, groups = loans.data.iloc[rows].reset_index(drop=True), y[rows], groups[rows]
    return Problem(
        title="Some loans",
        X=X,
        y=y,
        groups=groups,
        clients=None,
        who="states",
        class_names={0: "good", 1: "bad"},
        rare=1,
        folds=list(StratifiedKFold(3, shuffle=True, random_state=0).split(X, y)),
        cut="3 stratified folds",
        training=Training(rounds=6, epochs=2, batch_size=64, lr=0.2),
    )


@pytest.fixture(scope="session")
def shown():
    """What the progress of the study wrote."""
    return io.StringIO()


@pytest.fixture(scope="session")
def study(small_problem, options, shown):
    with pytest.MonkeyPatch.context() as patch, RoundDisplay(Console(file=shown, width=100)) as display:
        patch.setattr(joblib, "cpu_count", lambda: 1)
        return run_study(small_problem, options, display)
