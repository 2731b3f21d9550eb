"""`memory` and scikit-learn's callbacks: whoever watches rounds sees all of them, cold or warm."""

import numpy as np
import pytest
from sklearn.callback import ProgressBar, ScoringMonitor
from sklearn.metrics import make_scorer, recall_score
from sklearn.model_selection import GridSearchCV

from fedrela_sk.exceptions import MemoryWarning
from tests.federation.cache.test_rounds import X, Y, assert_same, entries, fit, make

RECALL = make_scorer(recall_score, average="macro", zero_division=0)


class Watcher:
    """Stops the fit after a round, and writes down which rounds it saw."""

    def __init__(self, stop_after=None):
        self.stop_after, self.seen = stop_after, []

    def setup(self, estimator, context):
        """Nothing to set up."""

    def teardown(self, estimator, context):
        """Nothing to take down."""

    def on_fit_task_begin(self, estimator, context):
        """Nothing to do."""

    def on_fit_task_end(self, estimator, context):
        if context.task_name == "round":
            self.seen.append(context.task_id)
        return context.task_id == self.stop_after and context.task_name == "round"


class Half(Watcher):
    """Does not stop, but changes what training uses."""

    def on_fit_task_end(self, estimator, context):
        estimator.lr_schedule.factor *= 0.5


class Schedule:
    def __init__(self):
        self.factor = 1.0

    def __call__(self, t):
        return self.factor


@pytest.mark.parametrize("stop_after", [0, 1, 2, None])
@pytest.mark.parametrize("stored_before", [False, True])
def test_a_callback_sees_and_stops_the_same_rounds_cold_and_warm(tmp_path, stop_after, stored_before):
    if stored_before:
        fit(tmp_path)
    plain_watcher = Watcher(stop_after)
    plain = make().set_callbacks(plain_watcher).fit(X, Y)
    for _ in range(2):
        watcher = Watcher(stop_after)
        with pytest.warns(
            MemoryWarning, match="memory is not used: the callback Watcher watches every round"
        ):
            found = make(tmp_path).set_callbacks(watcher).fit(X, Y)
        assert_same(found, plain)
        assert watcher.seen == plain_watcher.seen
    assert len(entries(tmp_path)) == stored_before


class Shows(Watcher):
    only_shows = True


def test_a_callback_that_only_shows_leaves_memory_on(tmp_path):
    """It is told of the rounds that are run."""
    plain = fit()
    for n_seen in (4, 2):
        shows = Shows()
        assert_same(make(tmp_path).set_callbacks(shows).fit(X, Y), plain)
        assert len(shows.seen) == n_seen
    assert len(entries(tmp_path)) == 1


def test_the_callback_of_the_command_only_shows():
    pytest.importorskip("rich")
    from fedrela_sk._main._progress import RoundReporter

    assert RoundReporter.only_shows is True


def test_a_callback_that_changes_training_changes_it_cold_and_warm(tmp_path):
    def run(memory):
        return make(memory, lr_schedule=Schedule()).set_callbacks(Half()).fit(X, Y)

    fit(tmp_path, lr_schedule=Schedule())
    with pytest.warns(MemoryWarning):
        found = run(tmp_path)
    assert_same(found, run(None))
    assert not np.array_equal(found.predict_proba(X), fit(lr_schedule=Schedule()).predict_proba(X))


def test_a_scoring_monitor_has_the_same_records_cold_and_warm(tmp_path):
    logs = []
    fit(tmp_path)
    for memory in (None, tmp_path, tmp_path):
        monitor = ScoringMonitor(scoring={"recall": RECALL})
        fed = make(memory).set_callbacks(monitor)
        if memory is None:
            fed.fit(X, Y)
        else:
            with pytest.warns(MemoryWarning, match="ScoringMonitor"):
                fed.fit(X, Y)
        logs.append([(row["task_name"], row["task_id"], row["recall"]) for row in monitor.get_logs().data])
    assert logs[0] == logs[1] == logs[2]
    assert [row[1] for row in logs[0] if row[0] == "round"] == [0, 1, 2, 3]


@pytest.mark.parametrize("search", [False, True])
def test_a_progress_bar_fills_up_cold_and_warm(tmp_path, search, capsys, monkeypatch):
    rich = pytest.importorskip("rich")
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(
        rich, "_console", None
    )  # one that another test left has its own width, and cuts the bars
    plain = fit()
    for _ in range(2):
        fed = make(tmp_path)
        if search:
            fed = GridSearchCV(fed, {"relabeler__tau": [0.1, 0.2]}, cv=2, refit=False)
            fed.set_callbacks(ProgressBar()).fit(X, Y)
        else:
            assert_same(fed.set_callbacks(ProgressBar()).fit(X, Y), plain)
        shown = [line for line in capsys.readouterr().out.splitlines() if "FederatedClassifier" in line]
        assert shown
        assert all("100%" in line for line in shown)
    assert len(entries(tmp_path)) == (2 if search else 1)
