import numpy as np
import pytest
from sklearn import config_context
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from fedrela_sk import FedReLaRelabeler, RelabelingClassifier
from fedrela_sk._random import Purpose, uniforms
from fedrela_sk.exceptions import LabelError
from fedrela_sk.relabel._one_site import FirstStage, draw_labels, first_stage, router, routing, unfrozen

rng = np.random.RandomState(0)
y = np.repeat(["common", "rare"], [40, 12])
X = rng.normal(size=(52, 2)) + (y == "rare")[:, None]


def stage_of(estimator, labels=y, cv=4, response_method="auto", **fit_params):
    return first_stage(
        estimator,
        X,
        labels,
        cv=cv,
        response_method=response_method,
        fit_params=fit_params,
        groups={},
        n_jobs=None,
        seed=0,
    )


def test_unfrozen():
    model = LogisticRegression()
    assert unfrozen(model) is model
    assert unfrozen(FrozenEstimator(FrozenEstimator(model))) is model


class TestFirstStage:
    def test_out_of_fold(self):
        stage = stage_of(LogisticRegression())
        expected = cross_val_predict(LogisticRegression(), X, y, cv=4, method="predict_proba")
        assert np.array_equal(stage.responses, expected)
        assert stage.classes.tolist() == ["common", "rare"]
        assert stage.method == "predict_proba"
        assert stage.model is None

    def test_insample_keeps_the_model(self):
        stage = stage_of(LogisticRegression(), cv="insample")
        assert np.array_equal(stage.responses, stage.model.predict_proba(X))

    def test_frozen_ignores_cv(self):
        model = LogisticRegression().fit(X[::2], y[::2])
        for cv in (4, "insample"):
            stage = stage_of(FrozenEstimator(model), cv=cv)
            assert np.array_equal(stage.responses, model.predict_proba(X))
            assert unfrozen(stage.model) is model

    def test_metadata_reaches_every_fit(self):
        weight = np.linspace(0.1, 5, 52)
        for cv in (4, "insample"):
            assert not np.array_equal(
                stage_of(LogisticRegression(), cv=cv).responses,
                stage_of(LogisticRegression(), cv=cv, sample_weight=weight).responses,
            )

    def test_scores(self):
        stage = stage_of(LinearSVC())
        assert stage.method == "decision_function"
        assert np.array_equal(stage.responses[:, 0], -stage.responses[:, 1])

    def test_one_class(self):
        with pytest.raises(LabelError, match=r"y has 1 class \(.*only.*\).*at least 2 classes"):
            stage_of(LogisticRegression(), labels=np.full(52, "only"))


class TestDrawLabels:
    STAGE = stage_of(LogisticRegression())

    def draw(self, relabeler, stage=STAGE, sample_weight=None, seed=7):
        return draw_labels(relabeler, stage, y, sample_weight=sample_weight, seed=seed)

    def test_facts_are_told(self):
        drawn = self.draw(FedReLaRelabeler(classes=["x"], input="score"))
        assert drawn.relabeler.classes.tolist() == ["common", "rare"]
        assert drawn.relabeler.input == "posterior"
        assert drawn.relabeler.random_state == 7

    def test_seed_of_the_user_is_kept(self):
        assert self.draw(FedReLaRelabeler(random_state=3)).relabeler.random_state == 3

    def test_scores_are_called_scores(self):
        stage = FirstStage(3 * self.STAGE.responses, self.STAGE.classes, "decision_function", None)
        assert self.draw(None, stage).relabeler.input == "score"

    def test_none_is_the_default(self):
        one, two = self.draw(None), self.draw(FedReLaRelabeler())
        assert np.array_equal(one.labels, two.labels)
        assert one.keep.all()
        assert np.array_equal(one.changed, one.labels != y)
        assert one.changed.any()

    def test_weights(self):
        drawn = self.draw(None, sample_weight=np.full(52, 2.0))
        assert drawn.relabeler.class_count_.tolist() == [80, 24]

    def test_plain_objects(self):
        class Plain:
            def fit(self, Q, y):
                self.rows_ = len(Q)

            def relabel(self, Q, y, uniforms=None):
                self.uniforms_ = uniforms
                return y.tolist(), [True] * 50 + [False] * 2

        plain = Plain()
        drawn = self.draw(plain, sample_weight=np.ones(52))
        assert not hasattr(plain, "rows_")  # a copy was fitted
        assert drawn.relabeler.rows_ == 52
        assert np.array_equal(drawn.relabeler.uniforms_, uniforms(7, Purpose.RELABEL, (52, 2)))
        assert not drawn.changed.any()
        assert drawn.keep.dtype == bool
        assert drawn.keep.sum() == 50

    def test_relabelers_own_stream_is_the_seeds(self):
        stage, classes = self.STAGE.responses, self.STAGE.classes
        by_hand = FedReLaRelabeler(classes=classes).fit(stage, y)
        expected = by_hand.relabel(stage, y, uniforms=uniforms(7, Purpose.RELABEL, (52, 2)))
        assert np.array_equal(self.draw(None).labels, expected)


class TestRouting:
    CLF = RelabelingClassifier(LogisticRegression(), cv=GroupKFold(2))

    def test_without_routing(self):
        given = {"groups": [1], "sample_weight": [2], "other": None, "more": 3}
        fit_params, split_params = routing(self.CLF, "fit", self.CLF.estimator, given)
        assert fit_params == {"sample_weight": [2], "more": 3}
        assert split_params == {"groups": [1]}
        assert set(given) == {"groups", "sample_weight", "other", "more"}

    def test_nothing_given(self):
        assert routing(self.CLF, "fit", self.CLF.estimator, {"sample_weight": None}) == ({}, {})

    def test_weights_refused(self):
        with pytest.raises(ValueError, match=r"fit of Pipeline has no such parameter.*<step>__sample_weight"):
            routing(self.CLF, "fit", make_pipeline(LogisticRegression()), {"sample_weight": [1]})

    def test_with_routing(self):
        with config_context(enable_metadata_routing=True):
            clf = RelabelingClassifier(
                LogisticRegression().set_fit_request(sample_weight="w"), cv=GroupKFold(2)
            )
            fit_params, split_params = routing(clf, "fit", clf.estimator, {"w": [1], "groups": [2]})
        assert fit_params == {"sample_weight": [1]}
        assert split_params == {"groups": [2]}

    def test_router_leaves_unknown_methods_out(self):
        found = router(self.CLF, ["fit", "fit_nothing"])
        assert found.consumes("fit", {"groups"}) == {"groups"}
