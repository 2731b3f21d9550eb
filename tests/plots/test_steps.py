import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_rgba
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

from fedrela_sk import FedReLaRelabeler
from fedrela_sk.plots import FedReLaStepsDisplay
from fedrela_sk.plots._axes import color_of

NAMES = {0: "good", 1: "bad"}


@pytest.fixture
def two_classes():
    rng = np.random.default_rng(0)
    p = rng.uniform(0.01, 0.6, 60)
    return np.column_stack([1 - p, p]), np.repeat([0, 1], [50, 10])


@pytest.fixture
def three_classes():
    rng = np.random.default_rng(1)
    return rng.dirichlet([1, 1, 1], 90), np.repeat(["a", "b", "c"], [60, 20, 10])


def test_numbers_are_those_of_the_relabeler(two_classes):
    Q, y = two_classes
    relabeler = FedReLaRelabeler(0.2, random_state=3)
    display = FedReLaStepsDisplay.from_predictions(Q, y, relabeler)
    fitted = FedReLaRelabeler(0.2, random_state=3).fit(Q, y)
    assert display.target == 1
    assert display.threshold == fitted.threshold_[1]
    np.testing.assert_array_equal(display.posterior, Q[:, 1])
    np.testing.assert_array_equal(display.rho, fitted.relabel_proba(Q, y)[:, 1])
    np.testing.assert_array_equal(display.new_label, fitted.relabel(Q, y))
    good = Q[y == 0, 1]
    np.testing.assert_allclose(display.z[y == 0], (good - good.mean()) / good.std(ddof=1))
    weight = 1.0  # of the rarest class over the most frequent
    expected = np.maximum(np.tanh(display.z[y == 0] - display.threshold) * weight, 0)
    np.testing.assert_allclose(display.rho[y == 0], expected, atol=1e-12)
    assert not hasattr(relabeler, "threshold_")


def test_panels_hold_the_numbers(two_classes):
    Q, y = two_classes
    display = FedReLaStepsDisplay.from_predictions(
        Q, y, FedReLaRelabeler(0.2, random_state=3), class_names=NAMES
    )
    posterior, z, rho, label = display.axes_
    assert [text.get_text() for text in posterior.get_legend().get_texts()] == ["good", "bad"]
    assert sum(bar.get_height() for bar in posterior.patches) == 60
    assert sum(bar.get_height() for bar in z.patches) == 60
    assert set(z.lines[0].get_xdata()) == {display.threshold}
    good, bad, drawn = rho.collections
    moved = display.new_label != y
    assert moved.sum() > 0
    np.testing.assert_allclose(good.get_offsets(), np.column_stack([display.z, display.rho])[y == 0])
    np.testing.assert_allclose(bad.get_offsets(), np.column_stack([display.z, display.rho])[y == 1])
    np.testing.assert_allclose(drawn.get_offsets(), np.column_stack([display.z, display.rho])[moved])
    lines = [tick.get_text() for tick in label.get_yticklabels()]
    assert lines == [f"good\n({50 - moved.sum()})", f"good\n→ bad\n({moved.sum()})", "bad\n(10)"]
    assert [len(dots.get_offsets()) for dots in label.collections] == [50 - moved.sum(), moved.sum(), 10]
    np.testing.assert_allclose(label.collections[1].get_offsets()[:, 0], Q[moved, 1])
    assert tuple(label.collections[1].get_facecolor()[0][:3]) == to_rgba(color_of(1))[:3]


def test_uniforms_decide_the_draw(two_classes):
    Q, y = two_classes
    all_of_them = FedReLaStepsDisplay.from_predictions(
        Q, y, FedReLaRelabeler(0.2), uniforms=np.zeros(Q.shape)
    )
    np.testing.assert_array_equal(all_of_them.new_label != y, all_of_them.rho > 0)


def test_one_column_stands_for_two(two_classes):
    Q, y = two_classes
    short = FedReLaStepsDisplay.from_predictions(Q[:, 1:], y, FedReLaRelabeler(random_state=0))
    long = FedReLaStepsDisplay.from_predictions(Q, y, FedReLaRelabeler(random_state=0))
    np.testing.assert_allclose(short.rho, long.rho, atol=1e-9)
    scores = np.log(Q[:, 1:]) - np.log(Q[:, :1])
    scored = FedReLaStepsDisplay.from_predictions(scores, y, FedReLaRelabeler(input="score", random_state=0))
    np.testing.assert_array_equal(scored.posterior, scores[:, 0])


def test_at_tau_zero_there_is_no_threshold_to_draw(two_classes):
    Q, y = two_classes
    display = FedReLaStepsDisplay.from_predictions(Q, y, FedReLaRelabeler(0))
    assert display.threshold == np.inf
    assert display.target == 1
    assert not display.axes_[1].lines
    assert not np.asarray(display.rho).any()


def test_three_classes_of_strings(three_classes):
    Q, y = three_classes
    display = FedReLaStepsDisplay.from_predictions(Q, y, FedReLaRelabeler(0.3), target="b")
    assert display.target == "b"
    lines = [tick.get_text() for tick in display.axes_[3].get_yticklabels()]
    assert lines[0].startswith("a\n")
    assert lines[1].startswith("c\n")
    assert lines[2].startswith("other\n→ b")
    assert lines[3].startswith("b\n")
    relabeled = FedReLaStepsDisplay.from_predictions(Q, y, FedReLaRelabeler(0.3, random_state=0))
    new = relabeled.new_label
    names, counts = np.unique(new[new != y], return_counts=True)
    assert relabeled.target == names[counts.argmax()]


def test_a_target_that_no_row_has(two_classes):
    Q, _ = two_classes
    display = FedReLaStepsDisplay.from_predictions(
        Q, np.zeros(60, dtype=int), FedReLaRelabeler(classes=[0, 1])
    )
    assert display.target == 1
    assert len(display.axes_[3].collections) == 2


def test_from_estimator_on_given_axes(two_classes):
    Q, y = two_classes
    X = np.log(Q)
    model = LogisticRegression().fit(X, y)
    _, axes = plt.subplots(2, 2)
    display = FedReLaStepsDisplay.from_estimator(model, X, y, ax=axes)
    assert display.axes_.tolist() == axes.ravel().tolist()
    np.testing.assert_array_equal(display.posterior, model.predict_proba(X)[:, 1])


def test_errors(two_classes):
    Q, y = two_classes
    with pytest.raises(ValueError, match=r"target must be one of the classes \[0, 1\], got 7"):
        FedReLaStepsDisplay.from_predictions(Q, y, target=7)
    with pytest.raises(ValueError, match="FedReLaStepsDisplay draws 4 panels, but ax has 1 axes"):
        FedReLaStepsDisplay.from_predictions(Q, y, ax=plt.figure().subplots())
    with pytest.raises(NotFittedError):
        FedReLaStepsDisplay.from_estimator(LogisticRegression(), Q, y)


@pytest.mark.parametrize("kind", [object, "U4"])
def test_labels_of_any_kind_have_names(two_classes, kind):
    Q, y = two_classes
    display = FedReLaStepsDisplay.from_predictions(Q, np.array(["good", "zero"])[y].astype(kind))
    assert display.target == "zero"
    plt.close(display.figure_)
