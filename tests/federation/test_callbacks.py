"""Callbacks of two kinds: scikit-learn's over rounds, skorch's inside a client's local training."""

import logging

import numpy as np
import pytest
import torch
from sklearn.callback import ProgressBar, ScoringMonitor
from sklearn.metrics import make_scorer, recall_score
from sklearn.model_selection import GridSearchCV
from skorch.callbacks import Callback, EarlyStopping, GradientNormClipping

from fedrela_sk import FederatedClassifier, FedReLaRelabeler
from fedrela_sk.exceptions import ClientError
from tests.federation.helpers import (
    assert_same_weights,
    make_fed,
    make_net,
    make_rows,
    weights_of,
)

X, Y = make_rows(60)


class Recorder:
    """A callback of scikit-learn's protocol that writes down what it sees, and stops when told to."""

    def __init__(self, stop_after=None):
        self.stop_after = stop_after
        self.events, self.fitted = [], []

    def setup(self, estimator, context):
        self.events.append("setup")

    def teardown(self, estimator, context):
        self.events.append("teardown")

    def on_fit_task_begin(self, estimator, context, *, X=None, y=None):
        self.events.append(("begin", context.task_name, context.task_id))
        self.data = (X, y)

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, metadata=None, fitted_estimator=None):
        self.events.append(("end", context.task_name, context.task_id))
        self.data, self.metadata = (X, y), metadata
        self.fitted.append(fitted_estimator)
        return context.task_name == "round" and context.task_id == self.stop_after


def test_rounds_are_the_tasks():
    recorder = Recorder()
    fed = make_fed(n_rounds=2).set_callbacks(recorder)
    assert fed.fit(X, Y) is fed
    rounds = [(event, "round", k) for k in range(2) for event in ("begin", "end")]
    assert recorder.events == ["setup", ("begin", "fit", 0), *rounds, ("end", "fit", 0), "teardown"]


def test_callbacks_see_the_data_as_they_were_given():
    recorder, rows, weights = Recorder(), X.tolist(), np.ones(60)
    make_fed(n_rounds=1).set_callbacks(recorder).fit(rows, Y, sample_weight=weights)
    assert recorder.data[0] is rows
    assert recorder.data[1] is Y
    assert recorder.metadata["sample_weight"] is weights


def test_a_callback_changes_nothing():
    assert_same_weights(make_fed().set_callbacks(Recorder()).fit(X, Y), make_fed().fit(X, Y))


@pytest.mark.parametrize("algorithm", ["fedavg", "local_only"])
def test_each_round_gives_an_estimator_that_stays_as_it_was(algorithm):
    recorder, common = (
        Recorder(),
        {"algorithm": algorithm, "relabeler": FedReLaRelabeler(0.3), "relabel_at": 2},
    )
    net = make_net(optimizer=torch.optim.Adam, batch_size=16)
    last = make_fed(net, n_rounds=4, **common).set_callbacks(recorder).fit(X, Y)
    for n_rounds, fitted in enumerate(recorder.fitted[:4], start=1):
        assert isinstance(fitted, FederatedClassifier)
        assert fitted is not last
        short = make_fed(net, n_rounds=n_rounds, **common).fit(X, Y)
        other = X.copy()  # to a callback the rows of the fit are those of their own clients
        np.testing.assert_array_equal(fitted.predict_proba(other), short.predict_proba(other))
        np.testing.assert_array_equal(fitted.y_relabeled_, short.y_relabeled_)
        assert len(fitted.history_) == n_rounds
        assert len(fitted.relabel_report()) == len(short.relabel_report())
    np.testing.assert_array_equal(recorder.fitted[4].predict_proba(X.copy()), last.predict_proba(X))


def test_a_callback_that_returns_true_stops_the_fit():
    recorder = Recorder(stop_after=1)
    fed = make_fed(n_rounds=10, relabeler=FedReLaRelabeler(0.3)).set_callbacks(recorder).fit(X, Y)
    assert len(fed.history_) == 2
    assert fed.history_.notes == ["A callback stopped the fit after round 1."]
    assert not fed.relabeled_mask_.any()
    assert_same_weights(fed, make_fed(n_rounds=2).fit(X, Y))
    assert recorder.events[-2:] == [("end", "fit", 0), "teardown"]


