"""Rounds as they go, from any process: a bar on a terminal, a line per tenth elsewhere."""

import time
from contextlib import contextmanager, suppress
from threading import Lock

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from fedrela_sk._sklearn import close_listener, open_listener, send


class RoundReporter:
    """scikit-learn callback of a `FederatedClassifier`: tells a `RoundDisplay` of every round that ended.

    Parameters
    ----------
    address : listener handle
        Of the display, which may live in another process. If it cannot be reached, fitting goes on.

    Attributes
    ----------
    only_shows : bool
        True: it stops and keeps nothing, so that `memory` may leave out rounds.
    """

    only_shows = True

    def __init__(self, address):
        self.address = address

    def setup(self, estimator, context):
        """Nothing to prepare."""

    def teardown(self, estimator, context):
        """Nothing to put away."""

    def on_fit_task_begin(self, estimator, context):
        """Only ends are told."""

    def on_fit_task_end(self, estimator, context):
        """Send (tau, completed rounds of this fit, its rounds)."""
        if context.task_name == "round":
            with suppress(OSError, EOFError):
                send(self.address, (estimator.relabeler.tau, context.task_id + 1, estimator.n_rounds))


class RoundDisplay:
    """Shows rounds of many fits as they end.

    Use as a context manager; `reporter` goes to `set_callbacks`.

    Parameters
    ----------
    console : rich.console.Console
    """

    def __init__(self, console):
        self.console = console
        self.reporter = None
        self._stage = None
        self._lock = Lock()

    def __enter__(self):
        self.address = open_listener(self._receive)
        self.reporter = RoundReporter(self.address)
        return self

    def __exit__(self, *error):
        close_listener(self.address)

    @contextmanager
    def stage(self, name, total):
        """Show what comes in while the block runs, out of so many rounds in total."""
        stage = (_BarStage if self.console.is_terminal else _LineStage)(self.console, name, total)
        with stage:
            self._stage = stage
            try:
                yield
            finally:
                with self._lock:
                    self._stage = None

    def _receive(self, message):
        with self._lock:
            if self._stage is not None:
                self._stage.update(*message)


class _BarStage:
    """One bar that moves."""

    def __init__(self, console, name, total):
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("rounds  {task.fields[latest]}"),
            TimeElapsedColumn(),
            console=console,
        )
        self.task = self.bar.add_task(name, total=total, latest="")

    def __enter__(self):
        self.bar.start()

    def __exit__(self, *error):
        self.bar.stop()

    def update(self, tau, completed, n_rounds):
        """One more round."""
        self.bar.update(self.task, advance=1, latest=f"tau {tau:g}: round {completed} of {n_rounds}")


class _LineStage:
    """One line for every tenth of the rounds."""

    def __init__(self, console, name, total):
        self.console, self.name, self.total = console, name, total
        self.n_done, self.began = 0, time.perf_counter()

    def __enter__(self):
        self.console.print(f"{self.name}: {self.total} rounds")

    def __exit__(self, *error):
        pass

    def update(self, tau, completed, n_rounds):
        """One more round."""
        tenths = 10 * self.n_done // self.total
        self.n_done += 1
        if 10 * self.n_done // self.total > tenths:
            seconds = time.perf_counter() - self.began
            latest = f"tau {tau:g}: round {completed} of {n_rounds}"
            self.console.print(f"  {self.n_done} of {self.total} rounds, {seconds:.0f} s ({latest})")
