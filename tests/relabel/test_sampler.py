import doctest
import pickle
import subprocess
import sys
from copy import deepcopy

import numpy as np
import pandas as pd
import pytest
from imblearn.over_sampling import SMOTE, RandomOverSampler
from imblearn.pipeline import Pipeline as ImbPipeline
from imblearn.pipeline import make_pipeline as make_imb_pipeline
from imblearn.utils.estimator_checks import _get_check_estimator_ids, estimator_checks_generator
from scipy import sparse
from sklearn import config_context
from sklearn.base import BaseEstimator, clone
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_predict
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler, label_binarize
from sklearn.svm import LinearSVC
from sklearn.utils import get_tags

from fedrela_sk import FedReLaRelabeler, FedReLaSampler, RelabelingClassifier
from fedrela_sk.exceptions import LabelError, PartitionError
from fedrela_sk.relabel import _sampler

X, y = make_classification(
    400, n_classes=3, n_informative=5, weights=[0.75, 0.2], class_sep=0.8, random_state=0
)
BOOSTING = HistGradientBoostingClassifier(max_iter=2, max_leaf_nodes=4)


SPARSE = {"check_samplers_pandas_sparse": "HistGradientBoostingClassifier refuses sparse columns itself"}
OWN_CHECKS = [
    *estimator_checks_generator(FedReLaSampler(LogisticRegression(), random_state=0)),
    *estimator_checks_generator(
        FedReLaSampler(BOOSTING, random_state=0), expected_failed_checks=SPARSE, mark="xfail"
    ),
]


@pytest.mark.filterwarnings("ignore:A column-vector y was passed:sklearn.exceptions.DataConversionWarning")
@pytest.mark.parametrize(("estimator", "check"), OWN_CHECKS, ids=_get_check_estimator_ids)
def test_imbalanced_learns_own_checks(estimator, check):
    check(estimator)