def test_a_fit_that_fails_tears_down():
    recorder = Recorder()
    with pytest.raises(ClientError):
        make_fed(make_net(lr=1e308), n_rounds=5).set_callbacks(recorder).fit(X, Y)
    assert recorder.events[-1] == "teardown"


def test_a_scoring_monitor_scores_every_round():
    recall = make_scorer(recall_score, average="macro", zero_division=0)
    monitor = ScoringMonitor(scoring={"recall": recall})
    fed = make_fed(n_rounds=3).set_callbacks(monitor).fit(X, Y)
    log = [row for row in monitor.get_logs().data if row["task_name"] == "round"]
    assert [row["task_id"] for row in log] == [0, 1, 2]
    assert log[-1]["recall"] == recall(fed, X, Y)


@pytest.mark.parametrize("search", [False, True])
def test_a_progress_bar(search, capsys):
    pytest.importorskip("rich")
    fed = make_fed(n_rounds=2)
    if search:
        fed = GridSearchCV(fed, {"n_rounds": [1, 2]}, cv=2)
    fed.set_callbacks(ProgressBar()).fit(X, Y)
    assert "FederatedClassifier" in capsys.readouterr().out


def test_only_instances_of_the_protocol_are_taken():
    with pytest.raises(TypeError, match="FitCallback protocol"):
        make_fed().set_callbacks(GradientNormClipping())


# skorch's own kind ------------------------------------------------------------------------------------


class Events(Callback):
    """Names of the hooks in the order in which they are called."""

    seen = []

    def on_train_begin(self, net, X=None, y=None, **kwargs):
        Events.seen.append(("train_begin", len(X), len(y)))

    def on_train_end(self, net, **kwargs):
        Events.seen.append("train_end")

    def on_epoch_begin(self, net, **kwargs):
        Events.seen.append("epoch_begin")

    def on_epoch_end(self, net, **kwargs):
        Events.seen.append(("epoch_end", net.history[-1, "train_loss"] > 0))

    def on_batch_end(self, net, batch=None, training=None, loss=None, **kwargs):
        Events.seen.append(("batch_end", training, len(batch[1])))

    def on_grad_computed(self, net, named_parameters=None, **kwargs):
        assert all(p.grad is not None for _, p in named_parameters)


def test_the_users_own_callbacks_run_at_every_client():
    Events.seen.clear()
    net = make_net(batch_size=16, max_epochs=2, callbacks=[("events", Events())])
    fed = make_fed(net, clients=2, n_rounds=1).fit(X, Y)
    epoch = ["epoch_begin", ("batch_end", True, 16), ("batch_end", True, 14), ("epoch_end", True)]
    client = [("train_begin", 30, 30), *epoch, *epoch, "train_end"]
    starts = [event for event in Events.seen if event[0] == "train_begin" and event[1] != 30]
    assert [event for event in Events.seen if event not in starts] == client * 2
    assert_same_weights(fed, make_fed(make_net(batch_size=16, max_epochs=2), clients=2, n_rounds=1).fit(X, Y))


def test_skorchs_default_callbacks_say_nothing(capsys):
    make_fed(make_net(verbose=1)).fit(X, Y)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("engine", ["loop", "stacked"])
@pytest.mark.parametrize("bound", [0.05, 1e6])
def test_gradients_are_clipped_per_client_and_step(engine, bound):
    net = make_net(callbacks=[GradientNormClipping(bound)])
    fed = make_fed(net, clients=1, n_rounds=1, engine=engine).fit(X, Y)
    free = weights_of(make_fed(clients=1, n_rounds=1, lr_schedule=lambda round: 0.0).fit(X, Y))
    full = weights_of(make_fed(clients=1, n_rounds=1).fit(X, Y))
    step = np.concatenate([(full[name] - free[name]).ravel() for name in full])
    clipped = np.concatenate([(weights_of(fed)[name] - free[name]).ravel() for name in full])
    norm = np.linalg.norm(step) / 0.1
    factor = min(1.0, bound / (norm + 1e-6))
    assert (factor < 1) == (bound < 1)
    np.testing.assert_allclose(clipped, factor * step, rtol=0, atol=1e-12)


