import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV

from fedrela_sk import FedReLaRelabeler, RelabelingClassifier
from fedrela_sk.plots import TauCurveDisplay

RESULTS = {
    "param_a__tau": np.ma.array([0.1, 0.0]),
    "split0_test_recall": np.array([0.4, 0.1]),
    "split1_test_recall": np.array([0.6, 0.1]),
    "split0_test_f1": np.array([0.3, 0.2]),
    "split1_test_f1": np.array([0.3, 0.4]),
    "split0_train_f1": np.array([9.0, 9.0]),
    "mean_test_f1": np.array([9.0, 9.0]),
}


def drawn(display, position):
    """x, y and half lengths of the bars of one panel."""
    bars = display.axes_[position].containers[0]
    x, y = bars.lines[0].get_data()
    low, high = (cap.get_ydata() for cap in bars.lines[1])
    np.testing.assert_allclose(y - low, high - y, atol=1e-12)
    return np.asarray(x), np.asarray(y), high - y


def test_means_and_sample_deviations_over_folds_are_drawn_over_ascending_tau():
    display = TauCurveDisplay.from_cv_results(RESULTS)
    assert [ax.get_title() for ax in display.axes_] == ["recall", "f1"]
    x, y, bars = drawn(display, 0)
    np.testing.assert_allclose(x, [0, 0.1])
    np.testing.assert_allclose(y, [0.1, 0.5])
    np.testing.assert_allclose(bars, [0, np.std([0.4, 0.6], ddof=1)], atol=1e-12)
    _, y, bars = drawn(display, 1)
    np.testing.assert_allclose(y, [0.3, 0.3])
    np.testing.assert_allclose(bars, [np.std([0.2, 0.4], ddof=1), 0], atol=1e-12)


def test_metrics_are_chosen_and_ordered():
    display = TauCurveDisplay.from_cv_results(RESULTS, metrics=["f1"])
    assert [ax.get_title() for ax in display.axes_] == ["f1"]
    np.testing.assert_allclose(display.lines_[0].get_ydata(), [0.3, 0.3])


def test_best_candidate_stands_for_a_tau_that_occurs_twice():
    results = RESULTS | {"param_a__tau": np.array([0.1, 0.1]), "param_c": np.array([1, 2])}
    display = TauCurveDisplay.from_cv_results(results, metrics=["recall"])
    assert display.tau.tolist() == [0.1]
    np.testing.assert_allclose(display.scores["recall"], [0.5])


def test_references_and_the_choice_are_lines():
    display = TauCurveDisplay(
        tau=[0, 0.2],
        scores={"recall": [0.1, 0.3], "f1": [0.2, 0.3]},
        spread={"recall": [0, 0], "f1": [0, 0]},
        chosen=0.2,
        references={"boosting": {"recall": 0.5}},
    ).plot()
    lines = {line.get_label(): line for line in display.axes_[0].lines}
    assert set(lines["boosting"].get_ydata()) == {0.5}
    assert set(lines["chosen tau"].get_xdata()) == {0.2}
    unknown = {line.get_label(): line for line in display.axes_[1].lines}["boosting"]
    assert np.isnan(unknown.get_ydata()).all()
    legend = [text.get_text() for text in display.figure_.legends[0].get_texts()]
    assert legend == ["boosting", "chosen tau", "over tau: mean and standard deviation over folds"]


def test_given_axes_hold_the_legend():
    _, ax = plt.subplots()
    display = TauCurveDisplay.from_cv_results(RESULTS, metrics=["f1"], ax=ax)
    assert display.axes_.tolist() == [ax]
    assert not display.figure_.legends
    assert ax.get_legend() is not None


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    return X, (X[:, 0] + rng.normal(size=120) > 1.0).astype(int)


MODEL = RelabelingClassifier(LogisticRegression(), FedReLaRelabeler(), cv=2, random_state=0)


def test_from_estimator_marks_what_the_search_chose(rows):
    grid = {"relabeler__tau": [0.0, 0.3], "estimator__C": [0.1, 1.0]}
    search = GridSearchCV(MODEL, grid, scoring="balanced_accuracy", cv=2).fit(*rows)
    display = TauCurveDisplay.from_estimator(search)
    assert display.chosen == search.best_params_["relabeler__tau"]
    assert display.scores["score"].max() == pytest.approx(search.best_score_)
    assert [ax.get_title() for ax in display.axes_] == ["score"]


def test_a_search_without_a_choice_marks_none(rows):
    search = GridSearchCV(MODEL, {"relabeler__tau": [0.0]}, scoring=["recall", "f1"], refit=False, cv=2).fit(
        *rows
    )
    display = TauCurveDisplay.from_estimator(search)
    assert display.chosen is None
    assert set(display.scores) == {"recall", "f1"}


def test_unfitted_search():
    with pytest.raises(NotFittedError):
        TauCurveDisplay.from_estimator(GridSearchCV(LogisticRegression(), {"C": [1]}))


@pytest.mark.parametrize(
    ("results", "options", "message"),
    [
        (RESULTS, {"metrics": ["recal"]}, r"no metric 'recal'; it has \['f1', 'recall'\]"),
        (RESULTS, {"param": "tau"}, r"no parameter 'tau'; it has \['a__tau'\]"),
        ({"param_C": [1]}, {}, r"one parameter that ends in 'tau'.*got \[\] of \['C'\]. Pass param="),
        ({"param_a__tau": [0], "param_b__tau": [0]}, {}, r"got \['a__tau', 'b__tau'\]"),
        ({"param_tau": [0.1]}, {}, r"no key like 'split0_test_score'; its keys are \['param_tau'\]"),
    ],
)
def test_errors(results, options, message):
    with pytest.raises(ValueError, match=message):
        TauCurveDisplay.from_cv_results(results, **options)
