import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

from fedrela_sk import FederatedClassifier, FedReLaRelabeler, RelabelingClassifier
from fedrela_sk.plots import RelabelingDisplay

CHANGES = {
    "client": ["b", "a", "b", "c"],
    "old": [0, 0, 0, 2],
    "new": [1, 1, 1, 0],
    "posterior": [0.2, 0.3, 0.4, 0.6],
}


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = (X[:, 0] + rng.normal(size=300) > 1.5).astype(int)
    return X, y


def line_texts(display):
    return [text.get_text().strip() for text in display.ax_.texts]


def test_dots_stand_at_posterior_and_client():
    display = RelabelingDisplay(**CHANGES).plot()
    assert [tick.get_text() for tick in display.ax_.get_yticklabels()] == ["b", "a", "c"]
    assert line_texts(display) == ["2", "1", "1"]
    dots = display.dots_[1].get_offsets()
    np.testing.assert_allclose(dots[:, 0], [0.2, 0.3, 0.4])
    np.testing.assert_array_equal(np.round(dots[:, 1]), [0, 1, 0])
    np.testing.assert_allclose(display.dots_[0].get_offsets()[:, 0], [0.6])
    assert "4 rows relabeled at 3 of 3 clients" in display.ax_.get_title()


def test_legend_names_changes_by_class():
    display = RelabelingDisplay(**CHANGES, class_names={0: "good", 1: "bad", 2: "late"}).plot()
    legend = [text.get_text() for text in display.figure_.legends[0].get_texts()]
    assert legend == ["late → good", "good → bad"]
    mixed = RelabelingDisplay(client=["a", "a"], old=[0, 2], new=[1, 1], posterior=[0.1, 0.2]).plot()
    assert mixed.ax_.get_title().endswith("clients, → 1")
    assert not mixed.figure_.legends


def test_given_axes_hold_the_legend():
    _, ax = plt.subplots()
    display = RelabelingDisplay(**CHANGES).plot(ax)
    assert display.ax_ is ax
    assert not display.figure_.legends
    assert len(ax.get_legend().get_texts()) == 2


def test_clients_beyond_the_limit_share_the_last_line():
    sizes = {"a": 10, "b": 20, "c": 30, "d": 40}
    display = RelabelingDisplay(**CHANGES, n_rows=sizes).plot(max_clients=1)
    assert [tick.get_text() for tick in display.ax_.get_yticklabels()] == ["b", "3 others"]
    assert line_texts(display) == ["2 of 20", "2 of 80"]
    assert "at 3 of 4 clients" in display.ax_.get_title()


def test_from_a_federation(rows):
    X, y = rows
    federation = FederatedClassifier(
        clients=4, relabeler=FedReLaRelabeler(0.2), n_rounds=3, random_state=0
    ).fit(X, y)
    display = RelabelingDisplay.from_estimator(federation, class_names={1: "rare"})
    report = federation.relabel_report()
    assert len(report) > 0
    assert sum(display.counts().values()) == len(report)
    assert display.n_rows == {k: len(rows) for k, rows in enumerate(federation.clients_)}
    drawn = np.concatenate([dots.get_offsets()[:, 0] for dots in display.dots_.values()])
    np.testing.assert_allclose(np.sort(drawn), np.sort(report.posterior))


def test_from_one_site(rows):
    X, y = rows
    model = RelabelingClassifier(LogisticRegression(), FedReLaRelabeler(0.2), random_state=0).fit(X, y)
    display = RelabelingDisplay.from_estimator(model)
    assert display.counts() == {"all rows": int(model.relabeled_mask_.sum())}


def test_nothing_relabeled(rows):
    X, y = rows
    federation = FederatedClassifier(
        clients=4, relabeler=FedReLaRelabeler(0.0), n_rounds=3, random_state=0
    ).fit(X, y)
    display = RelabelingDisplay.from_estimator(federation)
    assert display.dots_ == {}
    assert display.ax_.get_title() == "0 rows relabeled at 0 of 4 clients"


def test_unfitted():
    with pytest.raises(NotFittedError):
        RelabelingDisplay.from_estimator(FederatedClassifier())
