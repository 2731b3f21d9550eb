"""Groups given at one site reach the splitter or the classifier, or are an error: never lost."""

import numpy as np
import pytest
import sklearn
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    LeaveOneGroupOut,
    StratifiedGroupKFold,
    StratifiedKFold,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fedrela_sk import DirichletSplit, FedReLaSampler, RelabelingClassifier
from fedrela_sk.exceptions import GroupsError
from tests.federation.helpers import make_fed, make_rows

X, Y = make_rows(120)
GROUPS = np.arange(120) % 4
INNER = LogisticRegression()


class OwnSplitter:
    """Somebody's own, which looks at groups."""

    def get_n_splits(self, X=None, y=None, groups=None):
        return 4

    def split(self, X, y=None, groups=None):
        for group in range(4):
            yield np.flatnonzero(groups != group), np.flatnonzero(groups == group)


WITH_GROUPS = [GroupKFold(4), LeaveOneGroupOut(), StratifiedGroupKFold(4), OwnSplitter()]
WITHOUT = [5, None, "insample", KFold(4), StratifiedKFold(4), DirichletSplit(4), list(KFold(4).split(X))]
KINDS = {
    "one site": lambda cv, estimator=INNER: RelabelingClassifier(estimator, cv=cv, random_state=0).fit,
    "sampler": lambda cv, estimator=INNER: FedReLaSampler(estimator, cv=cv, random_state=0).fit_resample,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cv", WITH_GROUPS, ids=lambda cv: type(cv).__name__)
def test_group_splitters_get_them(cv, kind):
    class Spy(type(cv)):
        def split(self, X, y=None, groups=None):
            seen.append(groups)
            return super().split(X, y, groups)

    seen, spy = [], Spy(**{"n_splits": 4} if hasattr(cv, "n_splits") else {})
    KINDS[kind](spy)(X, Y, groups=GROUPS)
    np.testing.assert_array_equal(seen, [GROUPS])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cv", WITHOUT, ids=lambda cv: type(cv).__name__)
def test_where_nobody_uses_them_is_an_error(cv, kind):
    with pytest.raises(
        GroupsError, match=r"groups were given, but cv=.* does not use them.*cv=GroupKFold\(5\)"
    ):
        KINDS[kind](cv)(X, Y, groups=GROUPS)


def test_a_frozen_classifier_has_no_folds_for_them():
    frozen = FrozenEstimator(LogisticRegression().fit(X, Y))
    for cv in (5, GroupKFold(4)):
        with pytest.raises(GroupsError, match="does not use them, since a FrozenEstimator has no folds"):
            RelabelingClassifier(frozen, cv=cv).fit(X, Y, groups=GROUPS)


@pytest.mark.parametrize("cv", [3, GroupKFold(2)], ids=str)
def test_a_classifier_that_takes_groups_gets_its_rows_share(cv):
    fed = make_fed(clients=None, n_rounds=2)
    clf = RelabelingClassifier(fed, cv=cv, random_state=0).fit(X, Y, groups=GROUPS)
    assert clf.estimator_.client_names_ == [0, 1, 2, 3]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cv", WITHOUT[:5], ids=str)
def test_with_routing_too(cv, kind):
    with (
        sklearn.config_context(enable_metadata_routing=True),
        pytest.raises((TypeError, ValueError), match="groups"),
    ):
        KINDS[kind](cv)(X, Y, groups=GROUPS)


def test_a_search_over_a_pipeline_brings_them():
    pipe = make_pipeline(StandardScaler(), RelabelingClassifier(INNER, cv=GroupKFold(2), random_state=0))
    search = GridSearchCV(pipe, {"relabelingclassifier__refit": [True, False]}, cv=2)
    search.fit(X, Y, relabelingclassifier__groups=GROUPS)
    with pytest.raises(ValueError, match="groups"):  # of the splitter, which got none
        search.fit(X, Y)
