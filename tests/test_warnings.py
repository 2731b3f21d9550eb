"""Warnings point at the line of the user: straight calls, pipelines, searches, samplers."""

import inspect
import warnings

import numpy as np
import pytest
from sklearn.exceptions import DataConversionWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fedrela_sk import DirichletSplit, FedReLaRelabeler, FedReLaSampler, RelabelingClassifier
from fedrela_sk._warnings import pointing_at_the_user, warn_user
from fedrela_sk.exceptions import FedReLaWarning
from fedrela_sk.imbalance import make_long_tailed
from fedrela_sk.metrics import federated_score, per_class_recall
from tests.federation.helpers import make_fed, make_rows

X, CODES = make_rows(60)
COLUMN = CODES[:, None]
Q = np.random.default_rng(0).dirichlet(np.ones(3), 60)
INNER = LogisticRegression()


def warned_at(call):
    """(file, line) of the warnings of a call, which stands on the line after this function's own."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return {(warning.filename, warning.lineno) for warning in caught}


CALLS = {
    "relabeler": lambda: FedReLaRelabeler().fit(Q, COLUMN),
    "one site": lambda: RelabelingClassifier(INNER).fit(X, COLUMN),
    "sampler": lambda: FedReLaSampler(INNER).fit_resample(X, COLUMN),
    "pipeline": lambda: make_pipeline(StandardScaler(), RelabelingClassifier(INNER)).fit(X, COLUMN),
    "cross-validation": lambda: cross_val_score(RelabelingClassifier(INNER, cv=2), X, COLUMN, cv=2),
    "federation": lambda: make_fed().fit(X, COLUMN),
    "score": lambda: federated_score(COLUMN, CODES),
    "recall": lambda: per_class_recall(CODES, COLUMN),
    "imbalance": lambda: make_long_tailed(X, COLUMN, imbalance_factor=2, n_max=4),
    "splitter": lambda: list(DirichletSplit(2).split(X, COLUMN)),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_warning_points_at_the_call(name):
    call = CALLS[name]
    found = warned_at(call)
    assert (__file__, call.__code__.co_firstlineno) in found
    assert not [file for file, _ in found if "fedrela_sk/fedrela_sk" in file or "/fedrela_sk/_" in file]


def test_own_warnings_are_ours():
    with pytest.warns(FedReLaWarning, match="look") as caught:
        warn_user("look")
    assert caught[0].filename == __file__
    assert caught[0].lineno == inspect.currentframe().f_lineno - 2


def test_those_of_libraries_are_passed_on():
    with pytest.warns(DataConversionWarning, match="deep") as caught, pointing_at_the_user():
        warnings.warn("deep", DataConversionWarning, stacklevel=1)
    assert len(caught) == 1
    assert caught[0].filename == __file__