def test_imbalanced_learn_is_not_needed():
    code = (
        "import sys; from sklearn.linear_model import LogisticRegression\n"
        "from fedrela_sk import FedReLaSampler\n"
        "sampler = FedReLaSampler(LogisticRegression(), cv=2)\n"
        "sampler.fit_resample([[0.0], [1.0], [2.0], [3.0], [9.0]], [0, 0, 0, 1, 1])\n"
        "sampler.get_metadata_routing(); sampler.__sklearn_tags__()\n"
        "import sklearn; sklearn.set_config(enable_metadata_routing=True)\n"
        "sampler.estimator.set_fit_request(sample_weight=True)\n"
        "sampler.fit_resample([[0.0], [1.0], [2.0], [3.0], [9.0]], [0, 0, 0, 1, 1], sample_weight=[1.0] * 5)\n"
        "assert sampler.relabeler_.class_count_.tolist() == [3, 2]\n"
        "assert not {'imblearn', 'torch', 'skorch'} & set(sys.modules), sys.modules.keys()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_example_runs():
    assert doctest.testmod(_sampler) == (0, 7)


class TestRows:
    def test_same_rows_new_labels(self):
        sampler = FedReLaSampler(LogisticRegression(), FedReLaRelabeler(tau=0.1), random_state=3)
        X_same, y_new = sampler.fit_resample(X, y)
        assert X_same is X
        Q = cross_val_predict(LogisticRegression(), X, y, method="predict_proba")
        expected = FedReLaRelabeler(tau=0.1, random_state=3).fit(Q, y).relabel(Q, y)
        assert np.array_equal(y_new, expected)
        assert np.array_equal(sampler.relabeled_mask_, y_new != y)
        assert sampler.relabeled_mask_.sum() > 5
        assert sampler.sample_indices_.tolist() == list(range(400))
        assert sampler.classes_.tolist() == [0, 1, 2]
        into = y_new[y_new != y]
        assert sampler.sampling_strategy_ == {label: (into == label).sum() for label in (0, 1, 2)}

    def test_agrees_with_the_classifier(self):
        _, y_new = FedReLaSampler(LogisticRegression(), random_state=0).fit_resample(X, y)
        clf = RelabelingClassifier(LogisticRegression(), random_state=0).fit(X, y)
        assert np.array_equal(y_new, clf.y_relabeled_)

    def test_fit_learns_the_same(self):
        one = FedReLaSampler(LogisticRegression(), random_state=0)
        assert one.fit(X, y) is one
        two = clone(one)
        two.fit_resample(X, y)
        assert np.array_equal(one.relabeled_mask_, two.relabeled_mask_)

    @pytest.mark.parametrize("cv", [3, None, "insample", GroupKFold(2)], ids=str)
    def test_any_cv(self, cv):
        sampler = FedReLaSampler(LogisticRegression(), cv=cv, random_state=0)
        groups = {"groups": np.arange(400) % 5} if isinstance(cv, GroupKFold) else {}
        _, y_new = sampler.fit_resample(X, y, **groups)
        clf = RelabelingClassifier(LogisticRegression(), cv=cv, random_state=0).fit(X, y, **groups)
        assert np.array_equal(y_new, clf.y_relabeled_)

    def test_scores_and_frozen_posteriors(self):
        sampler = FedReLaSampler(LinearSVC(), random_state=0).fit(X, y)
        assert sampler.relabeler_.input == "score"
        known = LogisticRegression().fit(X, y)
        sampler = FedReLaSampler(FrozenEstimator(known), random_state=0).fit(X, y)
        expected = FedReLaRelabeler().fit(known.predict_proba(X), y)
        assert np.array_equal(sampler.relabeler_.mean_, expected.mean_)

    def test_weights_reach_classifier_and_relabeler(self):
        weight = np.linspace(1, 3, 400)
        sampler = FedReLaSampler(LogisticRegression(), random_state=0)
        _, y_new = sampler.fit_resample(X, y, sample_weight=weight)
        clf = RelabelingClassifier(LogisticRegression(), random_state=0).fit(X, y, sample_weight=weight)
        assert np.array_equal(y_new, clf.y_relabeled_)
        assert np.isclose(sampler.relabeler_.class_count_.sum(), weight.sum())

    def test_report(self):
        sampler = FedReLaSampler(LogisticRegression(), random_state=0).fit(X, y)
        assert np.array_equal(sampler.relabel_report().row, np.flatnonzero(sampler.relabeled_mask_))
        with pytest.raises(NotFittedError):
            FedReLaSampler(LogisticRegression()).relabel_report()

    def test_rows_that_a_relabeler_drops_are_left_out(self):
        class KeepEven(BaseEstimator):
            def fit(self, Q, y):
                return self

            def relabel(self, Q, y, uniforms=None):
                return y, np.arange(len(y)) % 2 == 0

        frame = pd.DataFrame(X)
        sampler = FedReLaSampler(LogisticRegression(), KeepEven())
        rows, labels = sampler.fit_resample(frame, pd.Series(y))
        assert rows.equals(frame.iloc[::2])
        assert labels.equals(pd.Series(y).iloc[::2])
        assert sampler.sample_indices_.tolist() == list(range(0, 400, 2))

    def test_inputs_are_left_alone(self):
        target = y.copy()
        _, y_new = FedReLaSampler(LogisticRegression(), random_state=0).fit_resample(X, target)
        assert np.array_equal(target, y)
        assert not np.shares_memory(y_new, target)


class TestContainers:
    def test_one_hot(self):
        sampler = FedReLaSampler(LogisticRegression(), random_state=0)
        _, expected = sampler.fit_resample(X, y)
        one_hot = label_binarize(y, classes=[0, 1, 2])
        for given in (one_hot, sparse.csr_array(one_hot), pd.DataFrame(one_hot, columns=list("abc"))):
            _, found = sampler.fit_resample(X, given)
            assert type(found) is type(given)
            dense = found.toarray() if sparse.issparse(found) else np.asarray(found)
            assert np.array_equal(dense.argmax(axis=1), expected)
            assert dense.dtype == one_hot.dtype
            assert np.array_equal(dense.sum(axis=1), np.ones(400))

    def test_frame_and_series(self):
        frame = (
            pd.DataFrame(X, index=np.arange(400) + 7)
            .add_prefix("f")
            .assign(kind=pd.Categorical(["a", "b"] * 200))
        )
        target = pd.Series(np.array(["ok", "late", "bad"])[y], index=frame.index, dtype="category")
        boosting = HistGradientBoostingClassifier(max_iter=5, categorical_features="from_dtype")
        rows, labels = FedReLaSampler(boosting, random_state=0).fit_resample(frame, target)
        assert rows is frame
        assert labels.dtype == target.dtype
        assert labels.index.equals(frame.index)
        assert (labels != target).any()

    def test_texts(self):
        texts = np.array(["good loan", "bad debt", "late bad debt"])[y].tolist()
        sampler = FedReLaSampler(make_pipeline(TfidfVectorizer(), LogisticRegression()))
        rows, _ = sampler.fit_resample(texts, y)
        assert rows is texts
        assert not hasattr(sampler, "n_features_in_")

    def test_feature_names(self):
        sampler = FedReLaSampler(LogisticRegression()).fit(pd.DataFrame(X).add_prefix("f"), y)
        assert sampler.n_features_in_ == X.shape[1]
        assert sampler.get_feature_names_out().tolist() == [f"f{i}" for i in range(X.shape[1])]

    def test_tags(self):
        tags = get_tags(FedReLaSampler(BOOSTING))
        assert tags.estimator_type == "sampler"
        assert tags.input_tags.allow_nan
        assert not tags.input_tags.sparse
        assert tags.input_tags.dataframe
        assert tags.sampler_tags.sample_indices


class TestErrors:
    @pytest.mark.parametrize(
        ("target", "error", "message"),
        [
            (np.zeros(400), LabelError, r"y has 1 class \(.*0.0.*\).*at least 2 classes"),
            (np.linspace(0, 1, 400), ValueError, r"Unknown label type: continuous"),
            (
                np.ones((400, 3), int),
                LabelError,
                r"Multilabel.*not supported: row 0 of y holds 3 labels.*one-hot",
            ),
            (None, ValueError, r"requires y to be passed, but the target y is None"),
            (y[:7], ValueError, r"inconsistent numbers of samples: \[400, 7\]"),
        ],
        ids=["one class", "continuous", "multilabel", "none", "length"],
    )
    def test_targets(self, target, error, message):
        with pytest.raises(error, match=message):
            FedReLaSampler(LogisticRegression()).fit_resample(X, target)

    def test_folds(self):
        with pytest.raises(PartitionError, match=r"row 2 is in 0 of them.*Use KFold"):
            FedReLaSampler(LogisticRegression(), cv=[([2], [0, 1])]).fit_resample(X, y)

    def test_weights_that_nobody_takes(self):
        sampler = FedReLaSampler(make_pipeline(LogisticRegression()))
        with pytest.raises(ValueError, match=r"fit of Pipeline has no such parameter.*<step>__sample_weight"):
            sampler.fit_resample(X, y, sample_weight=np.ones(400))

    @pytest.mark.parametrize("name", ["transform", "fit_transform", "predict", "predict_proba"])
    def test_names_the_way_out(self, name):
        with pytest.raises(
            AttributeError, match=rf"has no {name}.*imblearn\.pipeline.*use RelabelingClassifier"
        ):
            getattr(FedReLaSampler(LogisticRegression()), name)

    def test_other_attributes_are_missed_as_usual(self):
        with pytest.raises(AttributeError, match=r"'FedReLaSampler' object has no attribute 'nothing'"):
            FedReLaSampler(LogisticRegression()).nothing  # noqa: B018

    def test_copies(self):
        sampler = FedReLaSampler(LogisticRegression(), random_state=0).fit(X, y)
        for twin in (deepcopy(sampler), pickle.loads(pickle.dumps(sampler))):
            assert np.array_equal(twin.relabeled_mask_, sampler.relabeled_mask_)


class TestPipelines:
    def test_equals_the_steps_by_hand(self):
        sampler = FedReLaSampler(LogisticRegression(), random_state=0)
        pipe = make_imb_pipeline(StandardScaler(), sampler, LogisticRegression()).fit(X, y)
        rows = StandardScaler().fit_transform(X)
        _, y_new = clone(sampler).fit_resample(rows, y)
        expected = LogisticRegression().fit(rows, y_new)
        assert np.array_equal(pipe.predict_proba(X), expected.predict_proba(rows))

    def test_with_another_sampler_before_or_after(self):
        steps = [FedReLaSampler(LogisticRegression(), random_state=0), SMOTE(random_state=0)]
        for order in (steps, steps[::-1]):
            pipe = make_imb_pipeline(*order, LogisticRegression()).fit(X, y)
            assert pipe.predict_proba(X).shape == (400, 3)

    def test_pipeline_with_samplers_inside_the_sampler(self):
        inner = make_imb_pipeline(StandardScaler(), RandomOverSampler(random_state=0), LogisticRegression())
        outer = make_imb_pipeline(FedReLaSampler(inner, random_state=0), clone(inner)).fit(X, y)
        assert outer.predict_proba(X).shape == (400, 3)

    def test_pipeline_that_ends_in_the_sampler(self):
        sampler = FedReLaSampler(LogisticRegression(), random_state=0)
        pipe = make_imb_pipeline(StandardScaler(), sampler)
        rows, y_new = pipe.fit_resample(X, y)
        assert np.allclose(rows, StandardScaler().fit_transform(X))
        assert (y_new != y).any()

    def test_imblearn_pipeline_last_in_sklearns(self):
        inner = ImbPipeline(
            [
                ("relabel", FedReLaSampler(LogisticRegression(), random_state=0)),
                ("model", LogisticRegression()),
            ]
        )
        pipe = Pipeline([("scale", StandardScaler()), ("rest", inner)]).fit(X, y)
        flat = make_imb_pipeline(StandardScaler(), clone(inner[0]), LogisticRegression()).fit(X, y)
        assert np.array_equal(pipe.predict_proba(X), flat.predict_proba(X))

    def test_sklearns_pipeline_last_in_imblearns(self):
        sampler = FedReLaSampler(LogisticRegression(), random_state=0)
        pipe = make_imb_pipeline(sampler, make_pipeline(StandardScaler(), LogisticRegression())).fit(X, y)
        _, y_new = clone(sampler).fit_resample(X, y)
        expected = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y_new)
        assert np.array_equal(pipe.predict_proba(X), expected.predict_proba(X))

    def test_meta_estimator_around_a_pipeline_with_the_sampler(self):
        sampler = FedReLaSampler(LogisticRegression(), random_state=0)
        inner = make_imb_pipeline(StandardScaler(), sampler, LogisticRegression())
        clf = RelabelingClassifier(inner, cv=3, random_state=0).fit(X, y)
        assert clf.predict_proba(X).shape == (400, 3)

    def test_sklearns_own_pipeline_refuses_it(self):
        pipe = make_pipeline(FedReLaSampler(LogisticRegression()), LogisticRegression())
        with pytest.raises(TypeError, match=r"intermediate steps should be transformers.*FedReLaSampler"):
            pipe.fit(X, y)

    def test_grid_search(self):
        sampler = FedReLaSampler(LogisticRegression(), FedReLaRelabeler(), random_state=0)
        grid = {
            "fedrelasampler__relabeler__tau": [0, 0.2],
            "fedrelasampler__estimator__C": [0.1, 1],
        }
        pipe = make_imb_pipeline(StandardScaler(), sampler, LogisticRegression())
        search = GridSearchCV(pipe, grid, scoring="balanced_accuracy", cv=3, error_score="raise").fit(X, y)
        assert search.best_params_["fedrelasampler__relabeler__tau"] == 0.2

    def test_metadata_is_routed(self):
        with config_context(enable_metadata_routing=True):
            model = LogisticRegression().set_fit_request(sample_weight=True)
            pipe = make_imb_pipeline(FedReLaSampler(model, cv=GroupKFold(3), random_state=0), clone(model))
            weight = np.linspace(1, 2, 400)
            pipe.fit(X, y, sample_weight=weight, groups=np.arange(400) % 6)
            expected = FedReLaSampler(model, cv=GroupKFold(3), random_state=0)
            expected.fit_resample(X, y, sample_weight=weight, groups=np.arange(400) % 6)
        assert np.isclose(pipe[0].relabeler_.class_count_.sum(), weight.sum())
        assert np.array_equal(pipe[0].relabeled_mask_, expected.relabeled_mask_)

    def test_relabeler_on_features_names_the_sampler(self):
        pipe = make_imb_pipeline(FedReLaRelabeler(), LogisticRegression())
        with pytest.raises(ValueError, match=r"FedReLaSampler and RelabelingClassifier take features"):
            pipe.fit(X, y)
