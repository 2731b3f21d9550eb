"""RelabelingClassifier: its docstring, its parameters, and what it refuses."""

import doctest

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from fedrela_sk import FedReLaRelabeler, RelabelingClassifier
from fedrela_sk.exceptions import PartitionError
from fedrela_sk.relabel import _classifier
from tests.relabel.classifier_rows import X, y


class TestPublic:
    def test_first_screen_of_the_docstring(self):
        screen = "\n".join(RelabelingClassifier.__doc__.splitlines()[:12])
        assert "Relabeling moves posteriors" in screen
        assert "calibrated" in screen
        assert "acts like a moved threshold" in screen

    def test_example_runs(self):
        assert doctest.testmod(_classifier) == (0, 7)

    def test_unfitted(self):
        for method in ("predict", "predict_proba", "decision_function"):
            with pytest.raises(NotFittedError):
                getattr(RelabelingClassifier(LogisticRegression()), method)(X)
        with pytest.raises(NotFittedError):
            RelabelingClassifier(LogisticRegression()).relabel_report()

    @pytest.mark.parametrize(
        ("params", "message"),
        [
            ({"cv": "prefit"}, r"The 'cv' parameter .*'insample'.*Got 'prefit' instead"),
            ({"cv": 1}, r"The 'cv' parameter .*Got 1 instead"),
            (
                {"relabeler": "fedrela"},
                r"The 'relabeler' parameter .*'fit' and 'relabel'.*Got 'fedrela' instead",
            ),
            ({"response_method": "predict"}, r"The 'response_method' parameter .*Got 'predict' instead"),
            ({"refit": "yes"}, r"The 'refit' parameter .*Got 'yes' instead"),
            ({"calibrate": 2}, r"The 'calibrate' parameter .*Got 2 instead"),
            ({"n_jobs": 0.5}, r"The 'n_jobs' parameter .*Got 0.5 instead"),
            ({"random_state": -1}, r"The 'random_state' parameter .*Got -1 instead"),
            ({"estimator": StandardScaler()}, r"The 'estimator' parameter .*Got StandardScaler\(\) instead"),
        ],
        ids=str,
    )
    def test_parameters(self, params, message):
        clf = RelabelingClassifier(LogisticRegression()).set_params(**params)
        with pytest.raises(ValueError, match=message):
            clf.fit(X, y)

    def test_overlapping_folds(self):
        splits = [(np.arange(400), np.arange(400))] * 2
        with pytest.raises(PartitionError, match=r"row 0 is in 2 of them.*Use KFold"):
            RelabelingClassifier(LogisticRegression(), cv=splits).fit(X, y)

    def test_clone_and_params(self):
        clf = RelabelingClassifier(LogisticRegression(C=2), FedReLaRelabeler(tau=0.3), cv=3)
        params = clone(clf).get_params()
        assert params["estimator__C"] == 2
        assert params["relabeler__tau"] == 0.3
        assert params["cv"] == 3
