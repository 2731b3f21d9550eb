import numpy as np
import pytest
from sklearn.metrics import average_precision_score, balanced_accuracy_score
from sklearn.pipeline import clone

from fedrela_sk import FederatedClassifier
from fedrela_sk._main._models import TAU
from fedrela_sk._main._study import Row

OTHERS = [
    "federated, class weights",
    "federated, tuned threshold",
    "pooled logistic regression",
    "pooled logistic reg., weights",
    "pooled boosting, weights",
]


def test_every_model_has_every_score_in_every_fold(study):
    assert [row.model for row in study.over_tau] == ["federated, tau 0", "federated, tau 0.3"]
    assert [row.model for row in study.others] == OTHERS
    for row in study.over_tau + study.others:
        assert list(row.scores) == ["balanced_accuracy", "recall", "f1", "average_precision"]
        for scores in row.scores.values():
            assert scores.shape == (3,)
            assert np.isfinite(scores).all()


def test_scores_are_those_of_a_federation_fitted_by_hand(study, small_problem):
    """The search routes groups, cached rounds change nothing, tau 0 is plain federated training."""
    train, test = small_problem.folds[1]
    features, federation = clone(study.search.best_estimator_)
    X = features.fit(small_problem.X.iloc[train]).transform
    for row, relabeler in zip(
        study.over_tau, [None, clone(federation.relabeler).set_params(tau=0.3)], strict=True
    ):
        own = clone(federation).set_params(relabeler=relabeler, memory=None).set_callbacks()
        own.fit(X(small_problem.X.iloc[train]), small_problem.y[train], groups=small_problem.groups[train])
        assert sorted(own.client_names_) == ["CA", "FL", "IL", "NJ", "NY", "TX"]
        q = own.predict_proba(X(small_problem.X.iloc[test]))
        y = small_problem.y[test]
        assert row.scores["average_precision"][1] == pytest.approx(average_precision_score(y, q[:, 1]))
        assert row.scores["balanced_accuracy"][1] == pytest.approx(
            balanced_accuracy_score(y, q.argmax(axis=1))
        )


def test_the_chosen_tau_has_the_best_mean(study):
    assert study.best.tau == study.search.best_params_[TAU]
    assert study.best.mean("balanced_accuracy") == max(
        row.mean("balanced_accuracy") for row in study.over_tau
    )
    assert isinstance(study.federation, FederatedClassifier)
    assert study.federation.relabeler.tau == study.best.tau
    assert len(study.federation.y_relabeled_) == len(study.problem.y)


def test_progress_counts_every_round_once(study, shown):
    lines = [line for line in shown.getvalue().splitlines() if not line.startswith(" ")]
    # 3 folds share 3 rounds, then 2 taus of 3 rounds each, and 6 rounds of the final fit
    assert lines == ["grid search over tau: 33 rounds", "other models: 45 rounds"]
    assert "  33 of 33 rounds" in shown.getvalue()
    assert "  45 of 45 rounds" in shown.getvalue()


def test_row_statistics():
    row = Row("model", None, {"recall": np.array([0.1, 0.2, 0.6])})
    assert row.mean("recall") == pytest.approx(0.3)
    assert row.std("recall") == pytest.approx(np.sqrt((0.04 + 0.01 + 0.09) / 2))
    assert row.standard_error("recall") == pytest.approx(row.std("recall") / np.sqrt(3))