class StopAt(Callback):
    """Stops local training as skorch's own callbacks do."""

    def __init__(self, hook, epoch=1):
        self.hook = hook
        self.epoch = epoch

    def on_epoch_end(self, net, **kwargs):
        if self.hook == "epoch_end" and len(net.history) == self.epoch:
            raise KeyboardInterrupt

    def on_batch_end(self, net, **kwargs):
        if self.hook == "batch_end":
            raise KeyboardInterrupt


def test_early_stopping_ends_one_clients_local_training_alone():
    net = make_net(batch_size=8, max_epochs=5, callbacks=[StopAt("epoch_end", 2)])
    fed = make_fed(net, n_rounds=2).fit(X, Y)
    assert_same_weights(fed, make_fed(make_net(batch_size=8, max_epochs=2), n_rounds=2).fit(X, Y))
    assert [record.participants for record in fed.history_] == [(0, 1, 2)] * 2
    assert [record.n_steps for record in fed.history_] == [3 * 2 * 3] * 2


def test_stopping_in_the_middle_of_an_epoch():
    fed = make_fed(make_net(batch_size=8, callbacks=[StopAt("batch_end")]), n_rounds=1).fit(X, Y)
    assert fed.history_[0].n_steps == 3
    assert np.isfinite(fed.history_[0].train_loss)


def test_skorchs_early_stopping():
    stopper = EarlyStopping(
        monitor="train_loss", patience=1, threshold=10.0, threshold_mode="abs", sink=lambda *_: None
    )
    fed = make_fed(make_net(max_epochs=9, callbacks=[stopper]), clients=2, n_rounds=3).fit(X, Y)
    # the second epoch does not improve; each client and round starts to count anew
    assert [record.n_steps for record in fed.history_] == [2 * 2] * 3


def test_a_real_interrupt_goes_up():
    class Interrupted(torch.nn.Linear):
        def forward(self, X):
            if self.training:
                raise KeyboardInterrupt
            return super().forward(X)

    net = make_net(Interrupted, module__in_features=3, module__out_features=3)
    with pytest.raises(KeyboardInterrupt):
        make_fed(net).fit(X, Y)


def test_a_failing_callback_names_client_and_round():
    class Broken(Callback):
        def on_epoch_end(self, net, **kwargs):
            raise RuntimeError("no space left")

    with pytest.raises(ClientError, match=r"Client 0 failed in round 0: RuntimeError: no space left"):
        make_fed(make_net(callbacks=[Broken()])).fit(X, Y)


# logging ----------------------------------------------------------------------------------------------


def test_one_line_a_round_goes_to_the_logger(caplog):
    with caplog.at_level(logging.INFO, logger="fedrela_sk"):
        make_fed(n_rounds=3, relabeler=FedReLaRelabeler(0.4), verbose=1, validation=0.2).fit(X, Y)
    lines = [record.getMessage() for record in caplog.records if record.name == "fedrela_sk"]
    assert len(lines) == 3
    assert lines[0].startswith("round 1/3, 3 clients, loss ")
    assert ", validation 0." in lines[0]
    assert "relabeled" not in lines[0]
    assert "rows relabeled at 3 clients" in lines[2]
    assert lines[2].endswith(" s")


def test_silence_is_the_default(caplog, capsys):
    with caplog.at_level(logging.DEBUG):
        make_fed().fit(X, Y)
    assert not [record for record in caplog.records if record.name == "fedrela_sk"]
    captured = capsys.readouterr()
    assert captured.out + captured.err == ""


def test_lines_are_shown_where_logging_is_not_set_up(capsys):
    logger, root = logging.getLogger("fedrela_sk"), logging.getLogger()
    handlers, root.handlers = root.handlers, []
    level = logger.level
    try:
        make_fed(n_rounds=2, verbose=1).fit(X, Y)
    finally:
        root.handlers = handlers
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(",")[0] for line in lines] == ["round 1/2", "round 2/2"]
    assert logger.handlers == []
    assert logger.level == level
