"""The study: a grid search over tau, and other models on the same folds."""

from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Any

import joblib
import numpy as np
import sklearn
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.utils.parallel import Parallel, delayed

from fedrela_sk._main._models import (
    TAU,
    make_federated_others,
    make_federation,
    make_pooled,
    make_scorers,
    relabel_index,
)

MAIN_METRIC = "balanced_accuracy"
_MOST_JOBS = 4


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes
    ----------
    model : str
    tau : float or None
        None: the model knows no tau.
    scores : dict of str to ndarray of shape (n_folds,)
        Metric to its value in every fold.
    """

    model: str
    tau: float | None
    scores: dict

    def mean(self, metric):
        """Mean over folds."""
        return float(self.scores[metric].mean())

    def std(self, metric):
        """Standard deviation over folds, divisor n - 1."""
        return float(self.scores[metric].std(ddof=1))

    def standard_error(self, metric):
        """Of the mean over folds."""
        return self.std(metric) / len(self.scores[metric]) ** 0.5


@dataclass(frozen=True)
class Study:
    """What came out.

    Attributes
    ----------
    problem : Problem
    over_tau : list of Row
        tau ascending, 0 first.
    others : list of Row
    search : fitted GridSearchCV
    """

    problem: Any
    over_tau: list
    others: list
    search: Any

    @property
    def best(self):
        """The row of the chosen tau."""
        return next(row for row in self.over_tau if row.tau == self.search.best_params_[TAU])

    @property
    def federation(self):
        """The federation with the chosen tau, trained on all rows."""
        return self.search.best_estimator_[-1]


def run_study(problem, options, display):
    """Search, then the other models; `Study`.

    Parameters
    ----------
    problem : Problem
    options : Options
    display : RoundDisplay
        Entered.
    """
    n_rounds, n_folds = options.rounds or problem.training.rounds, len(problem.folds)
    n_jobs = min(joblib.cpu_count(), _MOST_JOBS)
    # clients' names travel through pipelines and searches only with metadata routing
    with sklearn.config_context(enable_metadata_routing=True), TemporaryDirectory() as memory:
        first = relabel_index(n_rounds)  # rounds before it are trained once for all taus
        total = n_folds * (first + len(options.tau) * (n_rounds - first)) + n_rounds
        with display.stage("grid search over tau", total):
            search = _search(problem, options, display.reporter, memory, n_jobs)
        federated = make_federated_others(problem, options, display.reporter, memory)
        with display.stage("other models", n_folds * sum(n for _, n in federated.values())):
            models = {name: model for name, (model, _) in federated.items()}
            others = _others(problem, models, make_pooled(problem, options), n_jobs)
    return Study(problem, _rows_over_tau(search, problem), others, search)


def _search(problem, options, callback, memory, n_jobs):
    search = GridSearchCV(
        make_federation(problem, options, callback, memory=memory),
        {TAU: list(options.tau)},
        scoring=make_scorers(problem),
        refit=MAIN_METRIC,
        cv=problem.folds,
        n_jobs=n_jobs,
        error_score="raise",
    )
    return search.fit(problem.X, problem.y, **_groups(problem))


def _groups(problem):
    return {} if problem.groups is None else {"groups": problem.groups}


def _rows_over_tau(search, problem):
    results = search.cv_results_
    rows = []
    for position, tau in enumerate(results[f"param_{TAU}"]):
        scores = {
            metric: np.array(
                [results[f"split{fold}_test_{metric}"][position] for fold in range(len(problem.folds))]
            )
            for metric in make_scorers(problem)
        }
        rows.append(Row(f"federated, tau {tau:g}", float(tau), scores))
    return rows


def _others(problem, federated, pooled, n_jobs):
    """One `Row` per model; models and folds run side by side."""
    models = federated | pooled
    jobs = [(name, fold) for name in models for fold in problem.folds]
    scores = Parallel(n_jobs=n_jobs)(
        delayed(_score_one)(
            models[name],
            problem.X,
            problem.y,
            fold,
            make_scorers(problem),
            _groups(problem) if name in federated else {},
        )
        for name, fold in jobs
    )
    rows = []
    for name in models:
        own = [score for (model, _), score in zip(jobs, scores, strict=True) if model == name]
        rows.append(Row(name, None, {metric: np.array([s[metric] for s in own]) for metric in own[0]}))
    return rows


def _score_one(model, X, y, fold, scorers, params):
    """Metric to score of one model on one fold."""
    scored = cross_validate(model, X, y, cv=[fold], scoring=scorers, params=params, error_score="raise")
    return {metric: float(scored[f"test_{metric}"][0]) for metric in scorers}
