"""scikit-learn's own checks on every public estimator.

To add an estimator, add it to `ESTIMATORS`. A check that it cannot pass goes to `EXPECTED_FAILED` with the
reason; a check listed there that passes is a failure too.
"""

import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from fedrela_sk import (
    DirichletSplit,
    FederatedClassifier,
    FedReLaRelabeler,
    FedReLaSampler,
    RelabelingClassifier,
)

NO_POSTERIORS = "the check feeds rows that are no posteriors, which are refused"
MORE_LABELS = "the check feeds fewer columns than labels, and every class needs its column"
NO_NAMES = (
    "the check feeds labels 1 and 2 with five columns: without `classes` nothing says which two are theirs"
)
FOLDS_AND_DRAWS = (
    "a weight is no repeated row where rows are dealt to folds and labels drawn row by row; the equivalence "
    "is tested where it holds, without folds and draws"
)
CLIENTS = (
    "repeated rows are dealt to other clients than the row that stands for them; the equivalence is tested "
    "where clients are given by groups"
)
BOOSTING = HistGradientBoostingClassifier(max_iter=3, max_leaf_nodes=4, min_samples_leaf=2)

# (estimator, name of its row in EXPECTED_FAILED)
ESTIMATORS = [
    (FedReLaRelabeler(random_state=0), "relabeler of posteriors"),
    (FedReLaRelabeler(input="score", random_state=0), "relabeler of scores"),
    (RelabelingClassifier(LogisticRegression(), random_state=0), "one site, dense and sparse"),
    (RelabelingClassifier(LinearSVC(), random_state=0), "one site, dense and sparse"),
    (RelabelingClassifier(BOOSTING, random_state=0), "one site, dense"),
    (
        RelabelingClassifier(LogisticRegression(), calibrate=True, random_state=0),
        "one site, dense and sparse",
    ),
    (RelabelingClassifier(LogisticRegression(), refit=False, random_state=0), "one site, no refit"),
    (FedReLaSampler(LogisticRegression(), random_state=0), "sampler"),
    (FederatedClassifier(clients=3, n_rounds=5, random_state=0), "federation, one step pooled"),
    (
        FederatedClassifier(clients=3, n_rounds=8, relabeler=FedReLaRelabeler(), random_state=0),
        "federation, one step pooled",
    ),
    (
        FederatedClassifier(
            clients=DirichletSplit(3, alpha=1.0),
            participation=0.7,
            n_rounds=10,
            engine="loop",
            random_state=0,
        ),
        "federation, some clients",
    ),
    (
        FederatedClassifier(clients=3, algorithm="local_only", n_rounds=10, random_state=0),
        "federation, some clients",
    ),
]

EXPECTED_FAILED = {
    "relabeler of posteriors": dict.fromkeys(
        [
            "check_all_zero_sample_weights_error",
            "check_dict_unchanged",
            "check_dont_overwrite_parameters",
            "check_dtype_object",
            "check_estimators_dtypes",
            "check_estimators_fit_returns_self",
            "check_estimators_nan_inf",
            "check_estimators_overwrite_params",
            "check_estimators_pickle",
            "check_f_contiguous_array_estimator",
            "check_fit2d_1feature",
            "check_fit2d_1sample",
            "check_fit2d_predict1d",
            "check_fit_check_is_fitted",
            "check_fit_idempotent",
            "check_fit_score_takes_y",
            "check_methods_sample_order_invariance",
            "check_methods_subset_invariance",
            "check_n_features_in",
            "check_n_features_in_after_fitting",
            "check_pipeline_consistency",
            "check_positive_only_tag_during_fit",
            "check_readonly_memmap_input",
            "check_sample_weight_equivalence_on_dense_data",
            "check_sample_weights_list",
            "check_sample_weights_not_an_array",
            "check_sample_weights_not_overwritten",
            "check_sample_weights_pandas_series",
            "check_sample_weights_shape",
            "check_transformer_data_not_an_array",
            "check_transformer_general",
            "check_transformer_preserve_dtypes",
        ],
        NO_POSTERIORS,
    ),
    "relabeler of scores": {
        "check_estimators_dtypes": NO_NAMES,
        "check_estimators_fit_returns_self": MORE_LABELS,
        "check_estimators_overwrite_params": MORE_LABELS,
        "check_readonly_memmap_input": MORE_LABELS,
    },
    "one site, dense and sparse": {
        "check_sample_weight_equivalence_on_dense_data": FOLDS_AND_DRAWS,
        "check_sample_weight_equivalence_on_sparse_data": FOLDS_AND_DRAWS,
    },
    "one site, dense": {"check_sample_weight_equivalence_on_dense_data": FOLDS_AND_DRAWS},
    # every client takes one step on its whole batch, so it does not matter who holds a repeated row
    "federation, one step pooled": {},
    "federation, some clients": {
        "check_sample_weight_equivalence_on_dense_data": CLIENTS,
        "check_sample_weight_equivalence_on_sparse_data": CLIENTS,
    },
}


def expected_failed(estimator):
    """Reasons by check, for one estimator of the list."""
    name = next(name for row, name in ESTIMATORS if row is estimator)
    return EXPECTED_FAILED.get(name, {})


@parametrize_with_checks([row for row, _ in ESTIMATORS], expected_failed_checks=expected_failed)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("name", EXPECTED_FAILED)
def test_every_expected_failure_belongs_to_an_estimator_and_has_a_reason(name):
    assert name in [row for _, row in ESTIMATORS]
    assert all(len(reason) > 20 for reason in EXPECTED_FAILED[name].values())
